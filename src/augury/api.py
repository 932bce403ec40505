"""The library on one page: text → a checked program, or everything that is wrong with it; a program over events.

What runs a program is imported when it is asked for, so that checking stays quick and needs neither columns nor Spark.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Final

from augury.algebra import program as algebra
from augury.algebra.composite import CompositePlan
from augury.algebra.expression import MatchPlan
from augury.analysis.bindings import note_of_unbound
from augury.analysis.program import analyse
from augury.automata.advice import advise
from augury.automata.deep import Deep, compare_classes
from augury.diagnostics import Diagnostic, Findings, Severity, Source, render
from augury.event import key_of
from augury.graphs import keeping
from augury.language.parser import parse
from augury.language.syntax import Program as Syntax

if TYPE_CHECKING:
    from pathlib import Path

    from augury.actions.settings import ActionSettings
    from augury.client import Client as Client
    from augury.engine.ports import SelectsBy
    from augury.kernels.told import Why, WhyNot
    from augury.lake import LakeHistory
    from augury.local.engine import Detected, Occurrence
    from augury.local.methods import event_method as event_method
    from augury.local.posts import PostRefused as PostRefused
    from augury.local.running import LocalEngine as LocalEngine
    from augury.spark import sinks as sinks
    from augury.spark import sources as sources

LOADED_LATE: Final = {
    "Client": "augury.client",
    "GiveUp": "augury.actions.delivery",
    "LocalEngine": "augury.local.running",
    "event_method": "augury.local.methods",
    "PostRefused": "augury.local.posts",
    "sinks": "augury.spark.sinks",
    "sources": "augury.spark.sources",
}
"""Names of the library that bring columns or Spark with them: `augury` leaves them until they are asked for."""


def __getattr__(name: str) -> Any:
    if name in LOADED_LATE:
        found = importlib.import_module(LOADED_LATE[name])
        return found if found.__name__.endswith(f".{name}") else getattr(found, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def action(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Let a function carry out the actions of a name: `@augury.action("informOwner")`."""
    from augury.actions.python import action as register

    return register(name)


@dataclass(frozen=True, slots=True)
class Checked:
    """A text with what it says and what is wrong with it; `program` is None if there are errors."""

    source: Source
    syntax: Syntax
    program: algebra.Program | None
    diagnostics: tuple[Diagnostic, ...]

    @property
    def errors(self) -> tuple[Diagnostic, ...]:
        """The diagnostics that keep the program from running."""
        return tuple(d for d in self.diagnostics if d.severity is Severity.ERROR)

    def rendered(self, *, colour: bool = False) -> str:
        """All diagnostics as the terminal shows them."""
        return "\n\n".join(render(d, self.source, colour=colour) for d in self.diagnostics)


class ProgramError(ValueError):
    """A program that does not compile; `diagnostics` says why, and so does the message."""

    def __init__(self, checked: Checked) -> None:
        """Keep the diagnostics, and render them as the message."""
        super().__init__(checked.rendered())
        self.diagnostics = checked.diagnostics


def check(text: str, name: str = "program") -> Checked:
    """Read and analyse a program, and say what automata know of it; never raises for anything a user can write."""
    checked = _read(text, name)
    if checked.program is None:
        return checked
    findings = Findings()
    findings.extend(checked.diagnostics)
    # A pipe that is taken for OR hardly ever takes place; it has been said already.
    pipes = [d.mark.span for d in checked.diagnostics if d.code == "W301"]
    findings.extend(keeping.advise(checked.program))
    found = advise(checked.program, text)
    findings.extend(d for d in found if not (d.code == "W305" and any(d.mark.span.holds(pipe) for pipe in pipes)))
    return replace(checked, diagnostics=findings.sorted())


def with_settings(checked: Checked, settings: ActionSettings) -> Checked:
    """The same, where settings may bind actions too: of those that nobody carries out there is a warning, or a note.

    A program that binds some actions is warned of the others, W393; of one that binds none there is one note, N304, and
    likewise where functions of modules may carry them out, which are not imported here.
    """
    program = checked.program
    if program is None:
        return checked
    bound = {key_of(binding.action) for binding in settings.bindings}
    text = checked.source.text
    kept = [d for d in checked.diagnostics if d.code != "W393" or not (settings.modules or _marked(d, text) in bound)]
    findings = Findings()
    findings.extend(kept)
    if all(d.code != "W393" for d in kept) and (note := note_of_unbound(program, bound, settings.modules)) is not None:
        findings.add(note)
    return replace(checked, diagnostics=findings.sorted())


def deep(checked: Checked, is_over: Callable[[], bool] = lambda: False) -> Deep:
    """How the MATCH classes of a checked program relate to each other; `is_over` says whether to stop early."""
    assert checked.program is not None, "only programs without errors are compared"
    return compare_classes(checked.program, is_over)


class Program(algebra.Program):
    """A checked program that runs: `detect` over events in process, `why` and `why_not` about what it found."""

    __slots__ = ()

    def detect(self, events: Any) -> Detected:
        """Every complex event of these events, in process and without a JVM.

        `events` is an Arrow table, a pandas frame or a list of dicts with a column `event` that names the class, or a
        mapping from class names to any of these. What cannot be run raises `CannotRun`, with diagnostics.
        """
        from augury.local.engine import detect
        from augury.local.kernel import match_kernel
        from augury.local.sources import tables_of

        return detect(self, tables_of(events), match_kernel)

    def why(self, occurrence: Occurrence) -> Why:
        """The constituents of a complex event, each with the part of the expression that it satisfies.

        Of a COMPOSITE also what the clock had to do with it, and which negated operands stayed away, and for how long.
        """
        from augury.kernels.composite.why import why as why_composite
        from augury.kernels.match.why import why

        plan = self._derivation(occurrence.event)
        history, constituents, chronon_us = occurrence.history, occurrence.constituents, self.settings.chronon_us
        if isinstance(plan, CompositePlan):
            return why_composite(
                plan,
                history,
                occurrence.seq,
                constituents,
                occurrence.values,
                occ_time=occurrence.occ_time,
                det_time=occurrence.det_time,
                chronon_us=chronon_us,
            )
        clock_us = occurrence.det_time
        return why(plan, history, occurrence.seq, constituents, clock_us=clock_us, chronon_us=chronon_us)

    def why_not(self, name: str, detected: Detected, seq: int | None = None, *, at_us: int | None = None) -> WhyNot:
        """The first part of a MATCH or COMPOSITE class that failed at the version with this `seq`.

        A COMPOSITE may be asked about the clock, at `at_us` microseconds since the epoch, instead of a version.
        """
        from augury.kernels.composite.why_not import why_not as why_not_composite
        from augury.kernels.match.why_not import why_not

        plan, history, chronon_us = self._derivation(name), detected.history_of(name), self.settings.chronon_us
        if (seq is None) == (at_us is None):
            raise ValueError("why_not needs the `seq` of a version, or a time of the clock in `at_us`")
        if isinstance(plan, CompositePlan):
            return why_not_composite(plan, history, seq, at_us=at_us, chronon_us=chronon_us)
        if seq is None:
            raise ValueError(f"{name} is a MATCH class, which the clock does not complete: why_not needs a `seq`")
        return why_not(plan, history, seq, chronon_us=chronon_us)

    def _derivation(self, name: str) -> MatchPlan | CompositePlan:
        plan = self.class_plan(name)
        if plan is None or not isinstance(plan.derivation, MatchPlan | CompositePlan):
            raise KeyError(f"the program has no MATCH or COMPOSITE class called {name}")
        return plan.derivation


def compile(text: str, name: str = "program") -> Program:
    """A checked program; raises ProgramError with everything that is wrong."""
    checked = _read(text, name)
    if checked.program is None:
        raise ProgramError(checked)
    return Program(**{f.name: getattr(checked.program, f.name) for f in fields(checked.program)})


def detect(program: Program, events: Any, *, as_known_at: Any = None, selects: SelectsBy = "duckdb") -> Any:
    """What a program finds in events: on Spark, lazily, if they are data frames of Spark or a lake's; else in process.

    `augury.history(path)` as events is what a `watch` keeps in that lake: each version has the `seq` that it was given
    there, so that the same program says the same as the stream.

    On Spark every program runs, with SELECTs, conditions and actions; `as_known_at` gives what would have been said by
    that time (a datetime, ISO text or microseconds): what was detected later is not read. With `selects="spark"` Spark
    itself runs the SELECTs, from the driver, and not DuckDB in tasks: docs/spark.md says when that pays.
    """
    algebra.require_program(program)
    some = next(iter(events.values()), None) if isinstance(events, Mapping) else events
    until_us = None if as_known_at is None else _microseconds(as_known_at)
    if type(events).__module__ == "augury.lake.shown":
        from augury.spark.histories import detect_in_history

        return detect_in_history(program, events, until_us=until_us, selects=selects)
    if type(some).__module__.startswith("pyspark."):
        from augury.spark.choosing import detect as detect_on_spark

        return detect_on_spark(program, events, until_us=until_us, selects=selects)
    if as_known_at is not None:
        raise ValueError(
            "as_known_at is for data frames of Spark and histories of lakes; in process, leave out later events"
        )
    if selects != "duckdb":
        raise ValueError(
            "selects is for data frames of Spark and histories of lakes; in process, SELECTs run on DuckDB"
        )
    return program.detect(events)


def watch(
    program: Program,
    stream: Any,
    *,
    store: str | Path,
    act: bool = False,
    settings: str | Path | None = None,
    deliveries: str | None = None,
    **options: Any,
) -> Any:
    """Run a program over a streaming data frame of Spark, and keep everything in the folder `store`.

    Gives a `Watch`, a handle over Spark's query; a later watch on the same folder goes on where this one stopped.
    `augury.spark.watch.watch` says which options there are: clock, buckets, sinks, trigger, selects.

    With `act` the actions are carried out beside it, in this process, as BIND statements, registered functions and a
    file of settings say; `finish` tries all that can be tried. What became of them is kept in the folder, or in the
    database `deliveries`. Raises `CannotCarryOut` where bindings cannot be used, before anything is made.
    """
    from augury.spark.watch import watch as watch_on_spark

    algebra.require_program(program)
    if not act:
        return watch_on_spark(program, stream, store=store, compile=compile, **options)
    from augury.actions.binding import Surroundings
    from augury.actions.carrying import Carrying, require_bound
    from augury.actions.settings import ActionSettings, read_settings

    found = ActionSettings() if settings is None else read_settings(_text(settings), str(settings))
    around = Surroundings(program, found)
    require_bound(around)
    started = watch_on_spark(program, stream, store=store, compile=compile, **options)
    try:
        started.beside.append(Carrying(str(store), around, deliveries))
    except BaseException:
        started.stop()
        raise
    return started


def _text(path: str | Path) -> str:
    from pathlib import Path

    return Path(path).read_text("utf-8")


def history(path: str | Path, *, commit: int | None = None) -> LakeHistory:
    """What the lake of a `watch` holds, or held after a commit: `history(path).known_at(t).as_of(t).table("Order")`."""
    from augury.lake import history as history_of_lake

    return history_of_lake(path, compile, commit=commit)


def _microseconds(moment: Any) -> int:
    from augury.history.values import as_microseconds

    return as_microseconds(moment)


def _read(text: str, name: str) -> Checked:
    findings = Findings()
    parsed = parse(text, findings)
    unread = findings.has_errors()
    inner = Findings()
    program = analyse(parsed.program, inner)
    # A name that only a statement which could not be read may declare is not unknown.
    findings.extend(d for d in inner.sorted() if not (d.code in _UNKNOWN and _marked(d, text) in parsed.unread_names))
    checked = None if unread or program is None else replace(program, text=text)
    return Checked(Source(name, text), parsed.program, checked, findings.sorted())


_UNKNOWN = frozenset({"E200", "E214", "E217", "E221", "E251", "W392", "W393"})


def _marked(diagnostic: Diagnostic, text: str) -> str:
    return text[diagnostic.mark.span.start : diagnostic.mark.span.end].strip("`").casefold()
