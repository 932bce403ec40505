"""How Hypothesis draws: the same cases in every run of `make test`, fresh ones in `make soak`."""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, deadline=None, database=None)
settings.register_profile("fresh", deadline=None, print_blob=True)
settings.load_profile("fresh" if os.environ.get("AUGURY_FRESH") else "repeatable")
