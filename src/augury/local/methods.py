"""Events by methods: a decorated method or function posts an event when it is called, under a coupling mode.

In: names of classes by mode, and the arguments of each call. Out: events, posted to the engine that is active in this
thread or task. The modes are those of Raghavan 1999, chapters 3 and 4: the caller waits for the triggers of before,
after and instead of, and for none of the others.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, ParamSpec, TypeVar, cast

from augury.algebra.program import Program
from augury.event import EventClass, key_of
from augury.local.making import MISSING, NotBound, in_mapping, lacking, made, posted_class
from augury.local.transactions import NobodyAnswers, Posting, active_engine, open_on, outside, tell, why_silent

P = ParamSpec("P")
R = TypeVar("R")

RESULT: Final = "result"
"""The attribute that has what the call gave back."""


class NoActiveEngine(RuntimeError):
    """A method that posts events was called where no engine is active."""


class Mode(StrEnum):
    """When an event is posted, relative to the call, and whether the caller waits for its triggers."""

    BEFORE = "before"
    ON = "on"
    DETACHED = "detached"
    INSTEAD_OF = "instead_of"
    AFTER = "after"
    ON_COMMIT = "on_commit"


def event_method(
    *,
    before: str | None = None,
    after: str | None = None,
    on: str | None = None,
    instead_of: str | None = None,
    on_commit: str | None = None,
    detached: str | None = None,
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Let a method or function post events of these classes when it is called inside `with engine.active():`.

    Attributes take the arguments of their names, without regard to case; then those of `self`; the rest is NULL.
    `before` and `after` the call its triggers are waited for; `instead_of` is answered by the RETURNS value of the
    trigger that fires, and by the call itself if none does; `on` and `detached` are posted at the call, `on_commit`
    when the transaction around it commits. `detached` is posted whatever becomes of that.
    """
    by_mode = {
        Mode.BEFORE: before,
        Mode.ON: on,
        Mode.DETACHED: detached,
        Mode.INSTEAD_OF: instead_of,
        Mode.AFTER: after,
        Mode.ON_COMMIT: on_commit,
    }
    names = {mode: name for mode, name in by_mode.items() if name is not None}

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        method = _Method(function, names)
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def awaited(*args: P.args, **kwargs: P.kwargs) -> Any:
                return await method.call_async(args, kwargs)

            return cast(Callable[P, R], awaited)

        @functools.wraps(function)
        def called(*args: P.args, **kwargs: P.kwargs) -> R:
            return cast(R, method.call(args, kwargs))

        return called

    return decorate


@dataclass(frozen=True, slots=True)
class _Bound:
    """The classes of a method, as a program has them."""

    program: Program
    classes: Mapping[Mode, EventClass]


class _Method:
    """A function, and the classes it posts."""

    def __init__(self, function: Callable[..., Any], names: Mapping[Mode, str]) -> None:
        """Raises `NotBound` for what no program could make good."""
        self._function, self._names = function, names
        self._where = _where(function)
        if not names:
            modes = ", ".join(f"{mode}=…" for mode in Mode)
            raise NotBound(f"{self._where}: event_method needs a class to post, by one or more of {modes}")
        if isinstance(function, staticmethod | classmethod):
            kind = type(function).__name__
            raise NotBound(f"{self._where}: event_method takes a function: write @{kind} above it, not below")
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise NotBound(f"{self._where}: a call of a function that yields is no point in time; wrap what it calls")
        self._signature = inspect.signature(function)
        self._has_self = next(iter(self._signature.parameters), None) == "self"
        self._bound: _Bound | None = None

    def bound(self, program: Program) -> _Bound:
        """The classes that this program has by these names; raises `NotBound`."""
        bound = self._bound
        if bound is None or bound.program is not program:
            where = self._where
            classes = {mode: posted_class(program, name, where) for mode, name in self._names.items()}
            for mode, event_class in classes.items():
                self._refuse_unkeyed(mode, event_class)
            bound = self._bound = _Bound(program, classes)
        return bound

    def _refuse_unkeyed(self, mode: Mode, event_class: EventClass) -> None:
        """Without `self` and `**kwargs` the parameters say what can be known of a call."""
        parameters = self._signature.parameters.values()
        if self._has_self or any(one.kind is one.VAR_KEYWORD for one in parameters):
            return
        known = {key_of(one.name) for one in parameters} | ({RESULT} if mode in _WITH_RESULT else set())
        for name in event_class.key:
            if key_of(name) not in known:
                raise NotBound(lacking(event_class, name, self._where))

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call the function, and post before and after it."""
        call = self._begun(args, kwargs)
        for mode in call.of(_AHEAD):
            call.post(mode)
        replaced, result = call.answer()
        if not replaced:
            result = self._function(*args, **kwargs)
        call.result = result
        for mode in call.of(_WITH_RESULT):
            call.post(mode)
        return result

    async def call_async(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The same for a coroutine; other tasks run while something is posted."""
        call = self._begun(args, kwargs)
        for mode in call.of(_AHEAD):
            await asyncio.to_thread(call.post, mode)
        asked = Mode.INSTEAD_OF in call.classes
        replaced, result = await asyncio.to_thread(call.answer) if asked else (False, None)
        if not replaced:
            result = await self._function(*args, **kwargs)
        call.result = result
        for mode in call.of(_WITH_RESULT):
            await asyncio.to_thread(call.post, mode)
        return result

    def _begun(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Call:
        engine = active_engine()
        if engine is None:
            raise NoActiveEngine(f"{self._where}: no engine is active here: call it inside `with engine.active():`")
        bound = self.bound(engine.program)
        given = self._signature.bind(*args, **kwargs)
        given.apply_defaults()
        arguments: dict[str, Any] = {}
        for name, value in given.arguments.items():
            match self._signature.parameters[name].kind:
                case inspect.Parameter.VAR_KEYWORD:
                    arguments |= {key: one for key, one in value.items() if key not in arguments}
                case inspect.Parameter.VAR_POSITIONAL:
                    pass
                case _:
                    arguments[name] = value
        holder = arguments.pop("self") if self._has_self else None
        return _Call(engine, bound.classes, arguments, holder, self._where)


_AHEAD: Final = (Mode.BEFORE, Mode.ON, Mode.DETACHED)
_WITH_RESULT: Final = (Mode.AFTER, Mode.ON_COMMIT)


@dataclass(slots=True)
class _Call:
    """One call: what its events are made of."""

    engine: Posting
    classes: Mapping[Mode, EventClass]
    arguments: Mapping[str, Any]
    holder: object
    where: str
    result: Any = MISSING

    def of(self, modes: Iterable[Mode]) -> list[Mode]:
        """Those that the method has a class for."""
        return [mode for mode in modes if mode in self.classes]

    def post(self, mode: Mode) -> None:
        """Post the event of a mode."""
        event = self._event(self.classes[mode])
        transaction = open_on(self.engine)
        match mode:
            case Mode.BEFORE | Mode.AFTER:
                tell(self.engine, event)
            case Mode.DETACHED:
                with outside(self.engine):
                    self.engine.post(event)
            case Mode.ON_COMMIT if transaction is not None:
                transaction.post_last(event)
            case Mode.ON | Mode.ON_COMMIT:
                self.engine.post(event)
            case Mode.INSTEAD_OF:
                raise AssertionError("`answer` posts it")

    def answer(self) -> tuple[bool, Any]:
        """Whether a trigger answered instead of the call, and what."""
        event_class = self.classes.get(Mode.INSTEAD_OF)
        if event_class is None:
            return False, None
        if (why := why_silent(self.engine)) is not None:
            raise NobodyAnswers(f"{self.where}: {why}, so nothing can answer instead of the call: call it outside")
        returned = self.engine.notify(self._event(event_class)).returned
        return (True, next(iter(returned.values()))) if returned else (False, None)

    def _event(self, event_class: EventClass) -> dict[str, Any]:
        in_arguments = in_mapping(self.arguments)

        def find(name: str) -> Any:
            if self.result is not MISSING and key_of(name) == RESULT:
                return self.result
            value = in_arguments(name)
            return _attribute(self.holder, name) if value is MISSING and self.holder is not None else value

        return made(event_class, find, self.where)


def _attribute(holder: object, name: str) -> Any:
    """What an object has by that name; not what it can do."""
    value = getattr(holder, name, MISSING)
    if value is MISSING:
        spelled = next((one for one in dir(holder) if key_of(one) == key_of(name)), None)
        value = MISSING if spelled is None else getattr(holder, spelled, MISSING)
    return MISSING if callable(value) else value


def _where(function: Callable[..., Any]) -> str:
    """What a function is called, and where it stands."""
    plain = inspect.unwrap(getattr(function, "__func__", function))
    name = getattr(plain, "__qualname__", repr(plain))
    code = getattr(plain, "__code__", None)
    return f"`{name}`" if code is None else f"{code.co_filename}:{code.co_firstlineno}: `{name}`"
