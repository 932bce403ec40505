"""The verb that tests programs: test. It prints what `augury.trying.suite_verb` found out; the world is `Context.obj`.

What it needs is loaded when it is called: `augury check` takes no longer for its being there.
"""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from augury import limits
from augury.diagnostics import Diagnostic, Severity, Source, render
from augury.environment import Machine

if TYPE_CHECKING:
    from augury.trying.suite_verb import Tested


class Report(StrEnum):
    """How results are written."""

    TEXT = "text"
    JUNIT = "junit"
    JSON = "json"


def register(app: typer.Typer) -> None:
    """Add the verb to the command line."""
    app.command("test")(run_suites)


def run_suites(
    context: typer.Context,
    suites: Annotated[list[str], typer.Argument(metavar="SUITE…", help="Suites of tests, in YAML.")],
    output: Annotated[Report, typer.Option("--output", help="Text, JUnit's XML, or one JSON object.")] = Report.TEXT,
    update: Annotated[bool, typer.Option("--update", help="Write what was got into the suites.")] = False,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Which arrival orders `permutations: N` draws.")] = 1,
) -> None:
    """Run tests of programs: events that come, and what is expected of them."""
    if update and "-" in suites:
        raise typer.BadParameter("standard input cannot be rewritten", param_hint="--update")
    from augury.local.bar import bar_on
    from augury.trying.suite_verb import tested

    with bar_on(sys.stderr) as bar:
        found = tested(suites, seed, context.obj or Machine(), update=update, tell=bar.tell)
    match output:
        case Report.TEXT:
            _print_text(found, seed)
        case Report.JUNIT:
            from augury.trying.suite_report import junit

            typer.echo(junit(found.reports))
        case Report.JSON:
            from augury.trying.suite_report import json_text

            typer.echo(json_text(found.reports, found.covered, seed))
    if output is not Report.JSON:
        _report([problem for report in found.reports for problem in report.problems])
    for note in found.notes:
        typer.echo(note, err=True)
    raise typer.Exit(found.exit_code)


def _print_text(found: Tested, seed: int) -> None:
    from augury.local.shown import printable
    from augury.trying.suite_coverage import coverage_lines
    from augury.trying.suite_told import summary, told

    lines = [line for report in found.reports for one in report.results for line in told(report.source, one, seed)]
    if found.results:
        lines.append(summary(found.results))
    for one in found.covered:
        lines += coverage_lines(one)
    for line in lines:
        typer.echo(printable(line))


def _report(found: list[tuple[Diagnostic, Source]]) -> None:
    """Diagnostics, on standard error."""
    colour = sys.stderr is not None and sys.stderr.isatty()
    for diagnostic, source in found[: limits.ERRORS_SHOWN_MAX]:
        typer.echo(render(diagnostic, source, colour=colour) + "\n", err=True)
    if len(found) > limits.ERRORS_SHOWN_MAX:
        typer.echo(f"… and {len(found) - limits.ERRORS_SHOWN_MAX:,} more; --output json has them all", err=True)
    errors = sum(diagnostic.severity is Severity.ERROR for diagnostic, _ in found)
    if errors:
        typer.echo(f"{errors} error{'' if errors == 1 else 's'}", err=True)
