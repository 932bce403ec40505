"""The command line: reads files, calls the library, prints; results on standard output, all else on standard error.

Exit codes: 0 done; 1 the program has findings; 2 wrong usage; 3 the environment lacks something.
"""

from __future__ import annotations

import gc
import io
import json
import logging
import os
import sys
import time
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

import augury
from augury import (
    cli_actions,
    cli_client,
    cli_detectors,
    cli_history,
    cli_server,
    cli_store,
    cli_test,
    cli_triggers,
    cli_trying,
    cli_warm,
)
from augury.actions.settings import ActionSettings, SettingsError, settings_file, settings_in
from augury.api import Checked, check, deep, with_settings
from augury.diagnostics import NOWHERE, Diagnostic, Mark, Severity, Source, render, to_json
from augury.environment import Environment, Machine
from augury.files import UnreadableFile, read_source, write_text
from augury.language.parser import keep_tables_in
from augury.limits import ERRORS_SHOWN_MAX

app = typer.Typer(
    name="augury",
    help="Find composite events in streams and histories.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


class Output(StrEnum):
    """How diagnostics are written."""

    TEXT = "text"
    JSON = "json"


class Lines(StrEnum):
    """How events are written."""

    NDJSON = "ndjson"


class Engine(StrEnum):
    """What runs a program."""

    LOCAL = "local"
    SPARK = "spark"
    SPARK_STREAM = "spark-stream"


class SelectsBy(StrEnum):
    """What runs SELECTs on Spark."""

    DUCKDB = "duckdb"
    SPARK = "spark"


class Stage(StrEnum):
    """What `explain` shows."""

    SYNTAX = "syntax"
    ALGEBRA = "algebra"
    AUTOMATON = "automaton"
    GRAPH = "graph"
    SPARK = "spark"


Files = Annotated[list[str], typer.Argument(metavar="FILE…", help="Programs; - is standard input.")]
SelectsOption = Annotated[
    SelectsBy, typer.Option("--selects", help="What runs SELECTs on Spark: DuckDB in tasks, or Spark SQL.")
]
OutputOption = Annotated[Output, typer.Option("--output", help="Diagnostics as text, or as one JSON array.")]


@app.callback(invoke_without_command=True)
def root(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    """Augury: composite events, and the truth about time."""
    if version:
        typer.echo(f"augury {augury.__version__}")
        raise typer.Exit


@app.command("check")
def check_command(
    files: Files,
    output: OutputOption = Output.TEXT,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 on warnings too.")] = False,
    deeply: Annotated[bool, typer.Option("--deep", help="Compare the MATCH classes with each other.")] = False,
    seconds: Annotated[float, typer.Option("--deep-seconds", min=0, help="How long --deep may take per file.")] = 10,
    settings: Annotated[
        Path | None,
        typer.Option(
            "--settings",
            exists=True,
            dir_okay=False,
            help="Who carries out actions; augury.toml, if it is here or beside the program.",
        ),
    ] = None,
) -> None:
    """Find everything that is wrong with programs, without running them."""
    found: list[tuple[Diagnostic, Source]] = []
    notes: list[tuple[Diagnostic, Source]] = []
    known: dict[Path | None, ActionSettings] = {}
    exit_code = 0
    for path in files:
        try:
            source = read_source(path)
        except UnreadableFile as error:
            found.append((error.diagnostic, error.source))
            exit_code = max(exit_code, error.exit_code)
            continue
        place = settings_file(settings, Path(path).parent)
        if place not in known:
            known[place], wrong = _settings(place)
            found += wrong
            exit_code = max(exit_code, 1 if wrong else 0)
        checked = with_settings(check(source.text, source.name), known[place])
        for diagnostic in checked.diagnostics:
            (notes if diagnostic.severity is Severity.NOTE else found).append((diagnostic, checked.source))
        if checked.errors or (strict and _warnings(checked)):
            exit_code = max(exit_code, 1)
        elif output is Output.TEXT:
            typer.echo(f"{path}: ok, {_summary(checked)}")
        if deeply and checked.program is not None:
            notes += _notes(checked, seconds)
    if output is Output.JSON:
        found += notes
    for note, source in notes if output is Output.TEXT else ():
        typer.echo(f"{source.name}: note[{note.code}]: {note.message}")
    _report(found, output)
    raise typer.Exit(exit_code)


@app.command("fmt")
def fmt_command(
    files: Files,
    write: Annotated[bool, typer.Option("--write", "-w", help="Rewrite the files in place.")] = False,
    check_only: Annotated[
        bool, typer.Option("--check", help="Change nothing; exit with 1 if a file would change.")
    ] = False,
    output: OutputOption = Output.TEXT,
) -> None:
    """Print programs in the canonical form; comments stay."""
    from augury.language.formatter import format_text

    found: list[tuple[Diagnostic, Source]] = []
    exit_code = 0
    for path in files:
        try:
            source = read_source(path)
        except UnreadableFile as error:
            found.append((error.diagnostic, error.source))
            exit_code = max(exit_code, error.exit_code)
            continue
        formatted = format_text(source.text)
        if not isinstance(formatted, str):
            found += [(diagnostic, source) for diagnostic in formatted]
            exit_code = max(exit_code, 1)
        elif check_only:
            if formatted != source.text:
                typer.echo(f"{path}: not in canonical form", err=True)
                exit_code = max(exit_code, 1)
        elif write and path != "-":
            if formatted != source.text:
                try:
                    write_text(path, formatted)
                except UnreadableFile as error:
                    found.append((error.diagnostic, error.source))
                    exit_code = max(exit_code, error.exit_code)
                    continue
                typer.echo(f"{path}: rewritten", err=True)
        else:
            typer.echo(formatted, nl=False)
    _report(found, output)
    raise typer.Exit(exit_code)


@app.command("explain")
def explain_command(
    subject: Annotated[str, typer.Argument(metavar="FILE|CODE", help="A program, or an error code such as E203.")],
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="A class, rule, trigger or definition.")] = None,
    stage: Annotated[Stage, typer.Option("--stage", help="Which form of the program to show.")] = Stage.ALGEBRA,
    dot: Annotated[bool, typer.Option("--dot", help="An automaton or event graph for Graphviz.")] = False,
    svg: Annotated[bool, typer.Option("--svg", help="An automaton as a picture: SVG, of one class.")] = False,
    selects: SelectsOption = SelectsBy.DUCKDB,
    output: OutputOption = Output.TEXT,
) -> None:
    """Show a program at a stage of its compilation, or the long help of an error code."""
    from augury.explain import ExplainError, explain_code, explain_program

    if dot and svg:
        raise typer.BadParameter("--dot and --svg exclude each other")
    if svg and (name is None or stage is not Stage.AUTOMATON):
        raise typer.BadParameter("--svg draws one automaton: write FILE NAME --stage automaton --svg")
    if selects is SelectsBy.SPARK and stage is not Stage.SPARK:
        raise typer.BadParameter("it is about Spark: write --stage spark --selects spark", param_hint="--selects")
    try:
        if not Path(subject).exists() and (text := explain_code(subject)) is not None:
            typer.echo(text)
            return
    except ExplainError as error:
        _report([(error.diagnostic, Source(subject, ""))], output)
        raise typer.Exit(2) from None
    checked = _checked_or_exit(subject, output)
    if stage is Stage.SPARK:
        typer.echo(_on_spark(checked, selects, output))
        return
    try:
        typer.echo(explain_program(checked, name, stage.value, form="dot" if dot else "svg" if svg else "text"))
    except ExplainError as error:
        _report([(error.diagnostic, checked.source)], output)
        raise typer.Exit(1) from None


def _on_spark(checked: Checked, selects: SelectsBy, output: Output) -> str:
    """How a program would run on Spark; no JVM is started."""
    assert checked.program is not None, "a program without errors"
    try:
        from augury.spark.explained import explain_spark

        return explain_spark(checked.program, selects.value)
    except ImportError:
        typer.echo("error: pyspark is not installed, and --stage spark needs it: pip install pyspark", err=True)
        raise typer.Exit(3) from None
    except ValueError as error:
        if (found := getattr(error, "diagnostics", None)) is None:
            raise
        _report([(diagnostic, checked.source) for diagnostic in found], output)
        raise typer.Exit(1) from None


@app.command("infer")
def infer_command(
    data: Annotated[
        Path, typer.Argument(metavar="DATA", help="A JSON Lines, CSV or Parquet file, or a folder of them.")
    ],
    output: OutputOption = Output.TEXT,
) -> None:
    """Draft class declarations from data."""
    from augury.infer import infer

    draft = infer(data)
    if draft.program:
        typer.echo(draft.program, nl=not draft.program.endswith("\n"))
    if draft.problems or not draft.program:
        _report([(diagnostic, Source(str(data), "")) for diagnostic in draft.problems], output)
    raise typer.Exit(0 if draft.program else 2)


@app.command("run")
def run_command(
    context: typer.Context,
    program_file: Annotated[str, typer.Argument(metavar="PROGRAM", help="A program; - is standard input.")],
    events: Annotated[
        str, typer.Option("--events", help="A JSON Lines, CSV or Parquet file, a folder of them, or - for JSON Lines.")
    ],
    engine: Annotated[Engine, typer.Option("--engine", help="What runs the program.")] = Engine.LOCAL,
    output: Annotated[Lines, typer.Option("--output", help="One JSON object a line.")] = Lines.NDJSON,
    until: Annotated[str | None, typer.Option("--until", help="Stop after the last tick that is not later.")] = None,
    rejected: Annotated[
        Path | None, typer.Option("--rejected", help="Write the rejected events to a file, as JSON Lines.")
    ] = None,
    store: Annotated[
        str | None,
        typer.Option(
            "--store",
            help="Keep every tick: a file of SQLite or postgresql://HOST/DATABASE; of spark-stream, a folder.",
        ),
    ] = None,
    selects: SelectsOption = SelectsBy.DUCKDB,
    master: Annotated[
        str | None, typer.Option("--master", help="Of Spark: local[2], spark://HOST:7077, yarn …; else this machine.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="No bar and no closing, on a terminal either.")] = False,
    closing: Annotated[bool, typer.Option("--closing", help="Say how long it took, also in a pipe.")] = False,
) -> None:
    """Replay events: print what a program detects in them, and the actions that it takes."""
    if store is not None and engine is Engine.SPARK:
        raise typer.BadParameter("a batch keeps no ticks: take --engine local or spark-stream", param_hint="--store")
    if selects is SelectsBy.SPARK and engine is Engine.LOCAL:
        message = "in process SELECTs run on DuckDB: take --engine spark or spark-stream"
        raise typer.BadParameter(message, param_hint="--selects")
    if master is not None and engine is Engine.LOCAL:
        raise typer.BadParameter("it is about Spark: take --engine spark or spark-stream", param_hint="--master")
    if program_file == events == "-":
        raise typer.BadParameter("the program and the events cannot both be standard input", param_hint="--events")
    if quiet and closing:
        raise typer.BadParameter("--quiet leaves the closing out", param_hint="--closing")
    began = time.perf_counter()
    world: Environment = context.obj or Machine()
    cli_trying.require_unread(rejected, (program_file, events), world, "--rejected")
    checked = _checked_or_exit(program_file, Output.TEXT, world)
    program, source = checked.program, checked.source
    assert program is not None, "a program without errors"
    from augury.clock import NoSuchTime
    from augury.local.bar import bar_on, write_beside
    from augury.local.replay import Failed, OnSpark, replay
    from augury.local.summary import closing_of

    rejected_to, on_spark = None if rejected is None else str(rejected), OnSpark(master, selects.value)
    warned = [(diagnostic, source) for diagnostic in checked.diagnostics]
    is_typed = events == "-" and world.stdin is not None and world.stdin.isatty()  # a bar would be drawn over it
    try:
        with bar_on(sys.stderr, quiet=quiet or is_typed) as bar:
            replayed = replay(program, events, engine.value, until, rejected_to, store, bar.tell, on_spark, world)
            with bar.aside():
                _report(warned, Output.TEXT)
            warned = []
            try:
                write_beside(bar, sys.stdout, replayed.texts())
            except BrokenPipeError:  # the reader has seen enough, as `| head` does
                bar.close()
                typer.echo(replayed.summary, err=True)
                _drop_output()
    except NoSuchTime as error:
        raise typer.BadParameter(str(error), param_hint="--until") from None
    except Failed as failed:
        sys.stdout.flush()
        _report(warned, Output.TEXT)
        _report_failed(failed, source)
    typer.echo(replayed.summary, err=True)
    if closing or bar.is_drawn:
        seconds = time.perf_counter() - began
        typer.echo(closing_of(program, replayed.given, seconds, store, rejected_to), err=True)


def _report_failed(failed: Any, source: Source) -> NoReturn:
    """A run that could not be done, or not to its end."""
    places = source if failed.in_program else Source(failed.name, "")
    _report([(diagnostic, places) for diagnostic in failed.diagnostics], Output.TEXT)
    raise typer.Exit(failed.exit_code)


def main() -> NoReturn:
    """The entry point of the `augury` command."""
    gc.set_threshold(100_000)  # syntax trees are many objects and no garbage
    for stream in (sys.stdout, sys.stderr):  # programs and JSON are UTF-8 wherever they go; names of files are bytes
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="surrogateescape")
    _keep_parse_tables()
    logging.getLogger("sqlglot").setLevel(logging.CRITICAL)  # what matters of SQL becomes a diagnostic
    if set(sys.argv[1:2]) & cli_trying.IN_PROCESS and not any("spark" in word for word in sys.argv):
        cli_trying.load_arrow_alone()
    try:
        app()
    except OSError as error:  # our output cannot be written: the disk is full, or its reader has gone, as `| head` does
        if isinstance(error, BrokenPipeError):
            _drop_output()
            raise SystemExit(0) from None
        with suppress(OSError):
            typer.echo(f"augury: the output cannot be written: {error.strerror}", err=True)
        _drop_output()
        raise SystemExit(3) from None
    finally:
        if "_duckdb" not in sys.modules:  # DuckDB reports what is not collected as leaked
            gc.freeze()  # Python is about to look through all there is for garbage: a sixth of a second
    raise SystemExit(0)


def _drop_output() -> None:
    """Let what is still to be written go nowhere, or Python would complain on its way out."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for number in (1, 2):
        with suppress(OSError):
            os.dup2(nowhere, number)


def _keep_parse_tables() -> None:
    """Keep the parse tables in the user's cache folder, where there is one that can be written."""
    try:
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()) / "augury"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # no home, or none that can be written
        return
    keep_tables_in(str(folder / "tables.pickle"))


def _checked_or_exit(path: str, output: Output, world: Environment | None = None) -> Checked:
    try:
        source = read_source(path, environment=world)
    except UnreadableFile as error:
        _report([(error.diagnostic, error.source)], output)
        raise typer.Exit(error.exit_code) from None
    checked = check(source.text, source.name)
    if checked.errors:
        _report([(diagnostic, checked.source) for diagnostic in checked.errors], output)
        raise typer.Exit(1)
    return checked


def _notes(checked: Checked, seconds: float) -> list[tuple[Diagnostic, Source]]:
    """What comparing the classes of a program for so long says."""
    over_at = time.monotonic() + seconds
    return [(note, checked.source) for note in deep(checked, lambda: time.monotonic() >= over_at).notes()]


def _summary(checked: Checked) -> str:
    program = checked.program
    assert program is not None, "a program without errors"
    parts = [_count(len(program.classes), "class", "classes")]
    parts += [_count(len(program.rules), "rule", "rules")] if program.rules else []
    parts += [_count(len(program.triggers), "trigger", "triggers")] if program.triggers else []
    parts += [_count(found, "warning", "warnings")] if (found := _warnings(checked)) else []
    return ", ".join(parts)


def _settings(place: Path | None) -> tuple[ActionSettings, list[tuple[Diagnostic, Source]]]:
    """What a file says of actions, and what is wrong with it."""
    try:
        return settings_in(place), []
    except SettingsError as error:
        name = str(place)
        sentences = [sentence.removeprefix(f"{name}: ") for sentence in error.sentences]
        return ActionSettings(), [(Diagnostic("E506", one, Mark(NOWHERE)), Source(name, "")) for one in sentences]


def _warnings(checked: Checked) -> int:
    return sum(diagnostic.severity is Severity.WARNING for diagnostic in checked.diagnostics)


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"


def _report(found: list[tuple[Diagnostic, Source]], output: Output) -> None:
    """Diagnostics as text go to standard error; as JSON they are the result, and go to standard output."""
    if output is Output.JSON:
        text = json.dumps([to_json(diagnostic, source) for diagnostic, source in found], ensure_ascii=False, indent=2)
        # The bytes of a file's name that are no UTF-8 are written as JSON writes such things: \udcff.
        typer.echo(text.encode("utf-8", "backslashreplace").decode())
        return
    colour = sys.stderr is not None and sys.stderr.isatty()
    for diagnostic, source in found[:ERRORS_SHOWN_MAX]:
        typer.echo(render(diagnostic, source, colour=colour) + "\n", err=True)
    if len(found) > ERRORS_SHOWN_MAX:
        typer.echo(f"… and {len(found) - ERRORS_SHOWN_MAX:,} more; --output json has them all", err=True)
    errors = sum(diagnostic.severity is Severity.ERROR for diagnostic, _ in found)
    if errors:
        typer.echo(_count(errors, "error", "errors"), err=True)


_VERBS = (
    *(cli_actions, cli_client, cli_detectors, cli_history, cli_server),
    *(cli_store, cli_triggers, cli_trying, cli_test, cli_warm),
)
for verbs in _VERBS:
    verbs.register(app)

if __name__ == "__main__":
    main()
