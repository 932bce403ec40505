"""How Hypothesis draws: the same cases in every run of `make test`, fresh ones in `make soak`; and what runs count.

A test that does as much as there is time for records how much that was, by `record_property(COUNTED + what, number)`;
a run says at its end how much it was of each in all.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from typing import Final

import pytest
from hypothesis import settings

COUNTED: Final = "counted: "

settings.register_profile("repeatable", derandomize=True, deadline=None, database=None)
settings.register_profile("fresh", deadline=None, print_blob=True)
settings.load_profile("fresh" if os.environ.get("AUGURY_FRESH") else "repeatable")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what tests have counted."""
    reports = [one for some in terminalreporter.stats.values() for one in some if isinstance(one, pytest.TestReport)]
    for line in counted_lines(reports):
        terminalreporter.write_line(line)


def counted_lines(reports: Iterable[pytest.TestReport]) -> list[str]:
    """A line for everything that tests have counted: how much in all, and in how many tests."""
    totals, tests = Counter[str](), Counter[str]()
    for report in reports:
        if report.when == "call":
            for name, value in report.user_properties:
                if name.startswith(COUNTED) and isinstance(value, int):
                    what = name.removeprefix(COUNTED)
                    totals[what] += value
                    tests[what] += 1
    return [f"counted: {what}: {totals[what]:,} in {tests[what]} tests" for what in totals]
