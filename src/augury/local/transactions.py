"""Transactions around what is posted: all of it becomes durable at once, in order, or none of it does.

In: an engine, events posted inside a `with` block. Out: lines of JSON, written as one when the block is left. Which
transaction is open belongs to the context of a thread or task, so that those of others do not mix with it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar, Token
from dataclasses import dataclass
from enum import StrEnum
from threading import Lock
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from augury.algebra.program import Program
from augury.environment import Environment
from augury.event import EventClass
from augury.local.answers import Answer
from augury.local.making import in_mapping, made, posted_class
from augury.local.posts import PostRefused, Posts

Event = Mapping[str, Any] | str
T = TypeVar("T")


class TransactionOver(RuntimeError):
    """A transaction that was committed or aborted takes no more events."""


class NobodyAnswers(RuntimeError):
    """An answer was asked for where nobody can give one: inside a transaction, or by a function of a rule."""


class InRule(RuntimeError):
    """A function of a rule asked its engine to go on, which waits for it."""


class Posting(ABC):
    """What events are posted to, with what stands around posts: being the engine of methods, and transactions."""

    program: Program
    _posts: Posts
    _world: Environment

    @abstractmethod
    def notify(self, event: Event) -> Answer:
        """Post an event and wait until its triggers have fired."""

    @abstractmethod
    def post(self, event: Event) -> object:
        """Post an event and wait until it is durable."""

    @abstractmethod
    def _refuse_if_closed(self) -> None: ...

    def active(self) -> AbstractContextManager[None]:
        """A block in which methods with `augury.event_method` post to this engine, in this thread or task."""
        return _set(_ACTIVE, self)

    def transaction(
        self,
        *,
        begin: str | None = None,
        before_commit: str | None = None,
        after_commit: str | None = None,
        before_abort: str | None = None,
        after_abort: str | None = None,
        values: Mapping[str, Any] | None = None,
    ) -> Transaction:
        """A block whose posts become durable together when it is left, or not at all when it raises.

        The classes named are posted at these points, with `transaction`, `events`, `reason` and what `values` says by
        the names of their attributes; raises `NotBound` for one that cannot be.
        """
        self._refuse_if_closed()
        names = {
            Stage.BEGIN: begin,
            Stage.BEFORE_COMMIT: before_commit,
            Stage.AFTER_COMMIT: after_commit,
            Stage.BEFORE_ABORT: before_abort,
            Stage.AFTER_ABORT: after_abort,
        }
        return Transaction(self, self._posts, stages_of(self.program, names, values))


class Stage(StrEnum):
    """The events that a transaction itself has."""

    BEGIN = "begin"
    BEFORE_COMMIT = "before_commit"
    AFTER_COMMIT = "after_commit"
    BEFORE_ABORT = "before_abort"
    AFTER_ABORT = "after_abort"


@dataclass(frozen=True, slots=True)
class Stages:
    """Which class tells of which stage, and what its events have besides what the transaction knows."""

    classes: Mapping[Stage, EventClass]
    values: Mapping[str, Any]


def stages_of(program: Program, names: Mapping[Stage, str | None], values: Mapping[str, Any] | None) -> Stages:
    """The classes of these names; raises `NotBound` for one that cannot be posted, or lacks its key."""
    given = dict(values or {})
    classes = {
        stage: posted_class(program, name, f"engine.transaction({stage.value}=…)")
        for stage, name in names.items()
        if name is not None
    }
    stages = Stages(classes, given)
    for stage in classes:
        _told(stages, stage, {"transaction": "", "events": 0, "reason": None})
    return stages


def _told(stages: Stages, stage: Stage, known: Mapping[str, Any]) -> dict[str, Any]:
    find = in_mapping({**known, **stages.values})
    return made(stages.classes[stage], find, f"engine.transaction({stage.value}=…)")


class Transaction:
    """A block of events: posted together when it is left, discarded when it raises or `abort` is called."""

    def __init__(self, engine: Posting, posts: Posts, stages: Stages) -> None:
        """A transaction that has not begun."""
        self.engine = engine
        self.name: Final = f"{engine._world.random.getrandbits(128):032x}"
        """What it is called in its own events, as `transaction`."""
        self._posts, self._stages = posts, stages
        self._lines: list[str] = []
        self._last_lines: list[str] = []
        self._lock = Lock()
        self._end: str | None = None
        self._entered: Token[tuple[Transaction, ...]] | None = None
        self._active: Token[Posting | None] | None = None

    # ---- inside ------------------------------------------------------------------------------------

    def post(self, event: Event) -> None:
        """Put an event into the transaction, as it is now; raises `PostRefused` for what can be none."""
        line = self._posts.checked(event)
        with self._lock:
            self._refuse_if_over()
            self._lines.append(line)

    def post_all(self, events: Iterable[Event]) -> list[str | None]:
        """Put events into the transaction; for each why it is refused, or None."""
        return [self._refusal(event) for event in events]

    def _refusal(self, event: Event) -> str | None:
        try:
            self.post(event)
        except PostRefused as refused:
            return str(refused)
        return None

    def post_last(self, event: Event) -> None:
        """The same, after all that is posted until the outermost transaction commits."""
        line = self._posts.checked(event)
        with self._lock:
            self._refuse_if_over()
            self._last_lines.append(line)

    def abort(self, reason: str | None = None) -> None:
        """Discard what was posted inside; what is posted in the rest of the block is refused."""
        with self._lock:
            self._refuse_if_over()
            self._end = "aborted"
            events = self._count()
            self._lines, self._last_lines = [], []
        with around(self):
            self._tell(Stage.BEFORE_ABORT, events, reason)
            self._tell(Stage.AFTER_ABORT, events, reason)

    def _refuse_if_over(self) -> None:
        if self._end is not None:
            raise TransactionOver(f"the transaction was {self._end}: post outside its block, or in another one")

    # ---- its life ----------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        """Begin."""
        if self._entered is not None:
            raise TransactionOver("a transaction begins once: take another one from engine.transaction()")
        self._tell(Stage.BEGIN, 0, None)
        self._active = _ACTIVE.set(self.engine)
        self._entered = _OPEN.set((*_OPEN.get(), self))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Commit, or abort if the block raised."""
        assert self._entered is not None, "it was entered"
        assert self._active is not None, "it was entered"
        try:
            if self._end is None and error is None:
                self._commit()
            elif self._end is None and error is not None:
                self.abort(_reason(error))
        finally:
            _OPEN.reset(self._entered)
            _ACTIVE.reset(self._active)

    def _commit(self) -> None:
        try:
            with around(self):
                self._tell(Stage.BEFORE_COMMIT, self._count(), None)
                outer = open_on(self.engine)
            with self._lock:
                self._refuse_if_over()
                self._end = "committed"
            if outer is None:
                # One that is refused all the same, as its class is gone by now, is among the rejected events.
                self._posts.post_all([*self._lines, *self._last_lines])
            else:
                outer._take(self._lines, self._last_lines)
        except BaseException as error:
            self._end = None
            self.abort(_reason(error))
            raise
        with around(self):
            self._tell(Stage.AFTER_COMMIT, self._count(), None)

    def _take(self, lines: list[str], last_lines: list[str]) -> None:
        """What a transaction inside this one has committed."""
        with self._lock:
            self._refuse_if_over()
            self._lines += lines
            self._last_lines += last_lines

    def _count(self) -> int:
        return len(self._lines) + len(self._last_lines)

    def _tell(self, stage: Stage, events: int, reason: str | None) -> None:
        if stage in self._stages.classes:
            known = {"transaction": self.name, "events": events, "reason": reason}
            tell(self.engine, _told(self._stages, stage, known))


def _reason(error: BaseException) -> str:
    return str(error) or type(error).__name__


# ---- what is open here --------------------------------------------------------------------------------

_OPEN: Final[ContextVar[tuple[Transaction, ...]]] = ContextVar("augury transactions", default=())
_ACTIVE: Final[ContextVar[Posting | None]] = ContextVar("augury engine", default=None)
_RULE_OF: Final[ContextVar[Posting | None]] = ContextVar("augury rule", default=None)


def open_on(engine: Posting) -> Transaction | None:
    """The innermost transaction of an engine that is open in this thread or task."""
    return next((one for one in reversed(_OPEN.get()) if one.engine is engine), None)


def active_engine() -> Posting | None:
    """The engine that methods post to in this thread or task."""
    return _ACTIVE.get()


@contextmanager
def inside_rule(engine: Posting) -> Iterator[None]:
    """A block in which a function of a rule runs, wherever that is: its methods post to the engine that fired it."""
    with _set(_RULE_OF, engine), _set(_ACTIVE, engine), _set(_OPEN, ()):
        yield


@contextmanager
def outside(engine: Posting) -> Iterator[None]:
    """A block in which no transaction of the engine is open."""
    with _set(_OPEN, tuple(one for one in _OPEN.get() if one.engine is not engine)):
        yield


@contextmanager
def around(transaction: Transaction) -> Iterator[None]:
    """A block in which only those are open that a transaction stands in."""
    standing = _OPEN.get()
    with _set(_OPEN, standing[: standing.index(transaction)] if transaction in standing else standing):
        yield


@contextmanager
def _set(variable: ContextVar[T], value: T) -> Iterator[None]:
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


def tell(engine: Posting, event: Event) -> None:
    """Post an event and wait for its triggers; where nobody can answer, they fire later."""
    if why_silent(engine) is None:
        engine.notify(event)
    else:
        engine.post(event)


def refuse_in_rule(engine: Posting) -> None:
    """Raise `InRule` for what the engine cannot do while it waits for one of its own rules."""
    if _RULE_OF.get() is engine:
        raise InRule("the engine waits for this rule: ticks, switches and changes of the program are made outside")


def why_silent(engine: Posting) -> str | None:
    """Why nobody can answer here who notifies an engine; None where somebody can."""
    if open_on(engine) is not None:
        return "nobody reads what is posted inside a transaction before it commits"
    if _RULE_OF.get() is engine:
        return "the engine waits for this rule, and reads nothing meanwhile"
    return None


def refuse_notify(engine: Posting) -> None:
    """Raise `NobodyAnswers` inside a transaction of the engine, or a rule."""
    if (why := why_silent(engine)) is not None:
        raise NobodyAnswers(f"{why}, so nobody can answer: notify outside, or post")
