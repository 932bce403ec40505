"""BIND and DETECT → documents: clause by clause, in the one order they have.

In: a statement as the parser makes it. Out: its clauses, to be laid out. Nothing here knows which kinds there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import assert_never

from augury.language import syntax as s
from augury.language.layout import Break, Doc, group, listed
from augury.language.lexer import CONTEXTUAL
from augury.language.print_expressions import call_doc, duration_text, literal_text, name_text


def binding_clauses(statement: s.Binding) -> Sequence[Doc]:
    """`BIND … TO …` on one line if it fits, and `WITH …`."""
    head: list[Doc] = ["BIND ", listed(name_text(action) for action in statement.actions), Break()]
    if statement.event_class is not None:
        head.append(f"TO EVENT {name_text(statement.event_class)}")
    else:
        head += [f"TO {_kind(statement.kind)}", *((Break(), _text(text)) for text in statement.target)]
    return [group(*head, indent=2), *_with(statement.options)]


def detection_clauses(statement: s.Detection) -> Sequence[Doc]:
    """`DETECT … FROM … EVERY …` on one line if it fits, and each other clause."""
    clauses, detector = statement.clauses, statement.detector
    head: list[Doc] = [f"DETECT {name_text(statement.event_class)}"]
    if detector is not None:
        head += [Break(), f"AS {name_text(detector, after_as=True)}"]
    head += [Break(), f"FROM {_kind(statement.kind)} {_text(statement.source)}"]
    if clauses.every is not None:
        head += [Break(), f"EVERY {duration_text(clauses.every)}"]
    found: list[Doc] = [group(*head, indent=2)]
    if clauses.items is not None:
        found.append(f"ITEMS {literal_text(clauses.items.value)}")
    if clauses.fields:
        paths = [f"{name_text(field.name)} = {literal_text(field.path.value)}" for field in clauses.fields]
        found.append(call_doc("FIELDS ", paths))
    if clauses.next_page is not None:
        found.append(f"NEXT {literal_text(clauses.next_page.value)}")
    if clauses.forward is not None:
        found.append(f"FORWARD {name_text(clauses.forward)}")
    if clauses.withdraw is not None:
        found.append(f"WITHDRAW {name_text(clauses.withdraw)}")
    return [*found, *_with(clauses.options)]


def _kind(kind: s.Ident) -> str:
    """A kind is a plain word: one that means something elsewhere has to be quoted to be read as such."""
    text = name_text(kind)
    return f"`{text}`" if text.upper() in CONTEXTUAL else text


def _text(text: s.Text) -> str:
    match text:
        case s.FromEnvironment(variable=variable):
            return f"ENV {literal_text(variable)}"
        case s.Literal(value=value):
            return literal_text(value)
        case _:
            assert_never(text)


def _with(options: Iterable[s.Option]) -> list[Doc]:
    shown = [f"{name_text(option.name)} = {_value(option.value)}" for option in options]
    return [call_doc("WITH ", shown)] if shown else []


def _value(value: s.Literal | s.DurationLiteral | s.FromEnvironment) -> str:
    return duration_text(value) if isinstance(value, s.DurationLiteral) else _text(value)
