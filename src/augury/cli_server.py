"""`augury serve` runs a program live behind HTTP; `augury token` makes, lists and revokes what lets somebody ask it.

`register` adds them to the command line. What they need is imported when they are called.
"""

from __future__ import annotations

import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from augury import limits
from augury.cli_detectors import HostOption, OpenOption, ProgramArgument, compiled_or_exit


class RoleName(StrEnum):
    """What a token may do."""

    POST = "post"
    READ = "read"
    DEFINE = "define"
    ADMIN = "admin"


StoreOption = Annotated[str, typer.Option("--store", help="A file of SQLite, or postgresql://HOST/DATABASE.")]
TokensOption = Annotated[
    Path | None, typer.Option("--tokens", metavar="FILE", help="The file of tokens, if not STORE.tokens.")
]
TokenStore = Annotated[
    str | None, typer.Option("--store", help="The store whose server asks for tokens: they are in STORE.tokens.")
]


def register(app: typer.Typer) -> None:
    """Add `serve` and `token`."""
    app.command("serve")(serve_command)
    tokens = typer.Typer(help="Make, list and revoke the tokens of a server.", no_args_is_help=True)
    tokens.command("add")(add_command)
    tokens.command("ls")(ls_command)
    tokens.command("revoke")(revoke_command)
    app.add_typer(tokens, name="token")


def serve_command(
    program: ProgramArgument,
    store: StoreOption,
    port: Annotated[int, typer.Option("--port", min=0, max=65_535, help="Where it is asked; 0: any.")] = 8700,
    host: HostOption = "127.0.0.1",
    tokens: TokensOption = None,
    is_open: OpenOption = False,
    rate: Annotated[
        int, typer.Option("--rate", min=1, help="Requests a second that one token may make.")
    ] = limits.SERVER_REQUESTS_A_SECOND,
    sense: Annotated[bool, typer.Option("--sense", help="Run the program's detectors, too.")] = False,
    state: Annotated[
        Path | None, typer.Option("--state", help="Where they remember (STORE.sensed); means --sense.")
    ] = None,
    act: Annotated[bool, typer.Option("--act", help="Carry out the program's actions, too.")] = False,
    settings: Annotated[
        Path | None, typer.Option("--settings", help="Who carries them out; augury.toml, if it is there.")
    ] = None,
    act_at: Annotated[
        str | None, typer.Option("--act-at", metavar="URL", help="Let a process of `augury act` carry them out.")
    ] = None,
    secret_env: Annotated[
        str | None, typer.Option("--secret-env", metavar="NAME", help="The environment variable with its secret.")
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="What the engine is called there.")] = None,
) -> None:
    """Run a program live behind HTTP: it follows the wall clock, and takes events by POST to /v1/events.

    Who asks needs a token. Where there is no file of tokens yet, one that may do everything is made and shown on the
    terminal; `augury token add` makes others.
    """
    compiled = compiled_or_exit(program)
    from augury.actions.binding import CannotCarryOut, Surroundings
    from augury.actions.python import NoFunction
    from augury.detectors.sensor import BadDetector
    from augury.engine.plan import CannotRun
    from augury.local.running import CannotRecover
    from augury.local.store.errors import NoDriver, StoreError
    from augury.server.given import CannotServe, elsewhere, engine_name, settings_at, state_beside
    from augury.server.living import Serving, live_server, run_server
    from augury.server.tokens import tokens_of

    sys.path.insert(0, "")  # detectors and functions in Python are found where the command is given
    try:
        remembered = state_beside(store) if sense and state is None else state
        sent, said = elsewhere(act_at, secret_env, os.environ), settings_at(settings)
        acting = None
        if act or sent is not None:
            acting = Surroundings(compiled, said, None, typer.echo, name or engine_name(store), sent)
        # Elsewhere than on a terminal what is told is likely to be kept, as a journal does, and secrets are in no log.
        show = _tell if sys.stderr.isatty() else None
        serving = Serving(host, port, tokens_of(tokens, store, is_open=is_open), rate, is_open, show)
        run_server(live_server(compiled, store, serving, _tell, remembered, acting, said))
    except (StoreError, CannotRecover, CannotServe, CannotCarryOut, BadDetector, NoFunction, CannotRun) as error:
        for sentence in str(error).split("\n"):
            _tell(f"error: {sentence}")
        raise typer.Exit(3 if isinstance(error, NoDriver) else 1 if isinstance(error, CannotRun) else 2) from None


def add_command(
    name: Annotated[str, typer.Argument(help="What it is called, and revoked by.")],
    role: Annotated[list[RoleName], typer.Option("--role", help="What it may do; may be given several times.")],
    tokens: TokensOption = None,
    store: TokenStore = None,
) -> None:
    """Make a token, and print it: it is kept nowhere else."""
    from augury.server.given import CannotServe
    from augury.server.tokens import Role, add_token

    try:
        typer.echo(add_token(_file(tokens, store), name, tuple(Role(one.value) for one in role)))
    except CannotServe as error:
        _fail(error)


def ls_command(tokens: TokensOption = None, store: TokenStore = None) -> None:
    """List the names of tokens, and what each may do."""
    from augury.server.given import CannotServe
    from augury.server.tokens import read_tokens

    try:
        for one in read_tokens(_file(tokens, store)):
            typer.echo(f"{one.name}: {', '.join(one.roles)}")
    except CannotServe as error:
        _fail(error)


def revoke_command(
    name: Annotated[str, typer.Argument(help="The name it was made by.")],
    tokens: TokensOption = None,
    store: TokenStore = None,
) -> None:
    """Let a token be none, also for a server that runs."""
    from augury.server.given import CannotServe
    from augury.server.tokens import revoke_token

    try:
        revoke_token(_file(tokens, store), name)
    except CannotServe as error:
        _fail(error)


def _file(tokens: Path | None, store: str | None) -> Path:
    from augury.server.given import CannotServe, tokens_beside

    if tokens is not None:
        return tokens
    found = None if store is None else tokens_beside(store)
    if found is None:
        raise CannotServe("say which tokens: --tokens FILE, or --store FILE of the server that asks for them")
    return found


def _fail(error: Exception) -> None:
    for sentence in str(error).split("\n"):
        _tell(f"error: {sentence}")
    raise typer.Exit(2) from None


def _tell(sentence: str) -> None:
    typer.echo(sentence, err=True)
