"""A reader of pages over HTTP: redirects, cookies, refusals, and who may see the headers that the program says.

In: an address, through the environment's network. Out: pages. It knows nothing of what is on them. Headers and cookies
go to the host that they are meant for, and to no other that a link or redirect leads to.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from http.cookies import CookieError, SimpleCookie
from typing import Final
from urllib.parse import SplitResult, urljoin, urlsplit

from augury import limits
from augury.clock import microseconds_of
from augury.detectors.sensor import SourceFailed
from augury.environment import Environment, Request, Response, Unreachable

_REDIRECTS_MAX: Final = 10
_RETRY_SECONDS_MAX: Final = 3_600.0


@dataclass(frozen=True, slots=True)
class Asked:
    """What a detector says about its requests."""

    url: str
    method: str = "GET"
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 30.0


@dataclass(frozen=True, slots=True)
class Page:
    """What an address gave: where it was in the end, its content, and the charset that its header says."""

    url: str
    body: bytes
    charset: str | None

    def __str__(self) -> str:
        """Where it was, as it may be told."""
        return shown(self.url)


class Reader:
    """Reads pages for one detector; its cookies are kept as long as it lives."""

    def __init__(self, environment: Environment, asked: Asked) -> None:
        """Ask nothing yet."""
        self._environment, self._asked = environment, asked
        self._home = _origin(asked.url)
        self._cookies: dict[str, dict[str, str]] = {}

    async def first(self) -> Page:
        """The page that the detector names."""
        return await self.read(self._asked.url, self._asked.method, self._asked.body)

    async def read(self, url: str, method: str = "GET", body: bytes = b"", kind: str = "") -> Page:
        """A page, with redirects followed; raises `SourceFailed`."""
        for _ in range(_REDIRECTS_MAX + 1):
            answer = await self._answer(url, method, body, kind)
            target = answer.headers.get("location")
            if answer.status not in (301, 302, 303, 307, 308) or not target:
                return self._page(url, answer)
            if answer.status not in (307, 308):
                method, body, kind = "GET", b"", ""
            url = joined(url, target)
        raise SourceFailed(f"{shown(self._asked.url)} redirects more than {_REDIRECTS_MAX} times")

    async def _answer(self, url: str, method: str, body: bytes, kind: str) -> Response:
        host = urlsplit(url).netloc.lower()
        headers = {"user-agent": "augury", **(self._asked.headers if _origin(url) == self._home else {})}
        if self._cookies.get(host):
            headers["cookie"] = "; ".join(f"{name}={value}" for name, value in self._cookies[host].items())
        if kind:
            headers["content-type"] = kind
        size = limits.DETECTOR_ANSWER_BYTES_MAX + 1
        try:
            answer = await self._environment.network.request(
                Request(method, url, headers, body, self._asked.seconds, 0, size)
            )
        except Unreachable as error:
            raise SourceFailed(f"{shown(url)} does not answer: {error}") from None
        self._keep_cookies(host, answer)
        return answer

    def _keep_cookies(self, host: str, answer: Response) -> None:
        kept = self._cookies.setdefault(host, {})
        for line in answer.cookies:
            try:
                cookies = SimpleCookie(line)
            except CookieError:
                continue  # browsers leave out what is no cookie, too
            for name, cookie in cookies.items():
                if not cookie.value or cookie["max-age"] == "0":
                    kept.pop(name, None)
                else:
                    kept[name] = cookie.value

    def _page(self, url: str, answer: Response) -> Page:
        if not 200 <= answer.status < 300:
            raise SourceFailed(f"{shown(url)} answers {answer.status}", self._after_seconds(answer))
        if len(answer.body) > limits.DETECTOR_ANSWER_BYTES_MAX:
            raise SourceFailed(f"{shown(url)} gives more than {limits.DETECTOR_ANSWER_BYTES_MAX:,} bytes")
        _, _, charset = answer.headers.get("content-type", "").lower().partition("charset=")
        return Page(url, answer.body, charset.split(";")[0].strip(" \"'") or None)

    def _after_seconds(self, answer: Response) -> float | None:
        """When to ask again, as Retry-After says: seconds, or a date."""
        said = answer.headers.get("retry-after", "").strip()
        if said.isdecimal():
            return min(float(said), _RETRY_SECONDS_MAX)
        try:
            at_us = microseconds_of(parsedate_to_datetime(said))
        except ValueError:
            return None
        return min(max(0.0, (at_us - self._environment.now_us()) / 1_000_000), _RETRY_SECONDS_MAX)


def joined(url: str, target: str) -> str:
    """Where a link on a page leads; raises `SourceFailed` for one that is not over HTTP."""
    found = urljoin(url, target.strip())
    if urlsplit(found).scheme not in ("http", "https"):
        raise SourceFailed(f"{shown(url)} leads to `{target[:200]}`, which is not over HTTP")
    return found


def _origin(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc.lower()


def shown(url: str) -> str:
    """An address without the user and password that it may hold."""
    parts = urlsplit(url)
    if "@" not in parts.netloc:
        return url
    return SplitResult(parts.scheme, parts.netloc.rpartition("@")[2], parts.path, parts.query, parts.fragment).geturl()
