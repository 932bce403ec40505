"""An engine in another process, reached over HTTP as `augury serve` serves it.

In: events as lines of JSON. Out: POST to its `/v1/events`. Anything but an answer that says they are durable means that
they are sent again.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from augury.detectors.sinks import NotTaken, tell_refused
from augury.environment import Environment, Request, Unreachable


class HttpSink:
    """An engine at an address."""

    def __init__(self, url: str, environment: Environment, token: str | None = None, seconds: float = 30.0) -> None:
        """Ask nothing yet; `token` is one that may post."""
        self._url, self._environment, self._seconds = url.rstrip("/"), environment, seconds
        self._headers = {"content-type": "application/x-ndjson"}
        if token is not None:
            self._headers["authorization"] = f"Bearer {token}"

    async def take(self, lines: Sequence[str]) -> None:
        """Send them."""
        body = "".join(f"{line}\n" for line in lines).encode("utf-8", "replace")
        asked = Request("POST", f"{self._url}/v1/events", self._headers, body, self._seconds)
        try:
            answer = await self._environment.network.request(asked)
        except Unreachable as error:
            raise NotTaken(f"engine {self._url} does not answer: {error}") from None
        if answer.status != 200:
            said = answer.body[:300].decode("utf-8", "replace").strip()
            raise NotTaken(f"engine {self._url} answers {answer.status}: {said}")
        try:
            refused = [str(one["reason"]) for one in json.loads(answer.body)["refused"]]
        except (ValueError, KeyError, TypeError):
            raise NotTaken(f"what answers at {self._url}/v1/events is no engine of Augury") from None
        tell_refused(self._url, refused)
