"""What a user asks of a lake → a table, as `local.store.asking` answers it for a database.

In: the path of a lake and the words of the question. Out: an Arrow table with a title. It prints nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from augury.algebra.program import Program
from augury.clock import NoSuchTime
from augury.environment import Environment, Machine
from augury.lake import history
from augury.local.store.asking import Answer, Question, asked_us
from augury.local.store.described import described_program

_OF_LAKES: Final = {"file", "s3", "s3a", "s3n", "gs", "abfs", "hdfs", "webhdfs"}


def is_lake(path: str, environment: Environment | None = None) -> bool:
    """Whether a path is that of a folder, or a URI as lakes have them, and not of a database."""
    scheme, is_uri, _ = path.partition("://")
    return scheme in _OF_LAKES if is_uri else (environment or Machine()).files.is_folder(path)


def ask_lake(
    path: str, question: Question, compile: Callable[[str], Program], environment: Environment | None = None
) -> Answer:
    """The versions asked for; raises `NoSuchTime` and `LakeError`."""
    moments = [question.as_of, question.known_at, *(question.between or ())]
    now_us = (environment or Machine()).now_us()
    as_of_us, known_at_us, *between = (None if text is None else asked_us(text, now_us) for text in moments)
    found = history(path, compile)
    name = next((c.name for c in found.classes if c.name.casefold() == question.event_class.casefold()), None)
    if between:
        first, second = between
        assert first is not None, "both moments are given"
        assert second is not None, "both moments are given"
        if first > second:
            raise NoSuchTime("the first moment lies after the second")
        return Answer(found.diff(first, second).table(question.event_class), name)
    found = found if known_at_us is None else found.known_at(known_at_us)
    found = found if as_of_us is None else found.as_of(as_of_us)
    return Answer(found.table(question.event_class), name)


def ask_lake_log(path: str, log: str, compile: Callable[[str], Program]) -> Answer:
    """A table that is no history: `ticks`, `rejected`, `actions` or `catalogue`; raises `LakeError`."""
    found = history(path, compile)
    match log:
        case "ticks":
            return Answer(found.ticks())
        case "rejected":
            return Answer(found.rejected())
        case "actions":
            return Answer(found.actions().drop_columns(["rank", "line"]))  # how they are ordered and printed
        case _:
            assert log == "catalogue", "there are no others"
            return Answer(described_program(found.program))
