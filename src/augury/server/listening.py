"""An application at an address, by uvicorn: it answers until it is asked to end, and lets what is under way finish.

In: an ASGI application, host and port. Out: the address. Who may ask is for others to know.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Final

import uvicorn

from augury import limits
from augury.server.callers import cannot_listen
from augury.server.gate import Gate

_BACKLOG: Final = 2_048
_KEEP_ALIVE_SECONDS: Final = 75
_STARTED_LOOK_SECONDS: Final = 0.01


@asynccontextmanager
async def answering(gate: Gate, host: str, port: int) -> AsyncIterator[str]:
    """An application at an address, as long as it is used; port 0 is any that is free. Raises `CannotServe`."""
    listening = _listening(host, port)
    config = uvicorn.Config(
        gate,
        lifespan="off",
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=int(limits.SERVER_DRAIN_SECONDS),
    )
    server = _Server(config)
    task = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        while not server.started and not task.done():
            await asyncio.sleep(_STARTED_LOOK_SECONDS)
        name, number = listening.getsockname()[:2]
        yield f"http://{f'[{name}]' if ':' in name else name}:{number}"
    finally:
        gate.is_draining = True
        server.should_exit = True
        await task
        listening.close()


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the process, which ends more than this."""
        yield


def _listening(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host or "0.0.0.0", port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0][0]
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        raise cannot_listen(host, port, error) from None
