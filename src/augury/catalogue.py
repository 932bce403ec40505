"""The error codes: what each means, an example that brings it about and one that mends it.

In: codes.toml beside this file. `augury explain CODE` and docs/errors.md are made from it, and every example is a test.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files


@dataclass(frozen=True, slots=True)
class Entry:
    """A code, one line about it, some more, and examples (empty where none is a program)."""

    code: str
    title: str
    explanation: str
    wrong: str = ""
    right: str = ""

    def text(self) -> str:
        """What `augury explain` prints."""
        parts = [f"{self.code}: {self.title}", self.explanation.strip()]
        if self.wrong:
            parts.append("This brings it about:\n\n" + _indented(self.wrong))
        if self.right:
            parts.append("This is fine:\n\n" + _indented(self.right))
        return "\n\n".join(parts)


@cache
def entries() -> dict[str, Entry]:
    """All codes in order."""
    data = tomllib.loads(files("augury").joinpath("codes.toml").read_text("utf-8"))
    return {code: Entry(code, **fields) for code, fields in sorted(data.items())}


def entry(code: str) -> Entry | None:
    """One code; None where there is no such code."""
    return entries().get(code)


def _indented(program: str) -> str:
    return "\n".join(f"    {line}".rstrip() for line in program.strip().splitlines())
