"""What a user asks of a store → a table: a history, what was known at a time, what changed, or one of the logs.

In: the URL of a store and the words of the question. Out: an Arrow table with a title. It prints nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from augury.clock import NoSuchTime
from augury.environment import Environment, Machine
from augury.history.values import moment_us
from augury.history.views import diff, then
from augury.local.store.sql import open_store


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked: all versions of a class, or some of them by time; times are texts, `now` among them."""

    event_class: str
    as_of: str | None = None
    known_at: str | None = None
    between: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """The rows; `event` is the class that they are events of, where they are."""

    table: pa.Table
    event: str | None = None


def ask(url: str, question: Question, environment: Environment | None = None) -> Answer:
    """The versions asked for; raises `NoSuchTime`, and what `open_store` and `SqlReader.class_named` raise."""
    moments = [question.as_of, question.known_at, *(question.between or ())]
    now_us = (environment or Machine()).now_us()
    as_of_us, known_at_us, *between = (None if text is None else asked_us(text, now_us) for text in moments)
    with open_store(url, read_only=True) as reader:
        event_class = reader.class_named(question.event_class)
        table = reader.history(event_class)
    if between:
        first, second = between
        assert first is not None, "both moments are given"
        assert second is not None, "both moments are given"
        if first > second:
            raise NoSuchTime("the first moment lies after the second")
        return Answer(diff(table, event_class, first, second), event_class.name)
    return Answer(then(table, event_class, as_of_us, known_at_us), event_class.name)


def ask_log(url: str, log: str) -> Answer:
    """A table that is no history: `ticks`, `rejected`, `actions` or `catalogue`; raises what `open_store` raises."""
    with open_store(url, read_only=True) as reader:
        return Answer(reader.log(log))


def asked_us(text: str, now_us: int) -> int:
    """A time as users write it, or the word `now`; raises `NoSuchTime`."""
    if text.strip().lower() == "now":
        return now_us
    try:
        return moment_us(text)
    except NoSuchTime as error:
        raise NoSuchTime(f"{error}, or now") from None
