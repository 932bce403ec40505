"""What `augury.toml` says of actions: bindings in the shape of BIND, and what a program alone may not decide.

In: text, or a file. Out: `ActionSettings`, or `SettingsError` with a sentence for everything that is wrong. Which
commands may be run and whether addresses that are not public may be asked is said here only: a program may come from
somebody else.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_network
from pathlib import Path
from typing import Any, Final

from augury.algebra.wiring import Binding, ExecutorKind, FromEnvironment, Length, Setting
from augury.algebra.wiring_forms import EXECUTOR_FORMS, Option, Takes, option_of
from augury.clock import parse_duration
from augury.environment import Environment, Files, Machine
from augury.event import key_of

SETTINGS: Final = "augury.toml"
_FIELDS: Final = ("modules", "commands", "private_targets", "bind")
_OWN: Final = ("to", "target")


@dataclass(frozen=True, slots=True)
class ActionSettings:
    """The settings of actions; what is not said is not allowed."""

    modules: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    private_targets: bool = False
    private_networks: tuple[str, ...] = ()
    bindings: tuple[Binding, ...] = ()


class SettingsError(ValueError):
    """Settings that cannot be used; a sentence for each mistake."""

    def __init__(self, sentences: tuple[str, ...]) -> None:
        """Keep the sentences."""
        super().__init__("\n".join(sentences))
        self.sentences = sentences


def settings_file(named: Path | None, *folders: Path, environment: Environment | None = None) -> Path | None:
    """The file that is named; else the first augury.toml that is there: here, or in one of the folders."""
    if named is not None:
        return named
    files = (environment or Machine()).files
    return next((file for folder in (Path(), *folders) if _is_there(str(file := folder / SETTINGS), files)), None)


def _is_there(path: str, files: Files) -> bool:
    """Whether there is such a file; one that cannot be looked at is, and who reads it will be told."""
    try:
        files.mark(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return not files.is_folder(path)


def settings_in(file: Path | None, environment: Environment | None = None) -> ActionSettings:
    """The settings of a file, or without one those that allow nothing; raises `SettingsError`."""
    if file is None:
        return ActionSettings()
    try:
        return read_settings((environment or Machine()).files.read(str(file)).decode(), str(file))
    except OSError as error:
        raise SettingsError((f"the settings `{file}` cannot be read: {error.strerror or error}",)) from None
    except UnicodeDecodeError as error:
        where = f"byte 0x{error.object[error.start]:02x} at offset {error.start}"
        raise SettingsError((f"the settings `{file}` cannot be read: it is not UTF-8: {where}",)) from None


def read_settings(text: str, name: str = "augury.toml") -> ActionSettings:
    """The table [actions] of a TOML file; raises `SettingsError`."""
    try:
        whole = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError((f"{name}: {error}",)) from None
    table = whole.get("actions", {})
    wrong: list[str] = []
    if not isinstance(table, dict):
        raise SettingsError((f"{name}: [actions] is a table",))
    wrong += [_unknown(f"[actions] {field}", field, _FIELDS) for field in table if field not in _FIELDS]
    bound = table.get("bind", {})
    found = [_binding(action, said, wrong) for action, said in bound.items()] if isinstance(bound, dict) else []
    settings = ActionSettings(
        _texts(table, "modules", wrong),
        _texts(table, "commands", wrong),
        *_private(table, wrong),
        tuple(one for one in found if one is not None),
    )
    if not isinstance(bound, dict):
        wrong.append("[actions.bind] has a table for each action")
    if wrong:
        raise SettingsError(tuple(f"{name}: {sentence}" for sentence in wrong))
    return settings


def _texts(table: Mapping[str, Any], name: str, wrong: list[str]) -> tuple[str, ...]:
    found = table.get(name, [])
    if isinstance(found, list) and all(isinstance(one, str) for one in found):
        return tuple(found)
    wrong.append(f'`{name}` under [actions] is a list of texts: {name} = ["…"]')
    return ()


def _private(table: Mapping[str, Any], wrong: list[str]) -> tuple[bool, tuple[str, ...]]:
    """Whether all addresses that are not public may be asked, or those of which networks."""
    found = table.get("private_targets", False)
    if isinstance(found, bool):
        return found, ()
    if isinstance(found, list) and all(isinstance(one, str) for one in found):
        with suppress(ValueError):
            return False, tuple(str(ip_network(one)) for one in found)
    wrong.append('`private_targets` under [actions] is true, false, or a list of networks: ["10.0.0.0/8"]')
    return False, ()


def _unknown(what: str, name: str, known: Collection[str]) -> str:
    close = difflib.get_close_matches(name, known, 1)
    return f"{what} is not known; " + (f"did you mean `{close[0]}`?" if close else f"there are {', '.join(known)}")


def _binding(action: str, said: Any, wrong: list[str]) -> Binding | None:
    where = f"[actions.bind.{action}]"
    if not isinstance(said, dict) or not isinstance(said.get("to"), str):
        wrong.append(f'{where} says what carries it out: to = "WEBHOOK"')
        return None
    try:
        kind = ExecutorKind(said["to"].upper())
    except ValueError:
        wrong.append(_unknown(f"{where} `{said['to']}`", said["to"].upper(), [one.value for one in ExecutorKind]))
        return None
    target = _target(said.get("target"), kind, where, wrong)
    options = EXECUTOR_FORMS[kind].options
    settings = []
    for name, value in said.items():
        if name in _OWN:
            continue
        option = option_of(name, options)
        if option is None:
            wrong.append(_unknown(f"{where} `{name}`", name, [*_OWN, *(one.name for one in options)]))
            continue
        setting = _setting(value, option)
        if setting is None:
            wrong.append(f"{where} `{name}` takes {option.takes.value}")
        else:
            settings.append((key_of(name), setting))
    return None if target is None else Binding(action, kind, target, tuple(settings))


def _target(said: Any, kind: ExecutorKind, where: str, wrong: list[str]) -> tuple[str | FromEnvironment, ...] | None:
    parts = [] if said is None else said if isinstance(said, list) else [said]
    found = [_from_environment(part) or part for part in parts]
    form = EXECUTOR_FORMS[kind].target
    least, most = (1, 1) if kind is ExecutorKind.EVENT else (form.least, form.most)
    if not all(isinstance(part, str | FromEnvironment) for part in found) or len(found) < least:
        wrong.append(f'{where} needs {form.what}: target = "{form.example}"')
        return None
    if most is not None and len(found) > most:
        wrong.append(f"{where} takes {form.what}, and no more")
        return None
    pattern = None if kind is ExecutorKind.EVENT else form.pattern
    for part in found:
        if pattern is not None and isinstance(part, str) and not re.fullmatch(pattern, part):
            wrong.append(f"{where} `{part}` is not {form.what}, e.g. {form.example}")
            return None
    return tuple(found)


def _from_environment(value: Any) -> FromEnvironment | None:
    match value:
        case {"env": str(name)}:
            return FromEnvironment(name)
        case _:
            return None


def _setting(value: Any, option: Option) -> Setting | None:
    """A value as BIND would have it; None where it does not fit."""
    variable = _from_environment(value)
    return variable if variable is not None else fitting(value, option)


def fitting(value: Any, option: Option) -> Setting | None:
    """A value, or the text of one, as an option takes it; None where it does not."""
    found = _READ[option.takes](value)
    match found:
        case None:
            return None
        case bool() | float():
            return found
        case int():
            return found if option.least <= found and (option.most is None or found <= option.most) else None
        case Length(microseconds):
            return found if microseconds > 0 else None
        case str():
            return found if not option.words or found in option.words else None
        case FromEnvironment():
            return None


def _whole(value: Any) -> int | None:
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,18}", value):
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _length(value: Any) -> Length | None:
    if isinstance(value, Length):
        return value
    try:
        return Length(parse_duration(value)) if isinstance(value, str) else None
    except ValueError:
        return None


def _true(value: Any) -> bool | None:
    words = {"true": True, "false": False}
    return words.get(value.lower()) if isinstance(value, str) else value if isinstance(value, bool) else None


_READ: Final[Mapping[Takes, Callable[[Any], Setting | None]]] = {
    Takes.TEXT: lambda value: value if isinstance(value, str) else None,
    Takes.WHOLE: _whole,
    Takes.LENGTH: _length,
    Takes.TRUTH: _true,
}


def filled(
    binding: Binding, variables: Mapping[str, str]
) -> tuple[tuple[str, ...], dict[str, Setting], tuple[str, ...]]:
    """Target and settings of a binding with what environment variables say, and a sentence for each that is amiss."""
    wrong: list[str] = []
    target = [part for one in binding.target for part in _said(one, variables, wrong)]
    settings: dict[str, Setting] = {}
    for name, value in binding.settings:
        option = option_of(name, EXECUTOR_FORMS[binding.kind].options)
        for text in _said(value, variables, wrong) if isinstance(value, FromEnvironment) else ():
            found = fitting(text, option) if option is not None else text
            if found is None:
                assert option is not None, "a text fits where nothing is asked"
                wrong.append(f"`{name}` takes {option.takes.value}, which its variable does not hold")
            else:
                settings[name] = found
        if not isinstance(value, FromEnvironment):
            settings[name] = value
    for option in EXECUTOR_FORMS[binding.kind].options:
        if option.needed and option.name not in dict(binding.settings):
            wrong.append(f"{binding.kind} needs `{option.name}`, {option.meaning}")
    return tuple(target), settings, tuple(wrong)


def _said(value: str | FromEnvironment, variables: Mapping[str, str], wrong: list[str]) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif value.variable in variables:
        yield variables[value.variable]
    else:
        wrong.append(f"the environment variable `{value.variable}` is not set")
