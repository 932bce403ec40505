"""A function in Python as a source.

In: a function that takes the last position, or nothing. It gives items, which are then all there are; or items and a
new position, and then they are those after the last one. Positions are whatever JSON can hold. It may be a coroutine;
one that is not runs in a thread, and what it does is its own affair: it does not go through the environment.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from augury.detectors.sensor import BadDetector, Item, Seen, SourceFailed
from augury.history.raw import Broken, json_literal

Function = Callable[..., Any]


class FunctionSource:
    """Calls one function."""

    def __init__(self, function: Function, name: str) -> None:
        """Look at what it takes; raises `BadDetector`."""
        self._function, self._name = function, name
        try:
            inspect.signature(function).bind(None)
            self._takes_position = True
        except TypeError:
            self._takes_position = False
            try:
                inspect.signature(function).bind()
            except TypeError:
                raise BadDetector(f"`{name}` has to take the last position, or nothing") from None

    async def poll(self, position: bytes | None) -> Seen:
        """What the function gives."""
        given = [None if position is None else json.loads(position)] if self._takes_position else []
        try:
            if inspect.iscoroutinefunction(self._function):
                found = await self._function(*given)
            else:
                found = await asyncio.to_thread(lambda: _listed(self._function(*given)))
        except Exception as error:
            raise SourceFailed(f"`{self._name}` raises {type(error).__name__}: {error}") from error
        return self._seen(found, position)

    def _seen(self, found: object, position: bytes | None) -> Seen:
        whole = True
        if isinstance(found, tuple) and len(found) == 2 and not isinstance(found[0], Mapping):
            items, new = found
            try:
                position, whole = None if new is None else json.dumps(new).encode(), False
            except (TypeError, ValueError):
                raise SourceFailed(f"`{self._name}` gives a position that JSON cannot hold: {new!r}") from None
        else:
            items = found
        if items is None:
            items = ()
        if not isinstance(items, Iterable) or isinstance(items, str | bytes | Mapping):
            raise SourceFailed(f"`{self._name}` gives no list of items but {type(items).__name__}")
        return Seen(tuple(map(_item, items)), position, whole=whole)


def function_named(name: str) -> Function:
    """The function that `module:function` names; raises `BadDetector`."""
    module_name, mark, path = name.partition(":")
    if not mark or not path or not module_name:
        raise BadDetector(f"`{name}` names no function: write 'module:function'")
    try:
        found: Any = importlib.import_module(module_name)
        for part in path.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise BadDetector(f"`{name}` cannot be had: {error}") from None
    if not callable(found):
        raise BadDetector(f"`{name}` is no function but {type(found).__name__}")
    return found  # type: ignore[no-any-return]


def _listed(found: object) -> object:
    """A generator runs where its function does."""
    if isinstance(found, tuple) and len(found) == 2 and inspect.isgenerator(found[0]):
        return list(found[0]), found[1]
    return list(found) if inspect.isgenerator(found) else found


def _item(value: object) -> Item | Broken:
    if isinstance(value, Mapping) and all(isinstance(name, str) for name in value):
        return Item(value, is_event=True)
    return Broken("an item is a mapping from names to values", json_literal(value))
