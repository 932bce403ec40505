"""`augury actions`: what waits in an outbox is carried out, listed, tried again or dropped; `augury act`: executors.

Results on standard output, all else on standard error. Exit codes: 0 done; 1 the program has findings; 2 wrong usage; 3
the environment lacks something.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from augury.cli_asking import TOKEN_ENV
from augury.cli_detectors import OpenOption

if TYPE_CHECKING:
    from augury.actions.event import HttpPoster
    from augury.actions.run import Would
    from augury.algebra.program import Program
    from augury.local.store.waiting import Wanted


class Shown(StrEnum):
    """How actions are written."""

    TABLE = "table"
    NDJSON = "ndjson"


class StateName(StrEnum):
    """What may have become of an action."""

    WAITING = "waiting"
    DELIVERED = "delivered"
    DEAD = "dead"
    DROPPED = "dropped"


Keys = Annotated[list[str] | None, typer.Argument(metavar="[KEY]…", help="The idempotency keys of the actions.")]
StoreOption = Annotated[
    str, typer.Option("--store", help="A file of SQLite, postgresql://HOST/DATABASE, or the lake of a watch.")
]
DeliveriesOption = Annotated[
    str | None,
    typer.Option(
        "--deliveries", metavar="URL", help="Of a lake: what became of its actions; a file or a database, as --store."
    ),
]
States = Annotated[list[StateName] | None, typer.Option("--state", help="Only those; may be given several times.")]
ActionName = Annotated[str | None, typer.Option("--action", help="Only actions of this name.")]
EventName = Annotated[str | None, typer.Option("--event", help="Only actions of events of this class.")]
All = Annotated[bool, typer.Option("--all", help="All of them.")]
ProgramArgument = Annotated[str, typer.Argument(metavar="PROGRAM", help="The program whose actions are carried out.")]
SettingsOption = Annotated[
    Path | None, typer.Option("--settings", help="Bindings and permissions; augury.toml, if it is there.")
]
ToOption = Annotated[
    str | None, typer.Option("--to", metavar="URL", help="The engine that actions TO EVENT are posted to.")
]
TokenOption = Annotated[
    str | None,
    typer.Option("--token-env", metavar="NAME", help="The environment variable with a token for --to (AUGURY_TOKEN)."),
]
SecretOption = Annotated[
    str | None, typer.Option("--secret-env", metavar="NAME", help="The environment variable with the secret.")
]


def register(app: typer.Typer) -> None:
    """Add the verbs to the command line."""
    actions = typer.Typer(help="Carry out, list, retry and drop the actions of a store.", no_args_is_help=True)
    actions.command("ls")(ls_command)
    actions.command("retry")(retry_command)
    actions.command("drop")(drop_command)
    actions.command("run")(run_command)
    app.add_typer(actions, name="actions")
    app.command("act")(act_command)


def ls_command(
    keys: Keys = None,
    store: StoreOption = "",
    state: States = None,
    action: ActionName = None,
    event: EventName = None,
    output: Annotated[Shown, typer.Option("--output", help="How to write it.")] = Shown.TABLE,
    deliveries: DeliveriesOption = None,
) -> None:
    """List actions, with what has become of them."""
    _require(store)
    from augury.actions.run import lines, table
    from augury.local.shown import ROWS_DRAWN_MAX, drawn

    wanted = _wanted(keys, state, action, event)
    with _failing():
        if output is Shown.NDJSON:
            is_empty = True
            for line in lines(store, wanted, deliveries):
                sys.stdout.write(line)
                is_empty = False
            if is_empty:
                _tell_misspelt(store, wanted, deliveries)
            return
        rows, count = table(store, wanted, ROWS_DRAWN_MAX, deliveries)
        if not count:
            _tell_misspelt(store, wanted, deliveries)
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    typer.echo(drawn(rows, width), nl=False)
    if count > rows.num_rows:
        typer.echo(f"… and {count - rows.num_rows} more; --output ndjson has them all", err=True)


def _tell_misspelt(store: str, wanted: Wanted, deliveries: str | None) -> None:
    from augury.actions.run import misspelt, opened

    with opened(store, deliveries) as outbox:
        for sentence in misspelt(outbox, wanted):
            _tell(sentence)


def retry_command(
    keys: Keys = None,
    store: StoreOption = "",
    state: States = None,
    action: ActionName = None,
    event: EventName = None,
    everything: All = False,
    deliveries: DeliveriesOption = None,
) -> None:
    """Let actions that were not delivered be tried again at once, as if for the first time."""
    _change(keys, store, state, action, event, everything, deliveries, "retry")


def drop_command(
    keys: Keys = None,
    store: StoreOption = "",
    state: States = None,
    action: ActionName = None,
    event: EventName = None,
    everything: All = False,
    deliveries: DeliveriesOption = None,
) -> None:
    """Let actions that wait or are dead never be tried again."""
    _change(keys, store, state, action, event, everything, deliveries, "drop")


def run_command(
    program: ProgramArgument,
    store: StoreOption = "",
    once: Annotated[bool, typer.Option("--once", help="Try what can be tried now, and end.")] = False,
    settings: SettingsOption = None,
    to: ToOption = None,
    token_env: TokenOption = None,
    act_at: Annotated[
        str | None, typer.Option("--act-at", metavar="URL", help="Let a process of `augury act` carry out all of them.")
    ] = None,
    secret_env: SecretOption = None,
    name: Annotated[
        str | None, typer.Option("--name", help="What the engine is called, for who serves several.")
    ] = None,
    deliveries: DeliveriesOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would go to whom.")] = False,
    output: Annotated[Shown, typer.Option("--output", help="How --dry-run shows it.")] = Shown.TABLE,
) -> None:
    """Carry out the actions that wait in a store, as BIND statements and settings say, and go on until it is ended."""
    _require(store)
    import asyncio

    from augury.actions.binding import CannotCarryOut, Surroundings
    from augury.actions.deliver import Ends
    from augury.actions.run import carry_out, would_carry_out
    from augury.server.given import elsewhere, engine_name, settings_at

    _find_modules_here()
    compiled = _program(program)
    with _failing():
        called = name or engine_name(store)
        sent = elsewhere(act_at, secret_env, os.environ)
        around = Surroundings(compiled, settings_at(settings), _poster(to, token_env), typer.echo, called, sent)
        try:
            if dry_run:
                _show_would(asyncio.run(would_carry_out(store, around, _tell, deliveries)), output)
                return
            counts = asyncio.run(carry_out(store, around, Ends.ONCE if once else Ends.NEVER, _tell, deliveries))
        except CannotCarryOut as error:
            _fail(2, *error.sentences)
    again = f", {counts.again} to be tried again" if counts.again else ""
    _tell(f"{counts.delivered} delivered, {counts.dead} dead{again}")


def _show_would(found: Sequence[Would], output: Shown) -> None:
    """What would be delivered: on standard output; how many, on standard error."""
    from augury.actions.run import would_line, would_table
    from augury.local.shown import ROWS_DRAWN_MAX, drawn

    if output is Shown.NDJSON:
        for one in found:
            sys.stdout.write(would_line(one))
    else:
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        typer.echo(drawn(would_table(found[:ROWS_DRAWN_MAX]), width), nl=False)
        if len(found) > ROWS_DRAWN_MAX:
            _tell(f"… and {len(found) - ROWS_DRAWN_MAX} more; --output ndjson has them all")
    carried = sum(one.target is not None for one in found)
    _tell(f"{carried} would be tried, {len(found) - carried} would wait; nothing was done")


def act_command(
    program: ProgramArgument,
    settings: SettingsOption = None,
    port: Annotated[int, typer.Option("--port", min=0, max=65_535, help="Where actions are posted; 0: any.")] = 8710,
    host: Annotated[str, typer.Option("--host", help="The address to listen at.")] = "127.0.0.1",
    secret_env: SecretOption = None,
    to: ToOption = None,
    token_env: TokenOption = None,
    tokens: Annotated[
        Path | None,
        typer.Option("--tokens", metavar="FILE", help="The tokens of those who may look, pause and resume."),
    ] = None,
    is_open: OpenOption = False,
) -> None:
    """Carry out the actions that one or more engines post to /actions, as BIND statements and settings say."""
    import asyncio

    from augury.actions.binding import CannotCarryOut, Surroundings
    from augury.server.given import keys_in, settings_at
    from augury.server.living import live_executors

    _find_modules_here()
    compiled = _program(program)
    with _failing():
        around = Surroundings(compiled, settings_at(settings), _poster(to, token_env), typer.echo)
        try:
            keys = keys_in(secret_env, os.environ)
            asyncio.run(live_executors(around, host, port, _tell, keys, tokens=tokens, is_open=is_open))
        except CannotCarryOut as error:
            _fail(2, *error.sentences)


def _find_modules_here() -> None:
    """Modules that lie where the command is given carry out actions, too."""
    if "" not in sys.path:
        sys.path.insert(0, "")


def _poster(to: str | None, token_env: str | None) -> HttpPoster | None:
    from augury.actions.event import HttpPoster
    from augury.server.given import token_in

    return None if to is None else HttpPoster(to, token_in(token_env, os.environ, TOKEN_ENV))


def _change(
    keys: list[str] | None,
    store: str,
    state: list[StateName] | None,
    action: str | None,
    event: str | None,
    everything: bool,
    deliveries: str | None,
    verb: str,
) -> None:
    _require(store)
    if not everything and not (keys or state or action or event):
        raise typer.BadParameter("say which: keys, --state, --action, --event, or --all")
    from augury.actions.run import opened
    from augury.environment import Machine

    wanted, now_us = _wanted(keys, state, action, event), Machine().now_us()
    with _failing():
        with opened(store, deliveries) as outbox:
            count = outbox.retry(wanted, now_us) if verb == "retry" else outbox.drop(wanted, now_us)
        if not count:
            _tell_misspelt(store, wanted, deliveries)
    done = "tried again" if verb == "retry" else "never tried again"
    typer.echo(f"{count} {'action is' if count == 1 else 'actions are'} {done}")


def _wanted(keys: list[str] | None, state: list[StateName] | None, action: str | None, event: str | None) -> Wanted:
    from augury.local.store.waiting import State, Wanted

    return Wanted(tuple(State(one.value) for one in state or ()), action, event, tuple(keys or ()))


def _require(store: str) -> None:
    if not store:
        raise typer.BadParameter("name the store", param_hint="--store")


def _program(path: str) -> Program:
    from augury.api import ProgramError, compile
    from augury.diagnostics import render
    from augury.files import UnreadableFile, read_source

    try:
        source = read_source(path)
        return compile(source.text, source.name)
    except UnreadableFile as error:
        typer.echo(render(error.diagnostic, error.source), err=True)
        raise typer.Exit(error.exit_code) from None
    except ProgramError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None


@contextmanager
def _failing() -> Iterator[None]:
    from augury.local.store.errors import NoDriver, StoreError
    from augury.server.given import CannotServe

    try:
        yield
    except CannotServe as error:
        _fail(2, *str(error).split("\n"))
    except StoreError as error:
        _fail(3 if isinstance(error, NoDriver) else 2, str(error))


def _tell(sentence: str) -> None:
    typer.echo(sentence, err=True)


def _fail(exit_code: int, *sentences: str) -> NoReturn:
    for sentence in sentences:
        _tell(f"error: {sentence}")
    raise typer.Exit(exit_code)
