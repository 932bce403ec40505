"""`augury history`: what a store keeps, as tables.

Results on standard output, all else on standard error. What it needs is loaded when it is called: `augury check` takes
no longer for its being there.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer


class Form(StrEnum):
    """How tables are written."""

    TABLE = "table"
    NDJSON = "ndjson"
    CSV = "csv"
    PARQUET = "parquet"


def register(app: typer.Typer) -> None:
    """Add the verb to the command line."""
    app.command("history")(history_command)


def history_command(
    event_class: Annotated[str | None, typer.Argument(metavar="[CLASS]", help="Whose versions to show.")] = None,
    store: Annotated[
        str, typer.Option("--store", help="A file of SQLite, postgresql://HOST/DATABASE, or the folder of a lake.")
    ] = "",
    as_of: Annotated[str | None, typer.Option("--as-of", help="Only what had happened by then.")] = None,
    known_at: Annotated[str | None, typer.Option("--known-at", help="As it was known then.")] = None,
    between: Annotated[
        tuple[str, str] | None, typer.Option("--diff", metavar="T1 T2", help="What was learned between two times.")
    ] = None,
    ticks: Annotated[bool, typer.Option("--ticks", help="The log of ticks, instead of a class.")] = False,
    rejected: Annotated[bool, typer.Option("--rejected", help="The rejected events.")] = False,
    actions: Annotated[bool, typer.Option("--actions", help="The actions to be carried out.")] = False,
    catalogue: Annotated[bool, typer.Option("--catalogue", help="What the program has, and in which columns.")] = False,
    output: Annotated[Form, typer.Option("--output", help="How to write it.")] = Form.TABLE,
    to: Annotated[Path | None, typer.Option("--to", help="Write to a file.")] = None,
) -> None:
    """Show what a store keeps: every version of a class, or what was known at a time."""
    flags = {"ticks": ticks, "rejected": rejected, "actions": actions, "catalogue": catalogue}
    chosen = [name for name, asked in flags.items() if asked]
    if not store:
        raise typer.BadParameter("name the store", param_hint="--store")
    if len(chosen) + (event_class is not None) != 1:
        raise typer.BadParameter("name one class, or one of --ticks, --rejected, --actions, --catalogue")
    if between is not None and (as_of or known_at):
        raise typer.BadParameter("--diff has its own two times", param_hint="--diff")
    if chosen and (as_of or known_at or between):
        raise typer.BadParameter("times are asked of a class")
    if output is Form.PARQUET and to is None and sys.stdout.isatty():
        raise typer.BadParameter("Parquet is no text for a terminal: add --to FILE", param_hint="--output")
    if to is not None and {to.resolve(), *to.resolve().parents} & {Path(store).resolve()}:
        raise typer.BadParameter(f"`{to}` is the store, or lies in it: name another file", param_hint="--to")
    from augury.api import compile as compile_program
    from augury.clock import NoSuchTime
    from augury.lake.errors import LakeError
    from augury.lake.errors import NoSuchClass as NotInLake
    from augury.local.lakes import ask_lake, ask_lake_log, is_lake
    from augury.local.store.asking import Question, ask, ask_log
    from augury.local.store.errors import NoDriver, NoSuchClass, StoreError

    try:
        if event_class is None:
            answer = ask_lake_log(store, chosen[0], compile_program) if is_lake(store) else ask_log(store, chosen[0])
        else:
            question = Question(event_class, as_of, known_at, between)
            answer = ask_lake(store, question, compile_program) if is_lake(store) else ask(store, question)
    except NoSuchTime as error:
        raise typer.BadParameter(str(error)) from None
    except NoSuchClass as error:
        listed = f"it has {', '.join(error.known)}" if error.known else "it has none"
        help_ = f"did you mean `{error.meant}`?" if error.meant else listed
        typer.echo(f"error: {error}\n  = help: {help_}", err=True)
        raise typer.Exit(1) from None
    except (StoreError, LakeError) as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(3 if isinstance(error, NoDriver) else 1 if isinstance(error, NotInLake) else 2) from None
    _write_table(answer.table, answer.event, output, to)


def _write_table(table: Any, event: str | None, output: Form, to: Path | None) -> None:
    """A table to a file, or to standard output."""
    from augury.local import shown

    match output:
        case Form.TABLE:
            width = shutil.get_terminal_size().columns if to is None and sys.stdout.isatty() else None
            parts: Iterable[bytes] = [shown.drawn(table, width).encode("utf-8", "surrogateescape")]
            more = table.num_rows - shown.ROWS_DRAWN_MAX
            if more > 0:
                typer.echo(f"… and {more} row{'' if more == 1 else 's'} more; --output ndjson has them all", err=True)
        case Form.NDJSON:
            parts = (text.encode() for text in shown.ndjson(table, event))
        case Form.CSV:
            parts = [shown.csv(table)]
        case Form.PARQUET:
            parts = [shown.parquet(table)]
    if to is None:
        for part in parts:
            sys.stdout.buffer.write(part)
        sys.stdout.flush()
        return
    try:
        with to.open("wb") as stream:
            stream.writelines(parts)
    except OSError as error:
        typer.echo(f"error: `{to}` cannot be written: {error.strerror}", err=True)
        raise typer.Exit(2) from None
