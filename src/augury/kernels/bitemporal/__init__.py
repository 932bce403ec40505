"""Bitemporal ticks over columns: as-of-now views, conditions with their timing primitives, timers and expiry.

In: the versions that a tick reads, class by class. Out: what happened to which event, which actions fire, which events
leave. `watch` says what statements look at, `live` keeps the view, `primitives` and `conditions` decide, `due` and
`expiry` know when.
"""

from augury.kernels.bitemporal.carried import carried
from augury.kernels.bitemporal.conditions import Fired, FiredAction, decide
from augury.kernels.bitemporal.due import NEVER, Due, tick_after
from augury.kernels.bitemporal.expiry import Constituents, Expiry
from augury.kernels.bitemporal.live import (
    LiveView,
    Sight,
    Versions,
    keys_of,
    live_view,
    purge,
    read,
    recall,
    versions_of,
)
from augury.kernels.bitemporal.snapshot import as_of_now, live_slots
from augury.kernels.bitemporal.tick import ClassState, class_state, decided, step, take
from augury.kernels.bitemporal.watch import Watch, watch

__all__ = [
    "NEVER",
    "ClassState",
    "Constituents",
    "Due",
    "Expiry",
    "Fired",
    "FiredAction",
    "LiveView",
    "Sight",
    "Versions",
    "Watch",
    "as_of_now",
    "carried",
    "class_state",
    "decide",
    "decided",
    "keys_of",
    "live_slots",
    "live_view",
    "purge",
    "read",
    "recall",
    "step",
    "take",
    "tick_after",
    "versions_of",
    "watch",
]
