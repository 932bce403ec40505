"""The verbs that try a program out: simulate, why, why-not. They print; `augury.trying` does the work.

Files and standard input are those of an `Environment`: of the machine, unless the context of the command has another.
What they need is loaded when they are called: `augury check` takes no longer for their being there.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from importlib.abc import MetaPathFinder
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from augury.api import Checked, check
from augury.diagnostics import Diagnostic, Severity, Source, render
from augury.environment import Environment, Machine
from augury.files import UnreadableFile, read_source, write_text

if TYPE_CHECKING:
    from augury.trying.shown import Shown
    from augury.trying.simulate import Simulation
    from augury.trying.why_asked import Unanswerable


class Form(StrEnum):
    """How a simulation is shown."""

    TABLE = "table"
    NDJSON = "ndjson"
    HTML = "html"


class Output(StrEnum):
    """How an answer is written."""

    TEXT = "text"
    JSON = "json"


IN_PROCESS = {"act", "actions", "history", "run", "sense", "serve", "simulate", "test", "why", "why-not"}
"""The verbs that do their work in this very process, unless it is on Spark, and hand pyarrow no frames."""

ProgramFile = Annotated[str, typer.Argument(metavar="PROGRAM", help="A program; - is standard input.")]
Events = Annotated[
    str, typer.Option("--events", help="A JSON Lines, CSV or Parquet file, a folder of them, or - for JSON Lines.")
]
EventName = Annotated[str, typer.Option("--event", metavar="NAME", help="The class of the event asked about.")]
Keys = Annotated[
    list[str] | None, typer.Option("--key", help="NAME=VALUE of an attribute, or a value of the key; may be repeated.")
]
Seq = Annotated[int | None, typer.Option("--seq", min=1, help="The version at which it was, or was not, detected.")]
ActionName = Annotated[str | None, typer.Option("--action", metavar="NAME", help="Ask about an action, not the event.")]
OutputOption = Annotated[Output, typer.Option("--output", help="Text, or one JSON object.")]


def register(app: typer.Typer) -> None:
    """Add the verbs to the command line."""
    app.command("simulate")(simulate_command)
    app.command("why")(why_command)
    app.command("why-not")(why_not_command)


class _NoPandas(MetaPathFinder):
    """Whoever imports pandas is told that there is none."""

    def find_spec(self, name: str, path: object, target: object = None) -> None:
        """Refuse it, and say nothing of others."""
        if name == "pandas":
            raise ModuleNotFoundError("not needed here", name=name)


def load_arrow_alone() -> None:
    """Load pyarrow without pandas, which it looks for once, when it first converts anything: a third of a second.

    For a process of our own only: pyarrow does not know a frame by itself then. Where it is asked to make a table of
    one, as for a detector in Python that gives one, it looks again.
    """
    import pyarrow as pa

    refusing = _NoPandas()
    sys.meta_path.insert(0, refusing)
    try:
        pa.array([])
    finally:
        sys.meta_path.remove(refusing)


def simulate_command(
    context: typer.Context,
    program_file: ProgramFile,
    events: Events,
    step: Annotated[bool, typer.Option("--step", help="Wait for Enter after each tick; q and Enter ends.")] = False,
    until: Annotated[str | None, typer.Option("--until", help="Stop after the last tick that is not later.")] = None,
    speed: Annotated[
        float | None, typer.Option("--speed", min=0.000001, help="Play: so many seconds of the data in one second.")
    ] = None,
    output: Annotated[Form, typer.Option("--output", help="How to show it.")] = Form.TABLE,
    to: Annotated[Path | None, typer.Option("--to", help="Write to a file.")] = None,
) -> None:
    """Run a program on a virtual clock, and show at each tick what arrived, was derived, fired, and is pending."""
    world = _world(context)
    if program_file == events == "-":
        raise typer.BadParameter("the program and the events cannot both be standard input", param_hint="--events")
    is_typed = world.stdin is not None and world.stdin.isatty()
    if step and (output is Form.HTML or to is not None or not is_typed or "-" in (program_file, events)):
        raise typer.BadParameter("waiting for Enter needs a terminal, and shows ticks on it", param_hint="--step")
    if speed is not None and output is Form.HTML:
        raise typer.BadParameter("a page is written at once; it plays by itself", param_hint="--speed")
    if output is Form.HTML and to is None and sys.stdout.isatty():
        raise typer.BadParameter("a page is nothing for a terminal: add --to FILE", param_hint="--output")
    require_unread(to, (program_file, events), world, "--to")
    checked = _checked_or_exit(program_file, world)
    from augury.trying.simulate_pace import paced

    with _failing(checked, events):
        simulation = _simulation(world, checked, events, until, tells_why=True)
        _warn(checked, simulation)
        shown = paced(simulation.ticks(), world, step=step, speed=speed, ask=lambda: _wait_for_enter(world))
        _write(_texts(checked, simulation, shown, output, to), to, world)
        for place, reason in zip(simulation.rejected.place, simulation.rejected.reason, strict=True):
            typer.echo(f"rejected {place}: {reason}", err=True)
        if simulation.state.tick is None:
            typer.echo("no event came" + ("" if until is None else f" by {until}") + ": there is no tick", err=True)


def require_unread(to: Path | None, sources: Sequence[str], world: Environment, option: str) -> None:
    """Refuse to write over what is read: the program, or the events."""
    from augury.datafiles import is_read

    if to is not None and any(is_read(str(to), source, world.files) for source in sources if source != "-"):
        raise typer.BadParameter(f"`{to}` is what is read: name another file", param_hint=option)


def _wait_for_enter(world: Environment) -> bool:
    """Whether to go on."""
    assert world.stdin is not None, "it is a terminal"
    sys.stdout.flush()
    typer.echo("… Enter for the next tick, q to end ", err=True, nl=False)
    word = world.stdin.readline()
    return bool(word) and word.strip().lower() != b"q"


def _texts(
    checked: Checked, simulation: Simulation, shown: Iterator[Shown], output: Form, to: Path | None
) -> Iterator[str]:
    from augury.trying.shown import line

    match output:
        case Form.NDJSON:
            yield from (line(one) + "\n" for one in shown)
        case Form.TABLE:
            from augury.trying.shown_table import tables

            is_terminal = to is None and sys.stdout.isatty()
            yield from tables(shown, is_terminal=is_terminal)
        case Form.HTML:
            from augury.trying.page import page

            yield page(Path(checked.source.name).name, simulation.program, list(shown))


def _write(texts: Iterator[str], to: Path | None, world: Environment) -> None:
    if to is None:
        for text in texts:
            sys.stdout.write(text)
            sys.stdout.flush()
        return
    whole = "".join(texts)  # before the file is touched: what fails leaves the old one as it was
    try:
        write_text(str(to), whole, world)
    except UnreadableFile as error:
        _report([(error.diagnostic, error.source)])
        raise typer.Exit(error.exit_code) from None


def why_command(
    context: typer.Context,
    program_file: ProgramFile,
    events: Events,
    event: EventName,
    key: Keys = None,
    at: Annotated[str | None, typer.Option("--at", help="As it was known then; left out, at the end.")] = None,
    seq: Seq = None,
    action: ActionName = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Say why an event is there: what it is made of, the part that each satisfies, the versions known then."""
    from augury.trying.why import why, why_acted
    from augury.trying.why_asked import asked_about
    from augury.trying.why_told import answer_json, answer_text

    world = _world(context)
    checked = _checked_or_exit(program_file, world)
    with _failing(checked, events), _answering(output):
        assert checked.program is not None, "a program without errors"
        asked = asked_about(checked.program, event, key or [])
        simulation = _simulation(world, checked, events, at, "--at")
        found = why(simulation, asked, seq) if action is None else why_acted(simulation, asked, action, seq)
        _print(answer_text(found), answer_json(found), output)


def why_not_command(
    context: typer.Context,
    program_file: ProgramFile,
    events: Events,
    event: EventName,
    key: Keys = None,
    at: Annotated[str | None, typer.Option("--at", help="At which time; left out, at the end.")] = None,
    seq: Seq = None,
    action: ActionName = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Say why an event is not there, or an action did not fire: the first thing that was missing."""
    from augury.history.values import moment_us
    from augury.trying.why_asked import asked_about
    from augury.trying.why_not import why_not, why_not_acted
    from augury.trying.why_told import not_there_json, not_there_text

    world = _world(context)
    checked = _checked_or_exit(program_file, world)
    with _failing(checked, events), _answering(output):
        assert checked.program is not None, "a program without errors"
        asked = asked_about(checked.program, event, key or [])
        simulation = _simulation(world, checked, events, at, "--at")
        if action is None:
            found = why_not(simulation, asked, seq)
        else:
            found = why_not_acted(simulation, asked, action, None if at is None else moment_us(at), seq)
        _print(not_there_text(found), not_there_json(found), output)


# ---- what they share ---------------------------------------------------------------------------------------------


def _world(context: typer.Context) -> Environment:
    return context.obj or Machine()


def _simulation(
    world: Environment,
    checked: Checked,
    events: str,
    until: str | None,
    name: str = "--until",
    *,
    tells_why: bool = False,
) -> Simulation:
    from augury.clock import NoSuchTime
    from augury.engine.tick import tick_at_most
    from augury.history.values import moment_us
    from augury.trying.simulate import simulation

    program = checked.program
    assert program is not None, "a program without errors"
    try:
        until_us = None if until is None else tick_at_most(moment_us(until), program.settings.chronon_us)
    except NoSuchTime as error:
        raise typer.BadParameter(str(error), param_hint=name) from None
    return simulation(program, events, until_us, tells_why=tells_why, environment=world)


def _checked_or_exit(path: str, world: Environment) -> Checked:
    try:
        source = read_source(path, environment=world)
    except UnreadableFile as error:
        _report([(error.diagnostic, error.source)])
        raise typer.Exit(error.exit_code) from None
    checked = check(source.text, source.name)
    if checked.errors:
        _report([(diagnostic, checked.source) for diagnostic in checked.errors])
        raise typer.Exit(1)
    return checked


def _warn(checked: Checked, simulation: Simulation) -> None:
    _report([(diagnostic, checked.source) for diagnostic in checked.diagnostics])


@contextmanager
def _failing(checked: Checked, events: str) -> Iterator[None]:
    """What cannot be run or read is reported, and ends it."""
    from augury.datafiles import Unreadable
    from augury.engine.plan import CannotRun

    try:
        yield
    except CannotRun as error:
        _report([(diagnostic, checked.source) for diagnostic in error.diagnostics])
        raise typer.Exit(1) from None
    except Unreadable as error:
        _report([(error.diagnostic, Source(events, ""))])
        raise typer.Exit(2) from None


@contextmanager
def _answering(output: Output) -> Iterator[None]:
    """A question without an answer is reported, and ends it."""
    from augury.trying.why_asked import Unanswerable

    try:
        yield
    except Unanswerable as error:
        _refuse(error, output)


def _refuse(error: Unanswerable, output: Output) -> NoReturn:
    if output is Output.JSON:
        typer.echo(json.dumps({"error": str(error), "helps": list(error.helps)}, ensure_ascii=False))
    else:
        typer.echo("\n".join([f"error: {error}", *(f"  = help: {text}" for text in error.helps)]), err=True)
    raise typer.Exit(error.exit_code)


def _print(text: str, value: dict[str, Any], output: Output) -> None:
    from augury.history.raw import whole_json
    from augury.local.shown import printable

    if output is Output.JSON:
        typer.echo(whole_json(value))
    else:
        typer.echo("\n".join(map(printable, text.split("\n"))))


def _report(found: list[tuple[Diagnostic, Source]]) -> None:
    """Diagnostics, on standard error."""
    colour = sys.stderr is not None and sys.stderr.isatty()
    for diagnostic, source in found:
        typer.echo(render(diagnostic, source, colour=colour) + "\n", err=True)
    errors = sum(diagnostic.severity is Severity.ERROR for diagnostic, _ in found)
    if errors:
        typer.echo(f"{errors} error{'' if errors == 1 else 's'}", err=True)
