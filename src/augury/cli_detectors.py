"""`augury sense` runs the detectors of a program against engines, and goes on.

`register` adds it to the command line. What it needs is imported when it is called.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from augury.cli_asking import TOKEN_ENV

if TYPE_CHECKING:
    from augury.algebra.program import Program

ProgramArgument = Annotated[str, typer.Argument(metavar="PROGRAM", help="A program; - is standard input.")]
TokensOption = Annotated[
    Path | None, typer.Option("--tokens", metavar="FILE", help="The tokens of those who may ask at --port.")
]
OpenOption = Annotated[
    bool, typer.Option("--open", help="Let whoever is on this machine ask without a token, for trying it out.")
]
HostOption = Annotated[str, typer.Option("--host", help="The address to listen at.")]


def register(app: typer.Typer) -> None:
    """Add `sense`."""
    app.command("sense")(sense_command)


def sense_command(
    program: ProgramArgument,
    to: Annotated[list[str], typer.Option("--to", metavar="URL", help="An engine; may be given several times.")],
    state: Annotated[Path, typer.Option("--state", help="The folder in which detectors remember where they are.")],
    once: Annotated[bool, typer.Option("--once", help="Look once, hand over what was seen, and end.")] = False,
    port: Annotated[
        int | None, typer.Option("--port", min=0, max=65_535, help="Where they are asked, paused and resumed.")
    ] = None,
    host: HostOption = "127.0.0.1",
    token_env: Annotated[
        str | None,
        typer.Option(
            "--token-env", metavar="NAME", help="The environment variable with a token that posts (AUGURY_TOKEN)."
        ),
    ] = None,
    tokens: TokensOption = None,
    is_open: OpenOption = False,
) -> None:
    """Run the detectors of a program, and feed one or more engines with what they see."""
    for url in to:
        if not url.startswith(("http://", "https://")):
            raise typer.BadParameter(f"`{url}` is no address: it begins with http://", param_hint="--to")
    compiled = compiled_or_exit(program)
    import asyncio

    from augury.detectors.sensor import BadDetector
    from augury.server.given import token_in
    from augury.server.living import CannotServe, live_detectors

    sys.path.insert(0, "")  # detectors in Python are found where the command is given
    try:
        token = token_in(token_env, os.environ, TOKEN_ENV)
        living = live_detectors(
            compiled,
            to,
            state,
            _tell,
            once=once,
            host=host,
            port=port,
            token=token,
            tokens=tokens,
            is_open=is_open,
        )
        code = asyncio.run(living)
    except (CannotServe, BadDetector) as error:
        _tell(f"error: {error}")
        raise typer.Exit(2) from None
    raise typer.Exit(code)


def _tell(sentence: str) -> None:
    typer.echo(sentence, err=True)


def compiled_or_exit(path: str) -> Program:
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
