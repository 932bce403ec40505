"""How the verbs that ask a server do so: where it is, with which token, how answers are shown, and how it ends.

In: options. Out: a client; rows on standard output, all else on standard error; exit codes are those of `cli_client`.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

if TYPE_CHECKING:
    from augury.client import Client, Problem
    from augury.client.told import Changes
    from augury.diagnostics import Source

Row = Mapping[str, Any]


class Shown(StrEnum):
    """How answers are written."""

    TABLE = "table"
    JSON = "json"
    NDJSON = "ndjson"


UrlOption = Annotated[
    str, typer.Option("--url", envvar="AUGURY_URL", help="Where the server is.", show_default=True, show_envvar=True)
]
TokenEnvOption = Annotated[
    str, typer.Option("--token-env", metavar="NAME", help="The environment variable with the token.")
]
TokenFileOption = Annotated[Path | None, typer.Option("--token-file", help="A file that holds the token.")]
OutputOption = Annotated[Shown, typer.Option("--output", help="A table, one JSON array, or a JSON object a line.")]
NameArgument = Annotated[str, typer.Argument(metavar="NAME")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Change nothing, and say what would change.")]

URL = "http://127.0.0.1:8700"
TOKEN_ENV = "AUGURY_TOKEN"


@contextmanager
def asking(
    url: str, token_env: str, token_file: Path | None, source: Source | None = None, *, is_part: bool = False
) -> Iterator[Client]:
    """A client; what goes wrong ends the command. `source` is the program that was sent, or one statement of it."""
    from augury.client import Client, ClientError, Problem

    token = _token(token_env, token_file)
    try:
        client = Client(url, token)
    except ClientError as error:
        fail(2, str(error))
    try:
        with client:
            yield client
    except Problem as problem:
        _fail_with(problem, source, is_part)
    except ClientError as error:
        fail(3, str(error))


def program_read(path: str) -> Source:
    """The text of a file; one that cannot be read ends the command."""
    from augury.diagnostics import render
    from augury.files import UnreadableFile, read_source

    try:
        return read_source(path)
    except UnreadableFile as error:
        typer.echo(render(error.diagnostic, error.source), err=True)
        raise typer.Exit(error.exit_code) from None


def _token(name: str, file: Path | None) -> str | None:
    """The token of a file, or of an environment variable; only a name that was chosen has to be there."""
    if file is not None:
        try:
            return file.read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            fail(2, f"the token `{file}` cannot be read: {getattr(error, 'strerror', None) or 'it is not UTF-8'}")
    found = os.environ.get(name)
    if found is None and name != TOKEN_ENV:
        fail(2, f"the environment has no variable `{name}`, which should hold the token")
    return found.strip() if found else None


def _fail_with(problem: Problem, source: Source | None, is_part: bool) -> NoReturn:
    from augury.diagnostics import NOWHERE, Mark, render

    found = problem.diagnostics
    if found and source is not None:
        if is_part:  # their places are in the program of the server, which is not here
            found = tuple(replace(one, mark=Mark(NOWHERE), others=()) for one in found)
        typer.echo("\n\n".join(render(one, source) for one in found), err=True)
        raise typer.Exit(1)
    helps = {
        401: f"give a token: put it into {TOKEN_ENV}, or name a variable or a file by --token-env or --token-file",
        403: "ask whoever runs the server for a token with that role",
    }
    tell(f"error: {problem.detail}")
    if problem.status in helps:
        tell(f"  = help: {helps[problem.status]}")
    raise typer.Exit(3 if problem.status >= 500 or problem.status == 429 else 1 if problem.status in (409, 422) else 2)


def show(rows: Iterable[Row], output: Shown, empty: str = "none\n") -> None:
    """Rows as they are asked for; of a table without any it says so."""
    from augury.history.raw import whole_json

    match output:
        case Shown.NDJSON:
            for row in rows:
                typer.echo(whole_json(row))
        case Shown.JSON:
            typer.echo("[" + ",\n ".join(whole_json(row) for row in rows) + "]")
        case Shown.TABLE:
            found = list(rows)
            typer.echo(_table(found) if found else empty, nl=False)


def _table(rows: Sequence[Row]) -> str:
    import pyarrow as pa

    from augury.local.shown import ROWS_DRAWN_MAX, drawn

    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = [_column([row.get(name) for row in rows]) for name in names]
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    more = (
        f"… and {len(rows) - ROWS_DRAWN_MAX} more; --output ndjson has them all\n" if len(rows) > ROWS_DRAWN_MAX else ""
    )
    return drawn(pa.table(dict(zip(names, columns, strict=True))), width) + more


def _column(values: Sequence[Any]) -> Any:
    import pyarrow as pa

    if all(value is None or type(value) is int for value in values) and any(value is not None for value in values):
        return pa.array(values, pa.int64())
    return pa.array([None if value is None else _cell(value) for value in values], pa.string())


def _cell(value: Any) -> str:
    from augury.history.raw import whole_json

    match value:
        case str():
            return value
        case bool():
            return "yes" if value else "no"
        case list() | tuple() if all(isinstance(one, str | int) for one in value):
            return ", ".join(map(str, value))
        case _:
            return whole_json(value)


def tell(sentence: str) -> None:
    """Say something that is no result."""
    typer.echo(sentence, err=True)


def fail(exit_code: int, sentence: str) -> NoReturn:
    """Say why, and end the command."""
    tell(f"error: {sentence}")
    raise typer.Exit(exit_code)


def show_changes(changes: Changes, output: Shown) -> None:
    """What a change of program does, or would do."""
    rows = [asdict(one) for one in changes.changes]
    if output is Shown.TABLE:  # what stays as it is would hide the rest
        rows = [row for row in rows if row["what"] != "same" or row["state"] not in ("none", "kept")]
        if not rows:
            typer.echo("nothing changes")
            return
    show(rows, output)
