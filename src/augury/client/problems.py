"""What goes wrong when a server is asked: it says no, with a problem document, or it says nothing.

In: a status and what came with it. Out: exceptions. They hold no token.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from augury.diagnostics import Diagnostic, Mark, Severity, Source, Span, render


class ClientError(RuntimeError):
    """A question to a server that was not answered as it should be."""


class Unreachable(ClientError):
    """A server that gives no answer; what was asked may have been done all the same."""


class Problem(ClientError):
    """A server that says no: `document` is its problem document (RFC 9457), which the message tells in one sentence."""

    def __init__(self, status: int, document: Mapping[str, Any]) -> None:
        """Take what the server said."""
        self.status, self.document = status, dict(document)
        super().__init__(self.detail)

    @property
    def title(self) -> str:
        """What kind of problem it is."""
        return str(self.document.get("title") or phrase(self.status))

    @property
    def detail(self) -> str:
        """What is wrong this time."""
        return str(self.document.get("detail") or f"{self.status} {self.title}")

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """What is wrong with a program, as `augury.check` would say it."""
        return tuple(diagnostic_of(one) for one in self.document.get("diagnostics") or ())

    def rendered(self, text: str, *, colour: bool = False) -> str:
        """All diagnostics as the terminal shows them, in the program that was sent."""
        told = self.document.get("diagnostics") or ()
        names = [str(one.get("file", "program")) for one in told]
        pairs = zip(self.diagnostics, names, strict=True)
        return "\n\n".join(render(found, Source(name, text), colour=colour) for found, name in pairs)


def problem_of(status: int, content: bytes) -> Problem:
    """The problem that an answer tells; one that is no document, as of a proxy, is told by its status."""
    try:
        found = json.loads(content)
    except ValueError:
        found = None
    if isinstance(found, dict):
        return Problem(status, found)
    return Problem(status, {"type": "about:blank", "title": phrase(status), "status": status})


def phrase(status: int) -> str:
    """What a status is called."""
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "unknown status"


def diagnostic_of(row: Mapping[str, Any]) -> Diagnostic:
    """A diagnostic that was sent as JSON."""
    return Diagnostic(
        str(row["code"]),
        str(row["message"]),
        _mark(row),
        tuple(map(_mark, row.get("others", ()))),
        tuple(map(str, row.get("helps", ()))),
        Severity(row["severity"]),
    )


def _mark(row: Mapping[str, Any]) -> Mark:
    return Mark(Span(int(row["start"]), int(row["end"])), str(row.get("label", "")))
