"""A server on loopback that answers as it is told: late, wrong, half, or not at all."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any


@dataclass
class Asked:
    """A request as it came."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    connection: int


Deed = Callable[["Handler"], None]


@dataclass
class Script:
    """What the server does, one deed a request; when there is none left, it answers with an empty object."""

    deeds: list[Deed] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    url: str = ""
    left: ExitStack = field(default_factory=ExitStack)
    """What is to be closed when the server ends."""

    @property
    def connections(self) -> int:
        return len({one.connection for one in self.asked})


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    script: Script

    def handle_any(self) -> None:
        body = self._body()
        asked = Asked(self.command, self.path, dict(self.headers), body, self.client_address[1])
        self.script.asked.append(asked)
        deed = self.script.deeds.pop(0) if self.script.deeds else say(200, {})
        deed(self)

    do_GET = do_POST = do_PUT = do_DELETE = handle_any

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        parts = []
        while size := int(self.rfile.readline(), 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def log_message(self, format: str, *args: Any) -> None:
        """Nobody reads it."""


def say(status: int, content: Any, **headers: str) -> Deed:
    def deed(handler: Handler) -> None:
        text = content if isinstance(content, bytes) else json.dumps(content).encode()
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("Content-Length", str(len(text)))
        handler.end_headers()
        handler.wfile.write(text)

    return deed


def hang_up(handler: Handler) -> None:
    """No answer."""
    handler.close_connection = True
    handler.connection.shutdown(socket.SHUT_RDWR)


def then_hang_up(deed: Deed) -> Deed:
    """An answer that says nothing of it, and the end of the connection."""

    def both(handler: Handler) -> None:
        deed(handler)
        handler.close_connection = True

    return both


def tell(*parts: str, **headers: str) -> Deed:
    """A stream of parts that then breaks off."""

    def deed(handler: Handler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", "text/event-stream")
        handler.send_header("Connection", "close")
        handler.end_headers()
        for part in parts:
            handler.wfile.write(part.encode())
        handler.close_connection = True

    return deed


@contextmanager
def serving(*deeds: Deed) -> Iterator[Script]:
    script = Script(list(deeds))
    handler = type("OfScript", (Handler,), {"script": script})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    script.url = f"http://127.0.0.1:{server.server_port}"
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        with script.left:
            yield script
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
