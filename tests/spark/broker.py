"""A real Kafka broker for tests, on loopback and free ports, and the jars that Spark needs to speak with it.

Jars are fetched by Maven, by their coordinates alone, once, into build/jars. Where that is not possible the tests fail
and say what to do. The broker ends with the process that started it, however that ends.
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import json
import shutil
import socket
import subprocess
import sys
import time
import uuid
from pathlib import Path

POMS = Path(__file__).parent / "kafka"
JARS = Path(__file__).parents[2] / "build" / "jars"

# Runs a command until it is told to kill it, or until nobody is there any more who could tell.
_KEEPER = """
import subprocess, sys
child = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL)
sys.stdin.readline()
child.kill()
child.wait()
"""

_SETTINGS = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
log.dirs={data}
num.partitions=3
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
broker.session.timeout.ms=1500
broker.heartbeat.interval.ms=300
group.initial.rebalance.delay.ms=0
log.retention.check.interval.ms=600000
"""


def jars(pom: str) -> list[str]:
    """The jars that a pom below tests/spark/kafka names, fetched if they are not here yet."""
    path = POMS / pom
    folder = JARS / f"{path.stem}-{hashlib.sha256(path.read_bytes()).hexdigest()[:12]}"
    JARS.mkdir(parents=True, exist_ok=True)
    with (JARS / f"{path.stem}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            _fetch(path, folder)
    return sorted(str(jar) for jar in folder.glob("*.jar"))


def _fetch(pom: Path, folder: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise AssertionError("these tests need Maven to fetch Kafka: install it, so that `mvn` is found")
    partial = folder.with_suffix(".partial")
    shutil.rmtree(partial, ignore_errors=True)
    command = [maven, "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", f"-DoutputDirectory={partial}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode != 0:
        told = "\n".join(line for line in done.stdout.splitlines() if "ERROR" in line)[:2000]
        raise AssertionError(f"Maven could not fetch what {pom.name} names; see that it reaches a registry:\n{told}")
    partial.rename(folder)


def free_port() -> int:
    """A port on loopback that nobody listens on."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


class Broker:
    """One node of Kafka with its data in a folder; it may be killed and started again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.servers = f"127.0.0.1:{self.port}"
        self._classes = ":".join(jars("broker.xml"))
        self._keeper: subprocess.Popen[bytes] | None = None
        settings = _SETTINGS.format(port=self.port, controller=free_port(), data=folder / "data")
        self._settings = folder / "server.properties"
        self._settings.write_text(settings)
        # The first byte makes it begin with a letter: what begins with a dash would be read as an option.
        cluster = base64.urlsafe_b64encode(b"\0" + uuid.uuid4().bytes[1:]).decode().rstrip("=")
        format_ = self._java("kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(self._settings))
        done = subprocess.run(format_, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr

    def start(self) -> None:
        """Start it, and wait until it answers."""
        log = self.folder / "log"
        command = [sys.executable, "-c", _KEEPER, *self._java("kafka.Kafka", str(self._settings))]
        with log.open("ab") as out:
            self._keeper = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=out, stderr=out)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            assert self._keeper.poll() is None, log.read_text()[-2000:]
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                time.sleep(0.1)
        raise AssertionError(f"the broker does not answer: {log.read_text()[-2000:]}")

    def kill(self) -> None:
        """Kill it at once, as a crash would."""
        if self._keeper is not None:
            self._keeper.communicate(b"\n", timeout=30)
            self._keeper = None

    def forget(self, topic: str, partition: int, before: int) -> None:
        """Delete the records of a partition before an offset, as their retention would."""
        asked = self.folder / "forget.json"
        asked.write_text(
            json.dumps({"partitions": [{"topic": topic, "partition": partition, "offset": before}], "version": 1})
        )
        options = ("--bootstrap-server", self.servers, "--offset-json-file", str(asked))
        command = self._java("org.apache.kafka.tools.DeleteRecordsCommand", *options)
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    def _java(self, *command: str) -> list[str]:
        options = ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
        return ["java", *options, "-cp", self._classes, *command]
