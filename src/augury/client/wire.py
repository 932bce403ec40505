"""HTTP as a client speaks it: connections that are kept, and questions that are asked again where that is safe.

In: methods, paths, bytes. Out: answers as bytes; what is no answer raises. It knows no route. `http.client` does the
speaking: nothing here needs an event loop, and redirects are not followed, so that a token goes nowhere else.
"""

from __future__ import annotations

import http.client
import selectors
import ssl
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from threading import Lock
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

from augury.client.problems import ClientError, Unreachable, problem_of

_WAIT_SECONDS_MIN: Final = 0.1
_WAIT_SECONDS_MAX: Final = 5.0
_ASKED_SECONDS_MAX: Final = 60.0
_KEPT_MAX: Final = 16
"""Connections that are kept while nobody needs them."""

_NOT_NOW: Final = frozenset({502, 503, 504, 507})
"""A server that could not; whether it did all the same is not known of each of them."""

_TOO_OFTEN: Final = 429

Body = bytes | Iterable[bytes] | None


@dataclass(frozen=True, slots=True)
class Question:
    """A request; `is_safe` says that doing it twice does no more than doing it once."""

    method: str
    path: str
    query: Mapping[str, Any] | None = None
    body: Body = None
    headers: Mapping[str, str] | None = None
    is_safe: bool = True

    @property
    def target(self) -> str:
        """The path with what is asked; what is None is left out."""
        asked = [(name, value) for name, value in (self.query or {}).items() if value is not None]
        return self.path + ("?" + urlencode(asked, doseq=True) if asked else "")


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server said."""

    status: int
    headers: Mapping[str, str]
    content: bytes


class _NotSent(Exception):
    """No connection could be made, so that nothing was asked."""


class Wire:
    """Asks one server; any number of threads may use it."""

    def __init__(
        self,
        url: str,
        token: str | None,
        timeout_seconds: float,
        tries: int,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Make no connection yet; raises `ClientError` for what is no address."""
        self._token, self._timeout, self._tries, self._sleep = token, timeout_seconds, tries, sleep
        self.url = url.rstrip("/")
        parts = _parts(self.url)
        self._is_secret, self._host, self._port, self._prefix = parts
        self._kept: list[http.client.HTTPConnection] = []
        self._lock = Lock()
        if token is not None and not (token.isascii() and token.isprintable()):
            raise ClientError("the token holds characters that no token has")

    def ask(self, question: Question) -> Answer:
        """The answer to a question; raises `Problem` and `Unreachable`."""
        for tried in range(1, self._tries + 1):
            failure: ClientError
            asked_for: str | None = None
            try:
                answer = self._once(question)
            except _NotSent as error:
                failure, is_again = self._unreachable(error), True
            except (OSError, http.client.HTTPException) as error:
                failure, is_again = self._unreachable(error), question.is_safe
            else:
                if answer.status < 300:
                    return answer
                failure, asked_for = problem_of(answer.status, answer.content), answer.headers.get("retry-after")
                is_again = answer.status == _TOO_OFTEN or (answer.status in _NOT_NOW and question.is_safe)
            if not is_again or tried == self._tries:
                raise failure
            self._sleep(wait_seconds(tried, asked_for))
        raise AssertionError("a question is asked at least once")

    def open(self, question: Question, timeout_seconds: float) -> Iterator[bytes]:
        """The lines of an answer as they come; raises `Problem`, and `Unreachable` also where it breaks off."""
        try:
            connection = self._connected(timeout_seconds)
        except _NotSent as error:
            raise self._unreachable(error) from error
        try:
            response = self._asked(connection, question)
            if response.status >= 300:
                raise problem_of(response.status, response.read())
            while line := response.readline():
                yield line
        except (OSError, http.client.HTTPException) as error:
            raise self._unreachable(error) from error
        finally:
            connection.close()

    def close(self) -> None:
        """Let go of the connections that are kept."""
        with self._lock:
            kept, self._kept = self._kept, []
        for connection in kept:
            connection.close()

    # ---- one try -----------------------------------------------------------------------------------------------

    def _once(self, question: Question) -> Answer:
        connection = self._taken()
        try:
            response = self._asked(connection, question)
            content = response.read()
        except BaseException:
            connection.close()
            raise
        if response.will_close:
            connection.close()
        else:
            self._keep(connection)
        return Answer(response.status, {name.lower(): value for name, value in response.getheaders()}, content)

    def _asked(self, connection: http.client.HTTPConnection, question: Question) -> http.client.HTTPResponse:
        headers = {"Accept": "application/json", **(question.headers or {})}
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        body = question.body
        is_chunked = body is not None and not isinstance(body, bytes)
        if is_chunked:
            headers["Transfer-Encoding"] = "chunked"
        try:
            connection.request(
                question.method, self._prefix + question.target, body, headers, encode_chunked=is_chunked
            )
        except (BrokenPipeError, ConnectionResetError):
            # A server that has heard enough says so before it hangs up.
            with suppress(OSError, http.client.HTTPException):
                return connection.getresponse()
            raise
        return connection.getresponse()

    def _taken(self) -> http.client.HTTPConnection:
        while True:
            with self._lock:
                connection = self._kept.pop() if self._kept else None
            if connection is None:
                return self._connected(self._timeout)
            if not _is_over(connection):
                return connection
            connection.close()

    def _keep(self, connection: http.client.HTTPConnection) -> None:
        with self._lock:
            if len(self._kept) < _KEPT_MAX:
                self._kept.append(connection)
                return
        connection.close()

    def _connected(self, timeout_seconds: float) -> http.client.HTTPConnection:
        connection = (
            http.client.HTTPSConnection(
                self._host, self._port, timeout=timeout_seconds, context=ssl.create_default_context()
            )
            if self._is_secret
            else http.client.HTTPConnection(self._host, self._port, timeout=timeout_seconds)
        )
        try:
            connection.connect()
        except OSError as error:
            connection.close()
            raise _NotSent(str(error)) from error
        return connection

    def _unreachable(self, error: BaseException) -> Unreachable:
        return Unreachable(f"{self.url} does not answer: {str(error) or type(error).__name__}")


def path_of(*parts: str) -> str:
    """A path of names, whatever they are."""
    return "/" + "/".join(quote(part, safe="") for part in parts)


def _parts(url: str) -> tuple[bool, str, int | None, str]:
    try:
        found = urlsplit(url)
        port = found.port
    except ValueError as error:
        raise ClientError(f"`{url}` is no address of a server: {error}") from None
    if found.scheme not in ("http", "https") or not found.hostname:
        raise ClientError(f"`{url}` is no address of a server: write http://HOST:PORT or https://HOST")
    if found.username is not None or found.password is not None:
        raise ClientError("an address of a server holds no password: give a token")
    if found.query or found.fragment:
        raise ClientError(f"`{url}` is no address of a server: leave out what comes after `?` or `#`")
    return found.scheme == "https", found.hostname, port, found.path.rstrip("/")


def _is_over(connection: http.client.HTTPConnection) -> bool:
    """Whether a server has hung up, or said something that nobody asked for."""
    if connection.sock is None:
        return True
    with selectors.DefaultSelector() as selector:
        selector.register(connection.sock, selectors.EVENT_READ)
        return bool(selector.select(0))


def wait_seconds(tried: int, asked_for: str | None = None) -> float:
    """How long to wait before asking again: what the server asked for, or longer each time."""
    if asked_for is not None and asked_for.isdecimal():
        return min(float(asked_for), _ASKED_SECONDS_MAX)
    return min(_WAIT_SECONDS_MIN * 2.0**tried, _WAIT_SECONDS_MAX)
