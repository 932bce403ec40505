"""Augury finds composite events in streams and histories, and knows when they happened and when it learned of them."""

from typing import TYPE_CHECKING, Any

from augury import api
from augury.api import Checked, Program, ProgramError, action, check, compile, detect, history, watch

if TYPE_CHECKING:
    from augury.api import Client, GiveUp, LocalEngine, PostRefused, event_method, sinks, sources

__version__ = "0.1.0"
__all__ = [
    "Checked",
    "Client",
    "GiveUp",
    "LocalEngine",
    "PostRefused",
    "Program",
    "ProgramError",
    "__version__",
    "action",
    "check",
    "compile",
    "detect",
    "event_method",
    "history",
    "sinks",
    "sources",
    "watch",
]


def __getattr__(name: str) -> Any:
    """What is loaded only when it is asked for."""
    if name in api.LOADED_LATE:
        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
