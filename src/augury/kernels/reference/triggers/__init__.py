"""The slow oracle of triggers and rules: raw versions in, firings out, with all that rules do and post.

Written from the language contract and from Raghavan (1999), never optimised, and independent of every engine. The
references of COMPOSITE and of bitemporal events say what happens; `expressions` finds occurrences, `structures` runs
rules, `queueing` has what they post, `turning` knows what is in force when, `running` puts them together.
docs/triggers.md has the readings.
"""

from augury.kernels.firing import (
    Call,
    Done,
    Firing,
    Functions,
    Outcome,
    Posted,
    Refusal,
    Revision,
    RuleFailed,
    Switch,
    Switched,
    Turn,
)
from augury.kernels.reference.triggers.running import DEPTH_MAX, Triggered, triggered

__all__ = [
    "DEPTH_MAX",
    "Call",
    "Done",
    "Firing",
    "Functions",
    "Outcome",
    "Posted",
    "Refusal",
    "Revision",
    "RuleFailed",
    "Switch",
    "Switched",
    "Triggered",
    "Turn",
    "triggered",
]
