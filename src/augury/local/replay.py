"""One run of a program over a file of events, for the command line: what to print where, or why it failed.

In: a program, a path, an engine's name. Out: texts for standard output piece by piece, and a summary for standard
error; the rejected events go to a file where one is named. It prints nothing itself.
"""

from __future__ import annotations

import importlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from augury.algebra.program import Program
from augury.datafiles import Unreadable, why
from augury.diagnostics import NOWHERE, Diagnostic, Mark
from augury.duck.selects import runnable
from augury.engine.ledger import Ledger, counted, failures
from augury.engine.ledger import lines as ledger_lines
from augury.engine.lines import lines
from augury.engine.once import goes_in_one_step
from augury.engine.ports import SelectsBy, Store
from augury.engine.progress import Far, Tell, counting
from augury.engine.tick import tick_at_most
from augury.environment import Environment, Machine
from augury.history.arrivals import arrived
from augury.history.coming import came, received
from augury.history.raw import Rejected
from augury.history.values import moment_us
from augury.lake.errors import LakeError
from augury.local.engine import Detected, cannot_run, detect_in
from augury.local.kernel import CannotRun, match_kernel
from augury.local.portions import can_be_read_again, portions_of
from augury.local.sources import read_events
from augury.local.summary import counted as how_many
from augury.local.summary import errors_of, rejections, summary_of
from augury.local.ticking import FAILURES_SHOWN_MAX, TickReplay

_LINES_AT_ONCE: Final = 1000


@dataclass(frozen=True, slots=True)
class Replayed:
    """What a run has to say."""

    program: Program
    detected: Detected

    @property
    def given(self) -> dict[str, int]:
        """How many lines there are of each complex class."""
        return {found.event_class.name: len(found) for found in self.detected.occurrences}

    @property
    def summary(self) -> str:
        """How many versions were read and events refused, and why the first of them."""
        rejected = self.detected.rejected
        counts = [
            how_many(len(self.detected.versions), "version"),
            f"{how_many(self.detected.absorbed, 'duplicate')} absorbed",
            f"{how_many(len(rejected), 'event')} rejected",
        ]
        failed = [
            errors_of(found.event_class.name, found.errors) for found in self.detected.occurrences if found.errors
        ]
        failed += [
            f"`{found.event_class.name}`: {how_many(found.dropped, 'event')} let go, too many waited for others"
            for found in self.detected.occurrences
            if found.dropped
        ]
        return "\n".join([", ".join(counts), *rejections(rejected), *failed])

    def texts(self) -> Iterator[str]:
        """What goes to standard output, some lines at a time."""
        found = self.detected
        every_line = lines(found.versions, found.occurrences, self.program.settings.chronon_us)
        while some := list(islice(every_line, _LINES_AT_ONCE)):
            yield "\n".join([*some, ""])


class Failed(Exception):
    """A run that gave nothing; `in_program` says that the diagnostics point into the program, else `name` is meant."""

    def __init__(self, diagnostics: tuple[Diagnostic, ...], exit_code: int, name: str = "") -> None:
        """Keep what to report."""
        super().__init__("; ".join(diagnostic.message for diagnostic in diagnostics))
        self.diagnostics = diagnostics
        self.exit_code = exit_code
        self.name = name
        self.in_program = not name


@dataclass(frozen=True, slots=True)
class OnSpark:
    """How Spark is to run a program: on which master (its own choice: this machine), and who runs SELECTs."""

    master: str | None = None
    selects: SelectsBy = "duckdb"


HERE: Final = OnSpark()


def replay(
    program: Program,
    events: str,
    engine: str,
    until: str | None,
    rejected_to: str | None,
    store: str | None = None,
    tell: Tell | None = None,
    on_spark: OnSpark = HERE,
    environment: Environment | None = None,
) -> Replayed | ReplayedByTicks | ReplayedElsewhere:
    """Run a program over the events of a file; raises Failed and NoSuchTime.

    Tick by tick, and then it runs while its texts are taken, where something waits for ticks or a store keeps them;
    else the whole history at once, which is the same and faster. `tell` hears how far it is. Spark reads some files
    by itself; all others are those of the environment.
    """
    world = environment or Machine()
    until_us = None if until is None else tick_at_most(moment_us(until), program.settings.chronon_us)
    with _failing(events):
        if engine == "local":
            on_duck = runnable(program)
            rows = came(program, counting(read_events(events, world), tell), until_us=until_us)
            names = [received(program)[code].name for code in rows.withdrawn()]
            if store is not None or not goes_in_one_step(program, names):
                every = arrived(program, rows)
                ticking = TickReplay(program, on_duck, every, until_us, _store(program, store), tell=tell)
                return ReplayedByTicks(ticking, events, rejected_to, world)
            if tell is not None:
                tell(Far("detecting", rows.count))
            detected = detect_in(program, rows, match_kernel, until_us=until_us)
        elif engine == "spark" and goes_in_one_step(program, [one.name for one in received(program)]):
            detected = _elsewhere(engine, program, events, until_us, tell, on_spark.master, world)
        else:
            ledger = _by_ticks_elsewhere(engine, program, events, until_us, store, tell, on_spark, world)
            if rejected_to is not None:
                _write_rejected(_rejected_in(ledger), rejected_to, world)
            return ReplayedElsewhere(program, ledger)
    if rejected_to is not None:
        _write_rejected(detected.rejected, rejected_to, world)
    return Replayed(program, detected)


def _store(program: Program, url: str | None) -> Store | None:
    if url is None:
        return None
    from augury.local.store.errors import NoStore, StoreError
    from augury.local.store.sql import open_store

    try:
        with suppress(NoStore), open_store(url, read_only=True) as found:
            if found.last_tick() is not None:
                raise StoreError(f"{url} has ticks already: a replay begins with an empty store")
        store = open_store(url, program)
    except StoreError as error:
        raise Failed((Diagnostic("E530", str(error), Mark(NOWHERE)),), 2, "--store") from None
    return store


@contextmanager
def _failing(events: str) -> Iterator[None]:
    try:
        yield
    except CannotRun as error:
        raise Failed(error.diagnostics, 1) from None
    except Unreadable as error:
        raise Failed((error.diagnostic,), 2, events) from None


@dataclass(frozen=True, slots=True)
class ReplayedByTicks:
    """What a run has to say that goes tick by tick; it runs while `texts` are taken."""

    ticking: TickReplay
    events: str
    rejected_to: str | None
    world: Environment

    def texts(self) -> Iterator[str]:
        """What goes to standard output, some lines at a time; raises Failed."""
        from augury.local.store.errors import StoreError

        with _failing(self.events):
            try:
                yield from self.ticking.texts()
            except StoreError as error:
                raise Failed((Diagnostic("E530", str(error), Mark(NOWHERE)),), 3, "--store") from None
            finally:
                if self.ticking.store is not None:
                    self.ticking.store.close()
        if self.rejected_to is not None:
            _write_rejected(self.ticking.rejected, self.rejected_to, self.world)

    @property
    def program(self) -> Program:
        """What is run."""
        return self.ticking.program

    @property
    def given(self) -> Mapping[str, int]:
        """How many lines there are of each complex class, so far."""
        return self.ticking.given

    @property
    def summary(self) -> str:
        """How many versions were read, events refused, actions fired, and what went wrong."""
        found = self.ticking
        failed = (found.failures, found.failed)
        return summary_of(found.program, found.counts, found.rejected, found.warnings, found.errors, *failed)


@dataclass(frozen=True, slots=True)
class ReplayedElsewhere:
    """What a run has to say that went tick by tick on another engine, and is over."""

    program: Program
    ledger: Ledger

    def texts(self) -> Iterator[str]:
        """What goes to standard output, some lines at a time."""
        every_line = ledger_lines(self.program, self.ledger)
        while some := list(islice(every_line, _LINES_AT_ONCE)):
            yield "\n".join([*some, ""])

    @property
    def given(self) -> dict[str, int]:
        """How many lines there are of each complex class."""
        return {name: table.num_rows for name, table in self.ledger.versions.items()}

    @property
    def summary(self) -> str:
        """How many versions were read, events refused, actions fired, and what went wrong."""
        counts, rejected = counted(self.ledger), _rejected_in(self.ledger)
        told = {name: Counter[str]() for name in ("warnings", "errors")}
        for name, counter in told.items():
            for text in self.ledger.ticks[name].to_pylist():
                counter.update(json.loads(text))
        failed = [(name, reason) for _, name, reason in failures(self.ledger)]
        shown = failed[:FAILURES_SHOWN_MAX]
        return summary_of(self.program, counts, rejected, told["warnings"], told["errors"], shown, len(failed))


def _rejected_in(ledger: Ledger) -> Rejected:
    return Rejected(*(tuple(ledger.rejected[name].to_pylist()) for name in ("place", "event", "reason", "raw")))


def _by_ticks_elsewhere(
    engine: str,
    program: Program,
    path: str,
    until_us: int | None,
    store: str | None,
    tell: Tell | None,
    on_spark: OnSpark,
    world: Environment,
) -> Ledger:
    try:
        # Loaded by name: it brings Spark with it, and is not there where Spark or its Java is not.
        module: Any = importlib.import_module("augury.spark.running")
        is_stream = engine == "spark-stream"
        ledger: Ledger = module.run_by_ticks(
            program,
            **_events_of(path, world, is_here=is_stream),
            until_us=until_us,
            is_stream=is_stream,
            store=store,
            tell=tell,
            master=on_spark.master,
            selects=on_spark.selects,
        )
    except ImportError as error:
        raise _no_engine(engine, error) from None
    except LakeError as error:
        raise Failed((Diagnostic("E530", str(error), Mark(NOWHERE)),), 2, "--store") from None
    return ledger


def _events_of(path: str, world: Environment, *, is_here: bool = False, is_whole: bool = False) -> dict[str, Any]:
    """Files for tasks to read, whole or in portions; else, and where there is no file to be read twice, the events."""
    if is_here or path == "-" or not can_be_read_again(path):
        return {"events": read_events(path, world)}
    return {"portions": portions_of(path, None) if is_whole else portions_of(path)}


def _no_engine(name: str, error: ImportError) -> Failed:
    helps = (getattr(error, "help", "install pyspark"), "run with --engine local, which needs nothing else")
    message = f"the engine `{name}` cannot be loaded: {why(error)}"
    return Failed((Diagnostic("E520", message, Mark(NOWHERE), helps=helps),), 3, f"--engine {name}")


def _elsewhere(
    name: str,
    program: Program,
    path: str,
    until_us: int | None,
    tell: Tell | None,
    master: str | None,
    world: Environment,
) -> Detected:
    if refused := cannot_run(program):
        raise CannotRun(refused)
    try:
        # Loaded by name: it brings Spark with it, and is not there where Spark or its Java is not.
        module: Any = importlib.import_module(f"augury.{name}.run")
        read = _events_of(path, world, is_whole=True)
        detected: Detected = module.run(program, **read, until_us=until_us, master=master, tell=tell)
    except ImportError as error:
        raise _no_engine(name, error) from None
    except ValueError as error:
        diagnostics = getattr(error, "diagnostics", None)
        if diagnostics is None:
            raise
        raise Failed(diagnostics, 1) from None
    return detected


def _write_rejected(rejected: Rejected, path: str, world: Environment) -> None:
    columns = zip(rejected.place, rejected.event, rejected.reason, rejected.raw, strict=True)
    rows = ({"place": place, "event": event, "reason": reason, "raw": raw} for place, event, reason, raw in columns)
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    try:
        world.files.write(path, text.encode("utf-8", "backslashreplace"))
    except (OSError, ValueError) as error:
        message = f"`{path}` cannot be written: {why(error)}"
        helps = ("check its permissions, and the space on the disk",)
        raise Failed((Diagnostic("E503", message, Mark(NOWHERE), helps=helps),), 2, path) from None
