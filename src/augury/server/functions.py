"""Functions of rules in Python: those that a program, settings or modules bind to actions, called by way of a name.

In: bindings. Out: callables by action, for the engine. They look up what they call each time, so that code that was
loaded again counts from the next call on, as it does for executors. What waits for others, or asks for its delivery, is
left to the outbox.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from augury.actions.delivery import Executor
from augury.actions.python import Function, NoFunction, Python, function_named, registered
from augury.actions.settings import ActionSettings
from augury.algebra.program import Program
from augury.algebra.wiring import ExecutorKind
from augury.event import key_of


class RuleFunctions:
    """The functions of a program's rules."""

    def __init__(self, program: Program, settings: ActionSettings) -> None:
        """Find them all; raises `NoFunction`."""
        self._program, self._settings = program, settings
        self._now = self._found()

    def by_action(self) -> dict[str, Callable[..., Any]]:
        """What the engine calls, by action."""
        return {name: self._calling(name) for name, function in self._now.items() if _is_plain(function)}

    def reload(self, executors: Iterable[Executor] = ()) -> list[str]:
        """Load their modules again, for executors, too; where one cannot be, all stays as it is: `NoFunction`."""
        names = sorted({function.__module__ for function in self._now.values()})
        for name in names:
            if (module := sys.modules.get(name)) is None or name == "__main__":
                continue
            try:
                importlib.reload(module)
            except Exception as error:  # whatever the code does while it is loaded
                raise NoFunction(f"the module `{name}` cannot be loaded: {type(error).__name__}: {error}") from error
        found = self._found()
        for name, function in self._now.items():
            if _is_plain(function) and not _is_plain(found[name]):
                raise NoFunction(
                    f"`{name}` is called by rules at once: a coroutine, or one that asks for its `delivery`, waits"
                )
        self._now = found
        for executor in executors:
            if isinstance(executor, Python):
                executor.renew()
        return names

    def _calling(self, name: str) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            return self._now[name](*arguments)

        return call

    def _found(self) -> Mapping[str, Function]:
        found = dict(registered(self._settings.modules))
        for binding in (*self._program.bindings, *self._settings.bindings):
            found.pop(key_of(binding.action), None)
            if binding.kind is ExecutorKind.PYTHON and isinstance(binding.target[0], str):
                found[key_of(binding.action)] = function_named(binding.target[0])
        return found


def _is_plain(function: Function) -> bool:
    return not inspect.iscoroutinefunction(function) and "delivery" not in inspect.signature(function).parameters
