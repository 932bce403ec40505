"""What commands are given about actions, read: settings, secrets, and what an engine is called.

In: paths, names of environment variables, the place of a store. Out: values; or `CannotServe`, which says what to do.
"""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Mapping
from pathlib import Path

from augury.actions.binding import Elsewhere
from augury.actions.envelope import signing_keys
from augury.actions.settings import ActionSettings, SettingsError, settings_file, settings_in


class CannotServe(RuntimeError):
    """What keeps a process from starting; the message says what to do."""


def settings_at(path: Path | None) -> ActionSettings:
    """The settings of a file; without one those of augury.toml, if it is there. Raises `CannotServe`."""
    try:
        return settings_in(settings_file(path))
    except SettingsError as error:
        raise CannotServe("\n".join(error.sentences)) from None


def keys_in(variable: str | None, variables: Mapping[str, str]) -> tuple[bytes, ...]:
    """The keys of the secret in an environment variable; none where none is named. Raises `CannotServe`."""
    if variable is None:
        return ()
    if variable not in variables:
        raise CannotServe(f"the environment variable `{variable}` is not set, which should hold the secret")
    try:
        return signing_keys(variables[variable])
    except ValueError as error:
        raise CannotServe(f"the environment variable `{variable}` holds no secret: {error}") from None


def elsewhere(url: str | None, secret_env: str | None, variables: Mapping[str, str]) -> Elsewhere | None:
    """The process at a URL that carries out all actions; None where none is named. Raises `CannotServe`."""
    keys = keys_in(secret_env, variables)
    if url is None and keys:
        raise CannotServe("a secret signs what is sent to a process that carries out actions: name one, --act-at URL")
    return None if url is None else Elsewhere(url, keys)


def engine_name(store: str) -> str:
    """What an engine is called that was given no name: made of where its store or lake is, which it tells nobody.

    Raises what a URL of no store raises.
    """
    from augury.local.store.database import database
    from augury.local.store.lake_outbox import is_lake

    place = store
    if not is_lake(store):
        held = database(store)
        place = held.place
        held.close()
    place = place if "://" in place else str(Path(place).resolve())
    return hashlib.sha256(f"{platform.node()}\x1f{place}".encode("utf-8", "surrogateescape")).hexdigest()[:16]


def state_beside(store: str) -> Path:
    """The folder in which detectors remember if none is named: beside a store that is a file."""
    if "://" in store:
        raise CannotServe("name the folder in which detectors remember: --state FOLDER")
    return Path(f"{store}.sensed")


def tokens_beside(store: str) -> Path | None:
    """The file of tokens of a store if none is named: beside a store that is a file."""
    return None if "://" in store and not store.startswith("sqlite") else Path(f"{_plain(store)}.tokens")


def token_in(variable: str | None, variables: Mapping[str, str], usual: str) -> str | None:
    """The token in an environment variable; where none is named the usual one may have it. Raises `CannotServe`."""
    if variable is None:
        return variables.get(usual, "").strip() or None
    if not (found := variables.get(variable, "").strip()):
        raise CannotServe(f"the environment variable `{variable}` is not set, which should hold the token")
    return found


def _plain(store: str) -> str:
    from augury.local.store.database import database

    held = database(store)
    held.close()
    return held.place
