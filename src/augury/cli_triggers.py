"""`augury trigger` and `rule`: the triggers, rules and groups of a server, looked at and changed while it runs.

In: names, and files with one statement. Out: what `cli_asking` shows, with the exit codes of `cli_client`.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from augury.cli_asking import (
    TOKEN_ENV,
    URL,
    DryRunOption,
    NameArgument,
    OutputOption,
    Row,
    Shown,
    TokenEnvOption,
    TokenFileOption,
    UrlOption,
    asking,
    fail,
    program_read,
    show,
    show_changes,
    tell,
)

if TYPE_CHECKING:
    from augury.diagnostics import Source


Kind = Literal["rule", "group", "trigger"]
StatementArgument = Annotated[
    str, typer.Argument(metavar="FILE", help="A file with one statement; - is standard input.")
]
GroupOption = Annotated[bool, typer.Option("--group", help="NAME is a group of rules.")]


def register(app: typer.Typer) -> None:
    """Add the verbs to the command line."""
    triggers = typer.Typer(
        help="The triggers of a server: list, show, put, drop, enable, disable.", no_args_is_help=True
    )
    triggers.command("ls")(trigger_ls_command)
    triggers.command("show")(trigger_show_command)
    triggers.command("put")(trigger_put_command)
    triggers.command("drop")(trigger_drop_command)
    triggers.command("enable")(trigger_enable_command)
    triggers.command("disable")(trigger_disable_command)
    triggers.command("fire-log")(trigger_fire_log_command)
    app.add_typer(triggers, name="trigger")
    rules = typer.Typer(
        help="The rules and rule groups of a server: list, show, put, drop, enable, disable.", no_args_is_help=True
    )
    rules.command("ls")(rule_ls_command)
    rules.command("show")(rule_show_command)
    rules.command("put")(rule_put_command)
    rules.command("drop")(rule_drop_command)
    rules.command("enable")(rule_enable_command)
    rules.command("disable")(rule_disable_command)
    app.add_typer(rules, name="rule")


# ---- triggers ------------------------------------------------------------------------------------------------


def trigger_ls_command(
    url: UrlOption = URL,
    token_env: TokenEnvOption = TOKEN_ENV,
    token_file: TokenFileOption = None,
    output: OutputOption = Shown.TABLE,
) -> None:
    """List the triggers, and whether they are enabled."""
    with asking(url, token_env, token_file) as client:
        show(
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
    with asking(url, token_env, token_file) as client:
        found = client.trigger(name)
        has_occurred = client.evaluate(name)
    if output is Shown.TABLE:
        state = "enabled" if found.enabled else "disabled"
        typer.echo(found.text.rstrip())
        typer.echo(f"\n{state}; its event has {'occurred, and waits to be used' if has_occurred else 'not occurred'}")
    else:
        show([{**asdict(found), "occurred": has_occurred}], output)


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
    dry_run: DryRunOption = False,
    url: UrlOption = URL,
    token_env: TokenEnvOption = TOKEN_ENV,
    token_file: TokenFileOption = None,
    output: OutputOption = Shown.TABLE,
) -> None:
    """Drop a trigger from the program that a server runs."""
    with asking(url, token_env, token_file) as client:
        show_changes(client.drop("trigger", name, dry_run=dry_run), output)


def trigger_put_command(
    file: StatementArgument,
    dry_run: DryRunOption = False,
    url: UrlOption = URL,
    token_env: TokenEnvOption = TOKEN_ENV,
    token_file: TokenFileOption = None,
    output: OutputOption = Shown.TABLE,
) -> None:
    """Add a trigger to the program that a server runs, or replace the one of that name."""
    _put(file, ("trigger",), dry_run, url, token_env, token_file, output)


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
    with asking(url, token_env, token_file) as client:
        wanted = tuple(names or ())
        if follow:
            feed = client.live_firings(*wanted, after=after)
            with suppress(KeyboardInterrupt), closing(feed):
                show(islice(feed, limit), Shown.NDJSON)
        else:
            feed = client.firings(*wanted, after=after, limit=limit)
            show(feed, output)
        if feed.cursor is not None:
            tell(f"go on with --after {feed.cursor}")


# ---- rules ---------------------------------------------------------------------------------------------------


def rule_ls_command(
    groups: Annotated[bool, typer.Option("--groups", help="The groups, instead of the rules.")] = False,
    url: UrlOption = URL,
    token_env: TokenEnvOption = TOKEN_ENV,
    token_file: TokenFileOption = None,
    output: OutputOption = Shown.TABLE,
) -> None:
    """List the rules, their groups, and whether they are enabled."""
    with asking(url, token_env, token_file) as client:
        if groups:
            show([asdict(one) for one in client.groups()], output)
        else:
            show([{**_head(asdict(one)), "groups": one.groups} for one in client.rules()], output)


def rule_show_command(
    name: NameArgument,
    group: GroupOption = False,
    url: UrlOption = URL,
    token_env: TokenEnvOption = TOKEN_ENV,
    token_file: TokenFileOption = None,
    output: OutputOption = Shown.TABLE,
) -> None:
    """Show a rule, or a group of rules."""
    from augury.client.told import GroupInfo, RuleInfo

    with asking(url, token_env, token_file) as client:
        found: GroupInfo | RuleInfo = client.group(name) if group else client.rule(name)
    if output is Shown.TABLE:
        text = f"group {found.name} of {', '.join(found.rules)}" if isinstance(found, GroupInfo) else found.text
        typer.echo(f"{text.rstrip()}\n\n{'enabled' if found.enabled else 'disabled'}")
    else:
        show([asdict(found)], output)


def rule_put_command(
    file: StatementArgument,
    dry_run: DryRunOption = False,
    url: UrlOption = URL,
    token_env: TokenEnvOption = TOKEN_ENV,
    token_file: TokenFileOption = None,
    output: OutputOption = Shown.TABLE,
) -> None:
    """Add a rule, or a group of rules, to the program that a server runs, or replace the one of that name."""
    _put(file, ("rule", "group"), dry_run, url, token_env, token_file, output)


def rule_drop_command(
    name: NameArgument,
    group: GroupOption = False,
    dry_run: DryRunOption = False,
    url: UrlOption = URL,
    token_env: TokenEnvOption = TOKEN_ENV,
    token_file: TokenFileOption = None,
    output: OutputOption = Shown.TABLE,
) -> None:
    """Drop a rule, or a group but not its rules, from the program that a server runs."""
    with asking(url, token_env, token_file) as client:
        show_changes(client.drop("group" if group else "rule", name, dry_run=dry_run), output)


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


def _put(
    path: str,
    kinds: Sequence[Kind],
    dry_run: bool,
    url: str,
    token_env: str,
    token_file: Path | None,
    output: Shown,
) -> None:
    source = program_read(path)
    kind, name = _declared(source, kinds)
    with asking(url, token_env, token_file, source, is_part=True) as client:
        show_changes(client.put(kind, name, source.text, dry_run=dry_run), output)


def _declared(source: Source, kinds: Sequence[Kind]) -> tuple[Kind, str]:
    """What the one statement of a file declares, which has to be of these kinds; else the command ends."""
    from augury.diagnostics import Findings, render
    from augury.language import syntax as s
    from augury.language.parser import parse

    findings = Findings()
    statements = parse(source.text, findings).program.statements
    if findings.has_errors():
        typer.echo("\n\n".join(render(one, source) for one in findings.sorted()), err=True)
        raise typer.Exit(1)
    nodes: dict[Kind, type[s.Trigger | s.Rule | s.RuleGroup]]
    nodes = {"trigger": s.Trigger, "rule": s.Rule, "group": s.RuleGroup}
    if len(statements) == 1:
        for kind in kinds:
            if isinstance(one := statements[0], nodes[kind]):
                return kind, one.name.text
    fail(1, f"`{source.name}` should hold one statement, which declares a {' or a '.join(kinds)}")


def _switch(kind: Kind, name: str, on: bool, url: str, token_env: str, token_file: Path | None) -> None:
    with asking(url, token_env, token_file) as client:
        client.switch(kind, name, on)
    tell(f"the {kind} `{name}` is {'enabled' if on else 'disabled'}")


def _head(row: Row) -> Row:
    parameters = ", ".join(f"{one['name']} {one['type']}" for one in row["parameters"])
    return {"name": row["name"], "enabled": row["enabled"], "parameters": parameters}
