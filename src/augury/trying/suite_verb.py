"""`augury test`: paths of suites → what to print where, and the exit code.

In: paths, options, and whose files they are. Out: a `Tested`. It rewrites suites where it is told to, prints nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from augury.algebra.program import Program
from augury.api import check
from augury.diagnostics import Diagnostic, Mark, Source
from augury.engine.plan import CannotRun
from augury.engine.progress import Tell
from augury.environment import Environment
from augury.files import UnreadableFile, read_source, write_text
from augury.trying.suite import EXACT, Suite, Unusable
from augury.trying.suite_bound import BoundSuite, Result
from augury.trying.suite_compare import unmet
from augury.trying.suite_coverage import Coverage, coverage
from augury.trying.suite_names import bound
from augury.trying.suite_read import read_suite
from augury.trying.suite_report import Reported
from augury.trying.suite_run import Runner
from augury.trying.suite_update import Update, updated


@dataclass(frozen=True, slots=True)
class Tested:
    """All suites; `notes` say what was rewritten."""

    reports: tuple[Reported, ...]
    covered: tuple[Coverage, ...]
    notes: tuple[str, ...]
    exit_code: int

    @property
    def results(self) -> tuple[Result, ...]:
        """Of all suites together."""
        return tuple(one for report in self.reports for one in report.results)


def tested(paths: Sequence[str], seed: int, environment: Environment, *, update: bool, tell: Tell | None) -> Tested:
    """Run suites, one after the other; one that cannot be run does not keep the others from it."""
    run = _Run(seed, environment, update, tell)
    reports = tuple(run.suite(path) for path in paths)
    used = [one for one in run.programs.values() if one.results]
    covered = tuple(coverage(one.program, one.source, one.results) for one in used)
    results = [one for report in reports for one in report.results]
    if any(not one.passed for one in results):
        run.exit_code = max(run.exit_code, 1)
    if any(one.is_lacking for one in results):
        run.exit_code = 3
    return Tested(reports, covered, tuple(run.notes), run.exit_code)


@dataclass(slots=True)
class _Used:
    """A program that suites test, made ready once, and the results of all its tests."""

    program: Program
    source: Source
    runner: Runner
    results: list[Result] = field(default_factory=list)


class _NotRun(Exception):
    """A suite that cannot be run: what is wrong, where, and the exit code that this has."""

    def __init__(self, problems: Sequence[tuple[Diagnostic, Source]], exit_code: int) -> None:
        super().__init__("; ".join(diagnostic.message for diagnostic, _ in problems))
        self.problems = tuple(problems)
        self.exit_code = exit_code


@dataclass(slots=True)
class _Run:
    """Goes over suites; `exit_code` is the gravest so far."""

    seed: int
    world: Environment
    update: bool
    tell: Tell | None
    programs: dict[str, _Used] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    exit_code: int = 0

    def suite(self, path: str) -> Reported:
        """One suite with its results, or with what keeps it from being run."""
        source = Source(path, "")
        try:
            try:
                source = read_source(path, "suite", "*.yaml", self.world)
            except UnreadableFile as error:
                raise _NotRun([(error.diagnostic, error.source)], 2) from None
            suite = _usable(read_suite(source))
            used = self.program(suite)
            results = self.results(used, _usable(bound(suite, used.program)))
            if self.update:
                results = self.updated(path, source, used, results)
        except _NotRun as error:
            self.exit_code = max(self.exit_code, error.exit_code)
            return Reported(source, (), error.problems)
        used.results += results
        return Reported(source, tuple(results))

    def results(self, used: _Used, suite: BoundSuite) -> list[Result]:
        """How the tests went; a replay may find only then that it cannot be done."""
        try:
            return list(used.runner.run(suite))
        except CannotRun as error:
            raise _NotRun([(one, used.source) for one in error.diagnostics], 1) from None

    def program(self, suite: Suite) -> _Used:
        """The program of a suite, ready to be run."""
        folder = Path(suite.source.name).parent if suite.source.name != "-" else Path()
        path = str(folder / suite.program)
        place = self.world.files.resolved(path)
        if place in self.programs:
            return self.programs[place]
        try:
            source = read_source(path, environment=self.world)
        except UnreadableFile as error:
            mark = Mark(suite.program_span, "the program of this suite")
            helps = ("the path is taken from the folder of the suite",)
            problem = Diagnostic(error.diagnostic.code, error.diagnostic.message, mark, helps=helps)
            raise _NotRun([(problem, suite.source)], error.exit_code) from None
        checked = check(source.text, source.name)
        if checked.program is None or checked.errors:
            raise _NotRun([(one, source) for one in checked.errors], 1)
        try:
            runner = Runner(checked.program, self.seed, self.world.monotonic, self.tell)
        except CannotRun as error:
            raise _NotRun([(one, source) for one in error.diagnostics], 1) from None
        used = _Used(checked.program, source, runner)
        self.programs[place] = used
        return used

    # ---- --update ------------------------------------------------------------------------------------

    def updated(self, path: str, source: Source, used: _Used, results: list[Result]) -> list[Result]:
        """Write down what was got, once that has been seen to hold; gives how the tests go now."""
        update = updated(source, results)
        self.notes += [f"{path}: {one}; edit it by hand" for one in update.by_hand]
        if update.text == source.text:
            return results
        suite = read_suite(Source(path, update.text))
        again = bound(suite, used.program) if isinstance(suite, Suite) else suite
        found = self.results(used, again) if isinstance(again, BoundSuite) else []
        if not found or not _holds(found, update):
            self.notes.append(f"{path}: what was got could not be written down; nothing is changed, edit it by hand")
            return results
        try:
            write_text(path, update.text, self.world, keeps_line_ends=True)
        except UnreadableFile as error:
            raise _NotRun([(error.diagnostic, error.source)], error.exit_code) from None
        self.notes.append(f"{path}: rewritten")
        return found


def _holds(results: Sequence[Result], update: Update) -> bool:
    """Whether what was rewritten is so; what has to be edited by hand is not asked for."""
    wrong = [
        check
        for one in results
        for check in one.bound.checks
        if check.expectation.demand in EXACT and unmet(one.bound, check, one.ran) is not None
        if one.engine == one.bound.test.engines[0]
    ]
    return len(wrong) <= len(update.by_hand)


_T = TypeVar("_T", Suite, BoundSuite)


def _usable(found: _T | Unusable) -> _T:
    if isinstance(found, Unusable):
        raise _NotRun([(one, found.source) for one in found.diagnostics], 2)
    return found
