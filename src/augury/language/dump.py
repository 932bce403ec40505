"""Syntax nodes → an indented tree, one node a line: what `explain --stage syntax` shows."""

from __future__ import annotations

import dataclasses
from enum import Enum
from typing import Any

from augury.diagnostics import Span
from augury.language import syntax as s


def dump_syntax(node: Any) -> str:
    """The tree below a node; fields that are empty are left out."""
    lines: list[str] = []
    _lines(node, "", 0, lines)
    return "\n".join(lines)


def _lines(value: Any, label: str, depth: int, lines: list[str]) -> None:
    pad = "  " * depth + (f"{label}: " if label else "")
    if _is_inner(value):
        simple: list[tuple[str, Any]] = []
        nested: list[tuple[str, Any]] = []
        for field in dataclasses.fields(value):
            content = getattr(value, field.name)
            if isinstance(content, Span) or content is None or content == ():
                continue
            (nested if _is_inner(content) or isinstance(content, tuple) else simple).append((field.name, content))
        shown = " ".join(f"{name}={_short(content)}" for name, content in simple)
        lines.append(f"{pad}{type(value).__name__}{' ' + shown if shown else ''}")
        for name, content in nested:
            _lines(content, name, depth + 1, lines)
    elif isinstance(value, tuple) and any(_is_inner(item) or isinstance(item, tuple) for item in value):
        lines.append(pad.rstrip())
        for item in value:
            _lines(item, "", depth + 1, lines)
    elif isinstance(value, tuple):
        lines.append(pad + ", ".join(_short(item) for item in value))
    else:
        lines.append(pad + _short(value))


def _is_inner(value: Any) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, type) and not isinstance(value, s.Ident | Span)


def _short(value: Any) -> str:
    match value:
        case s.Ident(text=text):
            return text
        case Enum():
            return str(value.value)
        case _:
            return repr(value)
