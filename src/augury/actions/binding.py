"""Who carries out which action: BIND statements, settings and registered functions → executors.

In: a program, settings, an environment, and an engine to post to if there is one. Out: a carrier for each action that
has one, the names of those that have none, and a sentence for each binding that cannot be used.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final, assert_never

from augury import limits
from augury.actions.command import Command, refusal
from augury.actions.deliver import Carrier
from augury.actions.delivery import Executor
from augury.actions.envelope import ENGINE_NAME, signing_keys
from augury.actions.log import Log, to_log
from augury.actions.python import Function, NoFunction, Python, function_named, registered
from augury.actions.settings import ActionSettings, filled
from augury.actions.webhook import ExecutorProcess, Webhook, unusable
from augury.algebra.program import Program
from augury.algebra.wiring import Binding, ExecutorKind, Length, Setting
from augury.environment import Environment
from augury.event import key_of

if TYPE_CHECKING:
    from augury.actions.event import Poster


_ELSEWHERE_RETRIES: Final = 1_000_000
"""How often a process that carries out actions is asked: it counts `retries` itself, and one that is not there or is
paused must not turn what waits for it into dead letters."""

_ELSEWHERE_SECONDS: Final = 60.0
"""How long it may take to answer; who asks again meanwhile waits for the same try."""


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """Where a process listens that carries out all actions of a program (`augury act`), and keys to sign them by."""

    url: str
    keys: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class Wired:
    """Who carries out which action; `unbound` wait in the outbox, and so do those that `problems` are about."""

    carriers: Mapping[str, Carrier]
    unbound: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()

    async def close(self) -> None:
        """Let go of what executors hold."""
        for carrier in self.carriers.values():
            await carrier.executor.close()


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What executors need beside their bindings.

    `engine` is the name of the engine whose actions they are: who serves several tells them apart by it. With
    `elsewhere` bindings are not looked at here.
    """

    program: Program
    settings: ActionSettings = field(default_factory=ActionSettings)
    poster: Poster | None = None
    write_line: Callable[[str], None] = to_log
    engine: str = ""
    elsewhere: Elsewhere | None = None


class CannotCarryOut(RuntimeError):
    """Bindings that cannot be used; a sentence for each."""

    def __init__(self, sentences: tuple[str, ...]) -> None:
        """Keep the sentences."""
        super().__init__("\n".join(sentences))
        self.sentences = sentences


class _CannotBind(Exception):
    """Why a binding cannot be used."""


def wire(around: Surroundings, environment: Environment) -> Wired:
    """Who carries out the actions of a program: what settings bind, else the program, else registered functions."""
    if around.elsewhere is not None:
        return _wired_elsewhere(around, around.elsewhere)
    problems: list[str] = []
    if wrong := _misnamed(around.engine):
        problems.append(wrong)
    try:
        functions = registered(around.settings.modules)
    except NoFunction as error:
        functions = {}
        problems.append(str(error))
    bindings = {key_of(one.action): one for one in (*around.program.bindings, *around.settings.bindings)}
    done = {key_of(name): name for name in actions_of(around.program)}
    carriers: dict[str, Carrier] = {}
    for key, name in {**{key: one.action for key, one in bindings.items()}, **done}.items():
        try:
            if key in bindings:
                carriers[name] = _carrier(bindings[key], around, environment)
            elif key in functions:
                places, seconds = limits.DELIVERY_CONCURRENCY, None
                carriers[name] = Carrier(Python(partial(_registered, key, around), places, seconds))
        except (_CannotBind, NoFunction, ImportError) as error:
            problems.append(f"`{name}`: {error}")
    unbound = tuple(name for key, name in done.items() if key not in bindings and key not in functions)
    return Wired(carriers, unbound, tuple(problems))


def _registered(key: str, around: Surroundings) -> Function:
    return registered(around.settings.modules)[key]


def _wired_elsewhere(around: Surroundings, elsewhere: Elsewhere) -> Wired:
    """Everything goes there. Who runs the engine names the address, so it need not be public."""
    nameless = "" if around.engine else "an engine whose actions are carried out elsewhere needs a name"
    problems = [one for one in (unusable(elsewhere.url), _misnamed(around.engine), nameless) if one]
    if problems:
        return Wired({}, (), tuple(problems))
    names = {key_of(name): name for name in actions_of(around.program)}
    url = f"{elsewhere.url.rstrip('/')}/actions"
    sent = {
        name: ExecutorProcess(url, _ELSEWHERE_SECONDS, {}, elsewhere.keys, False, around.engine, name)
        for name in names.values()
    }
    return Wired({name: Carrier(executor, _ELSEWHERE_RETRIES) for name, executor in sent.items()})


def _misnamed(engine: str) -> str | None:
    if not engine or re.fullmatch(ENGINE_NAME, engine):
        return None
    return f"`{engine}` is no name of an engine: up to 30 letters, digits, `_`, `.` and `-`"


def actions_of(program: Program) -> Iterator[str]:
    """The names of the actions that a program does."""
    yield from (call.name for call in program.action_calls())


@dataclass(frozen=True, slots=True)
class _Filled:
    """A binding with all values at hand."""

    kind: ExecutorKind
    target: tuple[str, ...]
    settings: Mapping[str, Setting]

    def text(self, name: str) -> str | None:
        found = self.settings.get(name)
        return None if found is None else str(found)

    def number(self, name: str, default: int) -> int:
        found = self.settings.get(name, default)
        return found if isinstance(found, int) else default

    @property
    def seconds(self) -> float:
        found = self.settings.get("timeout")
        return found.microseconds / 1e6 if isinstance(found, Length) else limits.DELIVERY_SECONDS

    @property
    def places(self) -> int:
        return self.number("concurrency", limits.DELIVERY_CONCURRENCY)


def _carrier(binding: Binding, around: Surroundings, environment: Environment) -> Carrier:
    target, settings, wrong = filled(binding, environment.variables)
    if wrong:
        raise _CannotBind("; ".join(wrong))
    said = _Filled(binding.kind, target, settings)
    return Carrier(_executor(said, around), said.number("retries", limits.DELIVERY_RETRIES), said.places)


def _executor(said: _Filled, around: Surroundings) -> Executor:
    match said.kind:
        case ExecutorKind.LOG:
            return Log(around.write_line)
        case ExecutorKind.PYTHON:
            return Python(partial(function_named, said.target[0]), said.places, said.seconds)
        case ExecutorKind.COMMAND:
            if why := refusal(said.target, around.settings.commands):
                raise _CannotBind(why)
            return Command(said.target, said.seconds)
        case ExecutorKind.WEBHOOK:
            return _webhook(said, around)
        case ExecutorKind.EVENT:
            return _event(said, around)
        case ExecutorKind.SQL:
            return _sql(said)
        case ExecutorKind.MAIL:
            return _mail(said)
        case ExecutorKind.KAFKA:
            from augury.actions.kafka import Kafka

            return Kafka(said.target[0], said.text("servers") or "", said.text("key"), said.seconds, around.engine)
        case ExecutorKind.NATS:
            from augury.actions.nats import Nats

            return Nats(said.target[0], said.text("url") or "", said.seconds, around.engine)
        case ExecutorKind.MQTT:
            from augury.actions.mqtt import Mqtt, MqttServer

            mqtt = MqttServer(
                said.text("host") or "", said.number("port", 1883), said.text("user"), said.text("password")
            )
            return Mqtt(said.target[0], mqtt, said.number("qos", 1), said.places, said.seconds, around.engine)
        case _:
            assert_never(said.kind)


def _webhook(said: _Filled, around: Surroundings) -> Executor:
    url = said.target[0]
    if why := unusable(url):
        raise _CannotBind(why)
    secret = said.text("secret")
    try:
        keys = () if secret is None else signing_keys(secret)
    except ValueError as error:
        raise _CannotBind(str(error)) from None
    headers = {
        name.removeprefix("header_").replace("_", "-"): str(value)
        for name, value in said.settings.items()
        if name.startswith("header_")
    }
    allowed = around.settings
    is_public, networks = not allowed.private_targets, allowed.private_networks
    return Webhook(url, said.seconds, headers, keys, is_public, around.engine, networks=networks)


def _event(said: _Filled, around: Surroundings) -> Executor:
    from augury.actions.event import Event

    plan = around.program.class_plan(said.target[0])
    if plan is None:
        raise _CannotBind(f"the program has no class `{said.target[0]}`")
    if around.poster is None:
        raise _CannotBind("an action that becomes an event needs an engine to post it to: name one, --to URL")
    attributes = tuple(attribute.name for attribute in plan.event_class.attributes)
    return Event(plan.event_class.name, attributes, around.poster, said.seconds)


def _sql(said: _Filled) -> Executor:
    from augury.actions.sql import Sql
    from augury.local.inserting import CannotInsert

    try:
        return Sql(said.target[0], said.text("table") or "", said.places, said.seconds)
    except CannotInsert as error:
        raise _CannotBind(str(error)) from None


def _mail(said: _Filled) -> Executor:
    from augury.actions.mail import Mail, mail_server

    tls, port = said.settings.get("tls") is True, said.number("port", 0) or None
    try:
        server = mail_server(said.text("server") or "", port, said.text("user"), said.text("password"), tls)
    except ValueError as error:
        raise _CannotBind(str(error)) from None
    return Mail(said.target[0], said.text("sender") or "", said.text("subject"), server, said.places, said.seconds)
