"""PYTHON: functions that carry out actions, registered by `@augury.action`, in modules, or as entry points.

A function gets the arguments of the action by position, and the `Delivery` too where it has a parameter of that name.
A coroutine runs in the event loop, any other in a thread. What it raises lets it be called again later, but for
`GiveUp`. This module imports what it is told to, and knows nothing else of the world.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
from collections.abc import Callable
from functools import partial
from importlib.metadata import entry_points
from typing import Any, Final, TypeVar

from augury.actions.delivery import Again, Dead, Delivered, Delivery, GiveUp, HoldsNothing, Outcome, shortened, told
from augury.actions.threads import Threads
from augury.environment import Environment
from augury.event import key_of

Function = Callable[..., Any]
_F = TypeVar("_F", bound=Function)

ENTRY_POINTS: Final = "augury.actions"
_REGISTERED: Final[dict[str, Function]] = {}


class NoFunction(LookupError):
    """A function that is not there; the message says what was looked for, and where."""


def action(name: str) -> Callable[[_F], _F]:
    """Let a function carry out the actions of a name: `@augury.action("informOwner")`."""

    def register(function: _F) -> _F:
        known = _REGISTERED.get(key_of(name))
        if known is not None and _place(known) != _place(function):
            raise ValueError(f"the action `{name}` is carried out by {_place(known)} already")
        _REGISTERED[key_of(name)] = function
        return function

    return register


def _place(function: Function) -> str:
    return f"{function.__module__}.{getattr(function, '__qualname__', repr(function))}"


def registered(modules: tuple[str, ...] = ()) -> dict[str, Function]:
    """The functions that carry out actions, by name, once the modules and entry points are loaded.

    Of an entry point the name is the action, and its object the function; one that is a module registers what it has.
    Raises `NoFunction`.
    """
    for module in modules:
        _import(module)
    named: dict[str, Function] = {}
    for point in entry_points(group=ENTRY_POINTS):
        try:
            found = point.load()
        except (ImportError, AttributeError) as error:
            raise NoFunction(f"the entry point `{point.name}` cannot be loaded: {error}") from error
        if callable(found):
            named.setdefault(key_of(point.name), found)
    return {**named, **_REGISTERED}


def function_named(path: str) -> Function:
    """The function at `module:function`; raises `NoFunction`."""
    module, colon, name = path.partition(":")
    if not colon or not name:
        raise NoFunction(f"`{path}` names no function: write `module:function`")
    found: Any = _import(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        raise NoFunction(f"the module `{module}` has no function `{name}`")
    function: Function = found
    return function


def _import(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise NoFunction(f"the module `{module}` cannot be imported: {error}") from error


class Python(HoldsNothing):
    """Calls a function."""

    def __init__(self, find: Callable[[], Function], places: int, seconds: float | None) -> None:
        """Take a way to find a function, and how long a call may take; raises what finding it does."""
        self._find, self._seconds = find, seconds
        self._function = find()
        self.target = f"python {_place(self._function)}"
        self._threads = Threads(places)

    def renew(self) -> None:
        """Find the function again, whose module was loaded again; raises what that does, and then it stays."""
        self._function = self._find()

    async def carry_out(self, delivery: Delivery, environment: Environment) -> Outcome:
        """Call it."""
        function = self._function
        signature = inspect.signature(function)
        more = {"delivery": delivery} if "delivery" in signature.parameters else {}
        try:
            signature.bind(*delivery.arguments, **more)
        except TypeError as error:
            return Dead(f"the function cannot be called with these arguments: {error}")
        call = partial(function, *delivery.arguments, **more)
        try:
            if inspect.iscoroutinefunction(function):
                async with asyncio.timeout(self._seconds):
                    await call()
            else:
                await self._threads.run(call, self._seconds)
        except GiveUp as error:
            return Dead(shortened(str(error) or "the function gave up"))
        except TimeoutError:
            return Again(f"the function took longer than {self._seconds:g} s")
        except Exception as error:
            return Again(told(error))
        return Delivered()
