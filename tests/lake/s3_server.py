"""A server that speaks S3, as a process of its own on loopback, which ends with whoever started it.

One request is answered after the other, so that a conditional PUT is one step, as it is at Amazon's. Told to be
`deaf` it passes over the condition, as older stores do.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import time
import urllib.request
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any

REGION = "us-east-1"


@dataclass(frozen=True, slots=True)
class S3:
    """A server that runs, with one bucket."""

    port: int
    bucket: str

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def variables(self) -> dict[str, str]:
        """What says to everybody where it is, and who they are."""
        keys = {"AWS_ACCESS_KEY_ID": "tests", "AWS_SECRET_ACCESS_KEY": "tests", "AWS_EC2_METADATA_DISABLED": "true"}
        return {**keys, "AWS_REGION": REGION, "AWS_DEFAULT_REGION": REGION, "AWS_ENDPOINT_URL": self.url}


@contextmanager
def serving(folder: Path, *words: str) -> Iterator[S3]:
    """A server with an empty bucket; names of buckets never come again, for file systems are kept by them."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        found = S3(free.getsockname()[1], f"lakes-{uuid.uuid4().hex[:12]}")
    log = folder / "s3.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, __file__, str(found.port), *words], stdin=subprocess.PIPE, stdout=out, stderr=out
        )
    try:
        _until_it_answers(found, process, log)
        yield found
    finally:
        process.kill()
        process.wait()
        assert process.stdin is not None
        process.stdin.close()


def _until_it_answers(found: S3, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 120
    while True:
        assert process.poll() is None, log.read_text()[-2000:]
        assert time.monotonic() < deadline, f"no server: {log.read_text()[-2000:]}"
        try:
            made = urllib.request.Request(f"{found.url}/{found.bucket}", method="PUT")
            urllib.request.urlopen(made, timeout=30).close()
            return
        except OSError:
            time.sleep(0.1)


def main(port: str, *words: str) -> None:
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import run_simple

    app = DomainDispatcherApplication(create_backend_app)
    Thread(target=_end_with_parent, daemon=True).start()
    run_simple("127.0.0.1", int(port), _deaf(app) if "deaf" in words else app, threaded=False)


def _end_with_parent() -> None:
    import os

    sys.stdin.buffer.read()
    os._exit(0)


def _deaf(app: Callable[..., Iterable[bytes]]) -> Callable[..., Iterable[bytes]]:
    def without_condition(environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        environ.pop("HTTP_IF_NONE_MATCH", None)
        return app(environ, start)

    return without_condition


if __name__ == "__main__":
    main(*sys.argv[1:])
