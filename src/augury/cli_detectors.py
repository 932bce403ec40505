"""Commands that go on: `augury engine` runs a program live, `augury sense` runs its detectors against engines.

`register` adds them to the command line. What they need is imported when they are called.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from augury.algebra.program import Program

ProgramArgument = Annotated[str, typer.Argument(metavar="PROGRAM", help="A program; - is standard input.")]
HostOption = Annotated[str, typer.Option("--host", help="The address to listen at.")]


def register(app: typer.Typer) -> None:
    """Add `engine` and `sense`."""
    app.command("engine")(engine_command)
    app.command("sense")(sense_command)


def engine_command(
    program: ProgramArgument,
    store: Annotated[str, typer.Option("--store", help="A file of SQLite, or postgresql://HOST/DATABASE.")],
    port: Annotated[int, typer.Option("--port", min=0, max=65_535, help="Where events are posted; 0: any.")] = 8700,
    host: HostOption = "127.0.0.1",
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
    """Run a program live: it follows the wall clock, and takes events by POST to /events."""
    compiled = _compiled(program)
    import asyncio

    from augury.actions.binding import Surroundings
    from augury.actions.run import CannotCarryOut
    from augury.detectors.sensor import BadDetector
    from augury.engine.plan import CannotRun
    from augury.local.running import CannotRecover
    from augury.local.store.errors import NoDriver, StoreError
    from augury.server.given import CannotServe, elsewhere, engine_name, settings_at, state_beside
    from augury.server.living import live_engine

    sys.path.insert(0, "")  # detectors and executors in Python are found where the command is given
    try:
        remembered = state_beside(store) if sense and state is None else state
        sent = elsewhere(act_at, secret_env, os.environ)
        acting = None
        if act or sent is not None:
            called = name or engine_name(store)
            acting = Surroundings(compiled, settings_at(settings), None, typer.echo, called, sent)
        asyncio.run(live_engine(compiled, store, host, port, _tell, remembered, acting))
    except (StoreError, CannotRecover, CannotServe, CannotCarryOut, BadDetector, CannotRun) as error:
        for sentence in str(error).split("\n"):
            _tell(f"error: {sentence}")
        raise typer.Exit(3 if isinstance(error, NoDriver) else 1 if isinstance(error, CannotRun) else 2) from None


def sense_command(
    program: ProgramArgument,
    to: Annotated[list[str], typer.Option("--to", metavar="URL", help="An engine; may be given several times.")],
    state: Annotated[Path, typer.Option("--state", help="The folder in which detectors remember where they are.")],
    once: Annotated[bool, typer.Option("--once", help="Look once, hand over what was seen, and end.")] = False,
    port: Annotated[
        int | None, typer.Option("--port", min=0, max=65_535, help="Where they are asked, paused and resumed.")
    ] = None,
    host: HostOption = "127.0.0.1",
) -> None:
    """Run the detectors of a program, and feed one or more engines with what they see."""
    for url in to:
        if not url.startswith(("http://", "https://")):
            raise typer.BadParameter(f"`{url}` is no address: it begins with http://", param_hint="--to")
    compiled = _compiled(program)
    import asyncio

    from augury.detectors.sensor import BadDetector
    from augury.server.living import CannotServe, live_detectors

    sys.path.insert(0, "")  # detectors in Python are found where the command is given
    try:
        code = asyncio.run(live_detectors(compiled, to, state, _tell, once=once, host=host, port=port))
    except (CannotServe, BadDetector) as error:
        _tell(f"error: {error}")
        raise typer.Exit(2) from None
    raise typer.Exit(code)


def _tell(sentence: str) -> None:
    typer.echo(sentence, err=True)


def _compiled(path: str) -> Program:
    """A program without errors, or the end."""
    from augury.api import check
    from augury.diagnostics import render
    from augury.files import UnreadableFile, read_source

    try:
        source = read_source(path)
    except UnreadableFile as error:
        _tell(render(error.diagnostic, error.source))
        raise typer.Exit(error.exit_code) from None
    checked = check(source.text, source.name)
    if checked.program is None:
        _tell("\n\n".join(render(one, checked.source) for one in checked.errors))
        raise typer.Exit(1)
    return checked.program
