"""A real HDFS for tests: a namenode and a datanode, processes of their own on loopback and free ports.

Jars are fetched by Maven, as those of Kafka are; the client and logging come from PySpark. Both end with the process
that started them, however that ends.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.spark.broker import free_port, jars

# Runs a command until it is told to kill it, or until nobody is there any more who could tell.
_KEEPER = """
import subprocess, sys
child = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL)
sys.stdin.readline()
child.kill()
child.wait()
"""


@contextmanager
def serving(folder: Path) -> Iterator[tuple[str, str]]:
    """The addresses of HDFS: of its own protocol and of HTTP, both as `host:port`."""
    web, own = free_port(), free_port()
    java = _java(folder, web, own)
    with (folder / "hdfs.log").open("wb") as log, ExitStack() as stack:
        server = "org.apache.hadoop.hdfs.server"
        made = [*java, f"{server}.namenode.NameNode", "-format", "-force", "-nonInteractive"]
        subprocess.run(made, stdout=log, stderr=log, timeout=120, check=True)
        for name in ("namenode.NameNode", "datanode.DataNode"):
            stack.enter_context(_kept([*java, f"{server}.{name}"], log))
        _until_it_takes_files(web, folder / "hdfs.log")
        yield f"127.0.0.1:{own}", f"127.0.0.1:{web}"


def _java(folder: Path, web: int, own: int) -> list[str]:
    here, data = "127.0.0.1", folder / "hdfs"
    settings = {
        "fs.defaultFS": f"hdfs://{here}:{own}",
        "dfs.namenode.http-address": f"{here}:{web}",
        "dfs.namenode.rpc-bind-host": here,
        "dfs.namenode.name.dir": data / "name",
        "dfs.namenode.safemode.extension": 0,
        "dfs.datanode.address": f"{here}:{free_port()}",
        "dfs.datanode.http.address": f"{here}:{free_port()}",
        "dfs.datanode.ipc.address": f"{here}:{free_port()}",
        "dfs.datanode.hostname": here,
        "dfs.datanode.data.dir": data / "data",
        "dfs.replication": 1,
    }
    said = "".join(
        f"<property><name>{name}</name><value>{value}</value></property>" for name, value in settings.items()
    )
    for name in ("core-site.xml", "hdfs-site.xml"):
        (folder / name).write_text(f"<configuration>{said}</configuration>")
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    of_spark = Path(spec.origin).parent / "jars"
    needed = [
        jar for begin in ("hadoop-client-", "slf4j-api", "log4j-", "jcl-over") for jar in of_spark.glob(f"{begin}*")
    ]
    found = [str(folder), *jars(str(Path(__file__).with_name("hdfs.xml"))), *map(str, needed)]
    return ["java", "-Xmx192m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", ":".join(found)]


@contextmanager
def _kept(command: list[str], log: object) -> Iterator[None]:
    keeper = subprocess.Popen([sys.executable, "-c", _KEEPER, *command], stdin=subprocess.PIPE, stdout=log, stderr=log)  # type: ignore[call-overload]
    try:
        yield
    finally:
        keeper.communicate(b"\n", 30)


def _until_it_takes_files(web: int, log: Path) -> None:
    """A namenode takes files when a datanode has reported."""
    at = f"http://127.0.0.1:{web}/webhdfs/v1/probe?op=CREATE&overwrite=true&noredirect=true&user.name=tests"
    deadline = time.monotonic() + 180
    while True:
        try:
            urllib.request.urlopen(urllib.request.Request(at, method="PUT"), timeout=30).close()
            return
        except urllib.error.HTTPError as error:
            error.close()
        except OSError:
            pass
        assert time.monotonic() < deadline, log.read_text("utf-8", "replace")[-2000:]
        time.sleep(0.2)
