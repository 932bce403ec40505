"""One statement of a program changed in its text: added, replaced or dropped, with everything else as it was written.

In: the text of a program that can be read, what kind of thing it is about, and its name. Out: the text of another.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum
from typing import Final

from augury.diagnostics import Findings, Source
from augury.event import key_of
from augury.language import syntax as s
from augury.language.lexer import lex
from augury.language.parser import parse
from augury.server.problems import Problem, of_program


class Kind(StrEnum):
    """What can be changed by itself."""

    CLASS = "class"
    RULE = "rule"
    GROUP = "group"
    TRIGGER = "trigger"


_NODES: Final[dict[Kind, tuple[type[s.NamedStatement], ...]]] = {
    Kind.CLASS: (s.SubscribedClass, s.ComplexClass, s.ClockClass),
    Kind.RULE: (s.Rule,),
    Kind.GROUP: (s.RuleGroup,),
    Kind.TRIGGER: (s.Trigger,),
}


def with_statement(text: str, kind: Kind, name: str, statement: str) -> str:
    """The program with a statement, in place of the one of that name if there is one; raises `Problem`."""
    own, findings = _closed(statement), Findings()
    parsed = parse(own, findings)
    if findings.has_errors():
        raise of_program(findings.sorted(), Source("statement", own))
    match parsed.program.statements:
        case [one] if isinstance(one, _NODES[kind]) and _name(one) == key_of(name):
            pass
        case _:
            raise Problem(422, f"what is sent for the {kind} `{name}` is one statement, and declares it")
    place = statement_place(text, kind, name)
    if place is None:
        return f"{text.rstrip()}\n\n{own}\n" if text.strip() else f"{own}\n"
    return text[: place[0]] + own + text[place[1] :]


def without_statement(text: str, kind: Kind, name: str) -> str:
    """The program without the statement of that name; raises `Problem` where there is none."""
    place = statement_place(text, kind, name)
    if place is None:
        raise Problem(404, f"the program has no {kind} called `{name}`")
    return text[: place[0]].rstrip(" \t") + text[place[1] :].lstrip(" \t").removeprefix("\n")


def statements_at(text: str, places: Collection[int]) -> list[str]:
    """What stands at some of these places of a program, as the kind and the name of each: trigger `Order`."""
    found = []
    for one in parse(text, Findings()).program.statements:
        if any(one.span.start <= place < one.span.end for place in places):
            found += [f"the {kind} `{one.name.text}`" for kind, nodes in _NODES.items() if isinstance(one, nodes)]
    return found


def statement_text(text: str, kind: Kind, name: str) -> str:
    """The statement of that name as it is written; empty where there is none."""
    place = statement_place(text, kind, name)
    return "" if place is None else text[place[0] : place[1]]


def statement_place(text: str, kind: Kind, name: str) -> tuple[int, int] | None:
    """Where the statement of that name stands, its `;` included."""
    findings = Findings()
    for one in parse(text, findings).program.statements:
        if isinstance(one, _NODES[kind]) and _name(one) == key_of(name):
            ends = (token.end_pos for token in lex(text, findings).tokens if token.value == ";")
            return one.span.start, next((end for end in ends if end and end > one.span.end), len(text))
    return None


def _closed(statement: str) -> str:
    """The statement with its `;`, also if it was left out."""
    own = statement.strip()
    tokens = lex(own, Findings()).tokens
    if not tokens or tokens[-1].value == ";":
        return own
    return f"{own};" if tokens[-1].end_pos == len(own) else f"{own}\n;"


def _name(statement: s.NamedStatement) -> str:
    return statement.name.key
