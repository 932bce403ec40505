"""Who asks over HTTP: by a token; where it is open, also whoever is on this machine and is no page of a browser.

In: what a request says of itself, the tokens that count, where a process listens. Out: a caller, or `NotLetIn`. It
knows no framework.
"""

from __future__ import annotations

import errno
import ipaddress
import os
import socket
from collections.abc import Callable
from typing import Final
from urllib.parse import urlsplit

from augury.server.given import CannotServe
from augury.server.tokens import ANYBODY_HERE, Caller, Tokens

CHALLENGE: Final = {"www-authenticate": 'Bearer realm="augury"'}
"""What an answer of 401 says besides."""

_HERE: Final = frozenset({"localhost", "127.0.0.1", "::1"})


class NotLetIn(Exception):
    """Why somebody gets no answer: 401 without a token that counts, 403 for a page of a browser."""

    def __init__(self, status: int, detail: str) -> None:
        """Keep what is to be said."""
        super().__init__(detail)
        self.status, self.detail = status, detail


def require_safe(host: str, has_tokens: bool, is_open: bool) -> None:
    """Refuse to listen beyond this machine for who has no tokens, or is open; raises `CannotServe`."""
    if is_here(host):
        return
    if is_open:
        raise CannotServe(f"what is open is so for who is on this machine, and `{host}` is more: leave out --open")
    if not has_tokens:
        raise CannotServe(
            f"without tokens a server listens on this machine only, and `{host}` is more: "
            "make one, `augury token add NAME --role post --tokens FILE`, and name the file by --tokens"
        )


def is_here(host: str) -> bool:
    """Whether who listens at a host is asked from this machine only; raises `CannotServe`."""
    return all(ipaddress.ip_address(one).is_loopback for one in _addresses(host))


def cannot_listen(host: str, port: int, error: OSError) -> CannotServe:
    """Why nothing can listen at an address, and what to do."""
    if error.errno == errno.EADDRINUSE:
        return CannotServe(f"nothing can listen at {host}:{port}, where another does: end that, or choose --port")
    reason = os.strerror(error.errno) if error.errno is not None and error.errno > 0 else error.strerror
    return CannotServe(f"nothing can listen at {host}:{port}: {reason}")


def caller_of(header: Callable[[str], str | None], tokens: Tokens | None, *, is_open: bool = False) -> Caller:
    """Who asks, by the headers of a request; raises `NotLetIn`, but for who is here where it is open."""
    authorization = header("authorization")
    if authorization is None:
        if not is_open:
            raise NotLetIn(401, "a token is needed: Authorization: Bearer TOKEN")
        refuse_pages(header("host"), header("origin"))
        return ANYBODY_HERE
    scheme, _, token = authorization.partition(" ")
    caller = tokens.caller(token.strip()) if tokens is not None and scheme.lower() == "bearer" else None
    if caller is None:
        raise NotLetIn(401, "the token is none of this server")
    return caller


def refuse_pages(host: str | None, origin: str | None) -> None:
    """A page that was loaded from elsewhere says so by its Origin, or by the name that it was found by."""
    if _hostname(f"//{host or ''}") not in _HERE or (origin is not None and _hostname(origin) not in _HERE):
        raise NotLetIn(403, "without a token only who is on this machine is answered, and asks for it as 127.0.0.1")


def _hostname(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def _addresses(host: str) -> list[str]:
    try:
        found = socket.getaddrinfo(host or "0.0.0.0", None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError):
        raise CannotServe(f"`{host}` is no address of this machine") from None
    return [str(one[4][0]).partition("%")[0] for one in found]
