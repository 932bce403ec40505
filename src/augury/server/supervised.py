"""What a process tells the service manager that started it, by the protocol of sd_notify(3): that it is ready, or ends.

In: environment variables, a state. Out: a datagram at the socket that NOTIFY_SOCKET names; where it names none,
nothing. A process whose manager cannot be told says so, and goes on.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from typing import Final

READY: Final = "READY=1"
ENDING: Final = "STOPPING=1"


def tell_supervisor(state: str, variables: Mapping[str, str], tell: Callable[[str], None]) -> None:
    """Send a state to who supervises this process, if anybody does."""
    name = variables.get("NOTIFY_SOCKET")
    if not name:
        return
    address = f"\0{name[1:]}" if name.startswith("@") else name
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told:
            told.connect(address)
            told.send(state.encode())
    except OSError as error:
        tell(f"the service manager is not told {state}, for `{name}` of NOTIFY_SOCKET does not take it: {error}")
