"""`augury notify`, `plan` and `apply`: a server asked from the command line, by `augury.Client`.

Results on standard output, all else on standard error. Exit codes: 0 done; 1 an event is refused or the program has
findings; 2 wrong usage, a token that may not, a name that is not there; 3 the server cannot be reached, or cannot.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from augury.cli_asking import (
    TOKEN_ENV,
    URL,
    OutputOption,
    Row,
    Shown,
    TokenEnvOption,
    TokenFileOption,
    UrlOption,
    asking,
    program_read,
    show,
    show_changes,
    tell,
)

if TYPE_CHECKING:
    from augury.client import Client
    from augury.client.told import Answer

ProgramArgument = Annotated[str, typer.Argument(metavar="PROGRAM", help="A program; - is standard input.")]


def register(app: typer.Typer) -> None:
    """Add the verbs to the command line."""
    app.command("notify")(notify_command)
    app.command("plan")(plan_command)
    app.command("apply")(apply_command)


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
                tell(f"error: event {number} is refused: {problem.detail}")

    with asking(url, token_env, token_file) as client:
        if durable:
            accepted = client.post_all(_lines(events))
            for one in accepted.refused:
                tell(f"error: event {one.line} is refused: {one.reason}")
            is_refused = bool(accepted.refused)
            show([{"accepted": accepted.accepted, "refused": len(accepted.refused)}], output)
        else:
            show(answers(client), output, empty="")
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
            tell(f"warning: event {number}: rule `{one.rule}` of trigger `{fired.trigger}`: {one.reason}")


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
    source = program_read(path)
    with asking(url, token_env, token_file, source) as client:
        changes = client.plan(source.text) if is_tried else client.apply(source.text)
        show_changes(changes, output)
