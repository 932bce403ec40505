"""`augury store`: what a store holds, copies of it, and its migration between releases.

Results on standard output, all else on standard error. Exit codes: 0 done; 2 wrong usage; 3 the environment lacks
something, or the store is not as it should be.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

StoreArgument = Annotated[str, typer.Argument(metavar="STORE", help="A file of SQLite, or postgresql://HOST/DATABASE.")]
FileArgument = Annotated[str, typer.Argument(metavar="FILE", help="The file with the copy.")]


def register(app: typer.Typer) -> None:
    """Add the verbs to the command line."""
    store = typer.Typer(help="Look at a store, copy it, put a copy back, migrate it.", no_args_is_help=True)
    store.command("info")(info_command)
    store.command("backup")(backup_command)
    store.command("restore")(restore_command)
    store.command("migrate")(migrate_command)
    app.add_typer(store, name="store")


def info_command(store: StoreArgument) -> None:
    """Say what a store holds: its format, classes and triggers, the last tick, how large it is."""
    from augury.local.store.upkeep import store_info

    with _failing():
        for line in store_info(store).lines():
            typer.echo(line)


def backup_command(store: StoreArgument, file: FileArgument) -> None:
    """Copy a store into a file, also while an engine writes to it: all that was committed when the copy began."""
    from augury.local.store.upkeep import back_up

    with _failing():
        back_up(store, file)
    typer.echo(f"the store `{store}` is copied to `{file}`", err=True)


def restore_command(file: FileArgument, store: StoreArgument) -> None:
    """Put a copy into the place of a store; one that is there is not overwritten."""
    from augury.local.store.upkeep import restore

    with _failing():
        restore(file, store)
    typer.echo(f"`{file}` is the store `{store}` now", err=True)


def migrate_command(store: StoreArgument) -> None:
    """Bring a store that an older Augury wrote into the present format; an older one cannot open it afterwards."""
    from augury.local.store.sql import migrate_store

    with _failing():
        told = migrate_store(store)
    typer.echo(told or "the store has the present format already", err=True)


@contextmanager
def _failing() -> Iterator[None]:
    """Say what is wrong with a store, and end."""
    from augury.local.store.errors import StoreError

    try:
        yield
    except StoreError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(3) from None
