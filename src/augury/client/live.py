"""What a server tells live: server-sent events, taken up again where the connection broke off.

In: the lines of an answer. Out: what they say, one after the other, each once and none left out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from augury.client.problems import ClientError, Problem, Unreachable
from augury.client.wire import Question, Wire, wait_seconds

_SILENT_SECONDS_MAX: Final = 45.0
"""A server says every few seconds that it lives; one that has been silent for so long is asked again."""

_AGAIN: Final = frozenset({429, 502, 503, 504})


@dataclass(frozen=True, slots=True)
class Message:
    """One thing that was told; `cursor` is where to go on after it."""

    kind: str
    data: str
    cursor: str | None


def messages(lines: Iterable[bytes]) -> Iterator[Message]:
    """What the lines of a stream say; the last one counts only if it is whole."""
    kind, data, cursor = "message", list[str](), None
    for raw in lines:
        line = raw.decode("utf-8", "replace").rstrip("\r\n")
        if not line:
            if data:
                yield Message(kind, "\n".join(data), cursor)
            kind, data = "message", []
            continue
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        match name:
            case "data":
                data.append(value)
            case "event":
                kind = value
            case "id":
                cursor = value
            case _:  # a sign of life, or what only browsers heed
                pass


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a server may be away before whoever listens is told."""

    seconds: float
    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


def follow(wire: Wire, path: str, query: Mapping[str, Any], after: str | None, patience: Patience) -> Iterator[Message]:
    """What is told from a cursor on, until whoever asks stops; raises `Problem`, and `Unreachable` in the end."""
    tried, away_since = 0, patience.now()
    while True:
        headers = {"Accept": "text/event-stream"} | ({"Last-Event-ID": after} if after is not None else {})
        lines = wire.open(Question("GET", path, query, headers=headers), _SILENT_SECONDS_MAX)
        try:
            for message in messages(lines):
                after = message.cursor or after
                tried, away_since = 0, patience.now()
                yield message
            failure: ClientError = Unreachable(f"{wire.url} ends what it tells, each time it is asked")
        except Problem as problem:
            if problem.status not in _AGAIN:
                raise
            failure = problem
        except Unreachable as error:
            failure = error
        if patience.now() - away_since > patience.seconds:
            raise failure
        tried += 1
        patience.sleep(wait_seconds(tried))
