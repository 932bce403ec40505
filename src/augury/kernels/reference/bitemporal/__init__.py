"""The slow oracle of bitemporal events: versions, ticks, conditions, complex classes and expiry, as docs/bitemporal.md.

In: a checked program, its raw versions, and a callable per SELECT. Out: what every tick reads, publishes, does, rejects
and purges. Everything is worked out anew at every tick; nothing is optimised.
"""

from augury.kernels.reference.bitemporal.deciding import Action
from augury.kernels.reference.bitemporal.expiry import expiries
from augury.kernels.reference.bitemporal.resolution import as_known_at, as_of_now, resolve
from augury.kernels.reference.bitemporal.running import Failed, Run, Tick, run
from augury.kernels.reference.bitemporal.selecting import Made, Select, SelectFailed, View
from augury.kernels.reference.bitemporal.timing import Moment, holds
from augury.kernels.reference.bitemporal.version import ABSENT, Change, EventId, Raw, Reason, Rejected, Version

__all__ = [
    "ABSENT",
    "Action",
    "Change",
    "EventId",
    "Failed",
    "Made",
    "Moment",
    "Raw",
    "Reason",
    "Rejected",
    "Run",
    "Select",
    "SelectFailed",
    "Tick",
    "Version",
    "View",
    "as_known_at",
    "as_of_now",
    "expiries",
    "holds",
    "resolve",
    "run",
]
