"""`augury notify`, `plan`, `apply`, `trigger` and `rule`: a server asked from the command line, by `augury.Client`.

Results on standard output, all else on standard error. Exit codes: 0 done; 1 an event is refused or the program has
findings; 2 wrong usage, a token that may not, a name that is not there; 3 the server cannot be reached, or cannot.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn

import typer

if TYPE_CHECKING:
    from augury.client import Client, Problem
    from augury.client.told import Answer, Changes
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
ProgramArgument = Annotated[str, typer.Argument(metavar="PROGRAM", help="A program; - is standard input.")]

URL = "http://127.0.0.1:8700"
TOKEN_ENV = "AUGURY_TOKEN"


def register(app: typer.Typer) -> None:
    """Add the verbs to the command line."""
    app.command("notify")(notify_command)
    app.command("plan")(plan_command)
    app.command("apply")(apply_command)
    triggers = typer.Typer(help="The triggers of a server: list, show, enable, disable, drop.", no_args_is_help=True)
    triggers.command("ls")(trigger_ls_command)
    triggers.command("show")(trigger_show_command)
    triggers.command("enable")(trigger_enable_command)
    triggers.command("disable")(trigger_disable_command)
    triggers.command("drop")(trigger_drop_command)
    triggers.command("fire-log")(trigger_fire_log_command)
    app.add_typer(triggers, name="trigger")
    rules = typer.Typer(help="The rules and rule groups of a server: list, enable, disable.", no_args_is_help=True)
    rules.command("ls")(rule_ls_command)
    rules.command("enable")(rule_enable_command)
    rules.command("disable")(rule_disable_command)
    app.add_typer(rules, name="rule")


# ---- events --------------------------------------------------------------------------------------------------


def notify_command(
    events: Annotated[
        list[str], typer.Argument(metavar="EVENT…", help="Events as JSON; - for lines on standard input.")
    ],
    durable: Annotated[
        bool, typer.Option("--durable", help="Wait until they are kept, not until their triggers have fired.")
    ] = False,
    url: UrlOption = URL,
    token_env: TokenEnvOption = TOKEN_ENV,
    token_file: TokenFileOption = None,
    output: OutputOption = Shown.TABLE,
) -> None:
    """Post events, and show what became of each: what fired, and what triggers gave back."""
    from augury.client import Problem

    is_refused = False

    def answers(client: Client) -> Iterator[Row]:
        nonlocal is_refused
        for number, line in enumerate(_lines(events), 1):
            try:
                answer = client.notify(line)
                _warn_of_failures(answer, number)
                yield _answer_row(answer, output)
            except Problem as problem:
                if problem.status != 422:
                    raise
                is_refused = True
                _tell(f"error: event {number} is refused: {problem.detail}")

    with _asking(url, token_env, token_file) as client:
        if durable:
            accepted = client.post_all(_lines(events))
            for one in accepted.refused:
                _tell(f"error: event {one.line} is refused: {one.reason}")
            is_refused = bool(accepted.refused)
            _show([{"accepted": accepted.accepted, "refused": len(accepted.refused)}], output)
        else:
            _show(answers(client), output, empty="")
    raise typer.Exit(1 if is_refused else 0)


def _lines(events: Sequence[str]) -> Iterator[str]:
    for event in events:
        if event == "-":
            yield from (line for line in sys.stdin if line.strip())
        else:
            yield event


def _warn_of_failures(answer: Answer, number: int) -> None:
    """A rule that failed gives nothing back, as one does that has nothing to give."""
    for fired in answer.firings:
        for one in fired.failed:
            _tell(f"warning: event {number}: rule `{one.rule}` of trigger `{fired.trigger}`: {one.reason}")


def _answer_row(answer: Answer, output: Shown) -> Row:
    row = asdict(answer)
    if output is not Shown.TABLE:
        return {name: row[name] for name in ("seq", "is_absorbed", "returned", "firings", "occurrences")}
    fired = ", ".join(f"{one.trigger} {one.number}" for one in answer.firings)
    return {"seq": answer.seq, "fired": fired, "returned": row["returned"], "occurrences": len(answer.occurrences)}


# ---- programs ------------------------------------------------------------------------------------------------


def plan_command(
    program: ProgramArgument,
    url: UrlOption = URL,
    token_env: TokenEnvOption = TOKEN_ENV,
    token_file: TokenFileOption = None,
    output: OutputOption = Shown.TABLE,
) -> None:
    """Show what a program would change in a running server: which state is kept, worked out again, or lost."""
    _changed(program, url, token_env, token_file, output, is_tried=True)


def apply_command(
    program: ProgramArgument,
    url: UrlOption = URL,
    token_env: TokenEnvOption = TOKEN_ENV,
    token_file: TokenFileOption = None,
    output: OutputOption = Shown.TABLE,
) -> None:
    """Let a program take the place of the one that a server runs, between two ticks and as a whole."""
    _changed(program, url, token_env, token_file, output, is_tried=False)


def _changed(path: str, url: str, token_env: str, token_file: Path | None, output: Shown, *, is_tried: bool) -> None:
    from augury.diagnostics import render
    from augury.files import UnreadableFile, read_source

    try:
        source = read_source(path)
    except UnreadableFile as error:
        typer.echo(render(error.diagnostic, error.source), err=True)
        raise typer.Exit(error.exit_code) from None
    with _asking(url, token_env, token_file, source) as client:
        changes = client.plan(source.text) if is_tried else client.apply(source.text)
        _show_changes(changes, output)


def _show_changes(changes: Changes, output: Shown) -> None:
    rows = [asdict(one) for one in changes.changes]
    if output is Shown.TABLE:  # what stays as it is would hide the rest
        rows = [row for row in rows if row["what"] != "same" or row["state"] not in ("none", "kept")]
        if not rows:
            typer.echo("nothing changes")
            return
    _show(rows, output)


# ---- triggers ------------------------------------------------------------------------------------------------


def trigger_ls_command(
    url: UrlOption = URL,
    token_env: TokenEnvOption = TOKEN_ENV,
    token_file: TokenFileOption = None,
    output: OutputOption = Shown.TABLE,
) -> None:
    """List the triggers, and whether they are enabled."""
    with _asking(url, token_env, token_file) as client:
        _show(
            [{**_head(asdict(one)), "events": one.events, "returns": one.returns} for one in client.triggers()], output
        )


def trigger_show_command(
    name: NameArgument,
    url: UrlOption = URL,
    token_env: TokenEnvOption = TOKEN_ENV,
    token_file: TokenFileOption = None,
    output: OutputOption = Shown.TABLE,
) -> None:
    """Show a trigger, and whether its composite event has occurred."""
    with _asking(url, token_env, token_file) as client:
        found = client.trigger(name)
        has_occurred = client.evaluate(name)
    if output is Shown.TABLE:
        state = "enabled" if found.enabled else "disabled"
        typer.echo(found.text.rstrip())
        typer.echo(f"\n{state}; its event has {'occurred, and waits to be used' if has_occurred else 'not occurred'}")
    else:
        _show([{**asdict(found), "occurred": has_occurred}], output)


def trigger_enable_command(
    name: NameArgument,
    url: UrlOption = URL,
    token_env: TokenEnvOption = TOKEN_ENV,
    token_file: TokenFileOption = None,
) -> None:
    """Let a trigger fire, from the next version on."""
    _switch("trigger", name, True, url, token_env, token_file)


def trigger_disable_command(
    name: NameArgument,
    url: UrlOption = URL,
    token_env: TokenEnvOption = TOKEN_ENV,
    token_file: TokenFileOption = None,
) -> None:
    """Let a trigger not fire, from the next version on."""
    _switch("trigger", name, False, url, token_env, token_file)


def trigger_drop_command(
    name: NameArgument,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Change nothing, and say what would change.")] = False,
    url: UrlOption = URL,
    token_env: TokenEnvOption = TOKEN_ENV,
    token_file: TokenFileOption = None,
    output: OutputOption = Shown.TABLE,
) -> None:
    """Drop a trigger from the program that a server runs."""
    with _asking(url, token_env, token_file) as client:
        _show_changes(client.drop("trigger", name, dry_run=dry_run), output)


def trigger_fire_log_command(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]…", help="Of these triggers; else of all.")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on, with what fires from now on.")] = False,
    after: Annotated[str | None, typer.Option("--after", metavar="CURSOR", help="Only what came after.")] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="So many, and no more.")] = None,
    url: UrlOption = URL,
    token_env: TokenEnvOption = TOKEN_ENV,
    token_file: TokenFileOption = None,
    output: OutputOption = Shown.TABLE,
) -> None:
    """Show the firings of triggers with their constituents; where to go on is said at the end."""
    with _asking(url, token_env, token_file) as client:
        wanted = tuple(names or ())
        if follow:
            feed = client.live_firings(*wanted, after=after)
            with suppress(KeyboardInterrupt), closing(feed):
                _show(islice(feed, limit), Shown.NDJSON)
        else:
            feed = client.firings(*wanted, after=after, limit=limit)
            _show(feed, output)
        if feed.cursor is not None:
            _tell(f"go on with --after {feed.cursor}")


# ---- rules ---------------------------------------------------------------------------------------------------

GroupOption = Annotated[bool, typer.Option("--group", help="NAME is a group of rules.")]


def rule_ls_command(
    groups: Annotated[bool, typer.Option("--groups", help="The groups, instead of the rules.")] = False,
    url: UrlOption = URL,
    token_env: TokenEnvOption = TOKEN_ENV,
    token_file: TokenFileOption = None,
    output: OutputOption = Shown.TABLE,
) -> None:
    """List the rules, their groups, and whether they are enabled."""
    with _asking(url, token_env, token_file) as client:
        if groups:
            _show([asdict(one) for one in client.groups()], output)
        else:
            _show([{**_head(asdict(one)), "groups": one.groups} for one in client.rules()], output)


def rule_enable_command(
    name: NameArgument,
    group: GroupOption = False,
    url: UrlOption = URL,
    token_env: TokenEnvOption = TOKEN_ENV,
    token_file: TokenFileOption = None,
) -> None:
    """Let a rule, or all rules of a group, run from the next version on."""
    _switch("group" if group else "rule", name, True, url, token_env, token_file)


def rule_disable_command(
    name: NameArgument,
    group: GroupOption = False,
    url: UrlOption = URL,
    token_env: TokenEnvOption = TOKEN_ENV,
    token_file: TokenFileOption = None,
) -> None:
    """Let a rule, or all rules of a group, be skipped from the next version on."""
    _switch("group" if group else "rule", name, False, url, token_env, token_file)


def _switch(
    kind: Literal["rule", "group", "trigger"], name: str, on: bool, url: str, token_env: str, token_file: Path | None
) -> None:
    with _asking(url, token_env, token_file) as client:
        client.switch(kind, name, on)
    _tell(f"the {kind} `{name}` is {'enabled' if on else 'disabled'}")


def _head(row: Row) -> Row:
    parameters = ", ".join(f"{one['name']} {one['type']}" for one in row["parameters"])
    return {"name": row["name"], "enabled": row["enabled"], "parameters": parameters}


# ---- asking and showing --------------------------------------------------------------------------------------


@contextmanager
def _asking(url: str, token_env: str, token_file: Path | None, source: Source | None = None) -> Iterator[Client]:
    """A client; what goes wrong ends the command. `source` is the program that was sent."""
    from augury.client import Client, ClientError, Problem

    token = _token(token_env, token_file)
    try:
        client = Client(url, token)
    except ClientError as error:
        _fail(2, str(error))
    try:
        with client:
            yield client
    except Problem as problem:
        _fail_with(problem, source)
    except ClientError as error:
        _fail(3, str(error))


def _token(name: str, file: Path | None) -> str | None:
    """The token of a file, or of an environment variable; only a name that was chosen has to be there."""
    if file is not None:
        try:
            return file.read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            _fail(2, f"the token `{file}` cannot be read: {getattr(error, 'strerror', None) or 'it is not UTF-8'}")
    found = os.environ.get(name)
    if found is None and name != TOKEN_ENV:
        _fail(2, f"the environment has no variable `{name}`, which should hold the token")
    return found.strip() if found else None


def _fail_with(problem: Problem, source: Source | None) -> NoReturn:
    from augury.diagnostics import render

    if problem.diagnostics and source is not None:
        typer.echo("\n\n".join(render(one, source) for one in problem.diagnostics), err=True)
        raise typer.Exit(1)
    helps = {
        401: f"give a token: put it into {TOKEN_ENV}, or name a variable or a file by --token-env or --token-file",
        403: "ask whoever runs the server for a token with that role",
    }
    _tell(f"error: {problem.detail}")
    if problem.status in helps:
        _tell(f"  = help: {helps[problem.status]}")
    raise typer.Exit(3 if problem.status >= 500 or problem.status == 429 else 1 if problem.status in (409, 422) else 2)


def _show(rows: Iterable[Row], output: Shown, empty: str = "none\n") -> None:
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


def _tell(sentence: str) -> None:
    typer.echo(sentence, err=True)


def _fail(exit_code: int, sentence: str) -> NoReturn:
    _tell(f"error: {sentence}")
    raise typer.Exit(exit_code)
