"""Who carries out an action: BIND, settings, functions; what is wrong with bindings; and the command line."""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from augury.actions import python
from augury.actions.binding import Surroundings, Wired, wire
from augury.actions.settings import ActionSettings, SettingsError, read_settings
from augury.algebra.wiring import Binding, ExecutorKind, FromEnvironment, Length
from augury.cli_actions import register
from augury.environment import Machine
from augury.local.store.outbox import open_outbox
from augury.local.store.waiting import State, Wanted
from tests.acting.targets import SHOP, action, fill, program


class World(Machine):
    """This machine with other environment variables."""

    __slots__ = ()

    @property
    def variables(self) -> dict[str, str]:
        return {"HOOK": "https://example.org/hook", "SECRET": "whsec_c2VjcmV0", "TIMES": "3", "LONG": "5 years"}


@pytest.fixture(autouse=True)
def fresh_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(python, "_REGISTERED", {})


def wired(*bindings: Binding, settings: ActionSettings | None = None) -> Wired:
    around = Surroundings(replace(program(), bindings=bindings), settings or ActionSettings())
    return wire(around, World())


def bind(kind: ExecutorKind, *target: str | FromEnvironment, **settings: object) -> Binding:
    return Binding("tell", kind, target, tuple(settings.items()))  # type: ignore[arg-type]


def test_an_action_has_what_settings_say_or_the_program_or_a_function() -> None:
    @python.action("ORDER")
    def order(*_: object) -> None:
        pass

    one = bind(ExecutorKind.WEBHOOK, "https://example.org:444/a", retries=3, concurrency=2, timeout=Length(5_000_000))
    found = wired(one)
    assert not found.problems
    assert not found.unbound
    assert sorted(found.carriers) == ["order", "tell"]
    tell = found.carriers["tell"]
    assert (tell.executor.target, tell.retries, tell.concurrency) == ("https://example.org:444", 3, 2)
    assert found.carriers["order"].executor.target.endswith("order")
    other = read_settings('[actions.bind.TELL]\nto = "log"\n')
    assert wired(one, settings=other).carriers["tell"].executor.target == "log"


def test_an_action_without_an_executor_is_told() -> None:
    found = wired()
    assert found.unbound == ("order", "tell")
    assert not found.carriers


def test_values_come_from_the_environment() -> None:
    secret = FromEnvironment("SECRET")
    found = wired(bind(ExecutorKind.WEBHOOK, FromEnvironment("HOOK"), secret=secret, retries=FromEnvironment("TIMES")))
    assert not found.problems
    assert found.carriers["tell"].retries == 3
    assert found.carriers["tell"].executor.target == "https://example.org"


@pytest.mark.parametrize(
    ("binding", "words"),
    [
        (bind(ExecutorKind.WEBHOOK, FromEnvironment("NOPE")), "the environment variable `NOPE` is not set"),
        (bind(ExecutorKind.WEBHOOK, "https://x.org/", timeout=FromEnvironment("LONG")), "`timeout` takes a duration"),
        (bind(ExecutorKind.WEBHOOK, "ftp://x.org/"), "is no URL of a webhook"),
        (bind(ExecutorKind.WEBHOOK, "https://x.org/", secret="abc"), "whsec_"),
        (bind(ExecutorKind.COMMAND, "rm", "-rf"), "the command `rm` may not be run"),
        (bind(ExecutorKind.PYTHON, "no.such:f"), "cannot be imported"),
        (bind(ExecutorKind.EVENT, "Approved"), "--to URL"),
        (bind(ExecutorKind.SQL, "sqlite:///x.db"), "SQL needs `table`"),
        (bind(ExecutorKind.SQL, "nonsense://x", table="t"), "the database cannot be reached"),
    ],
)
def test_a_binding_that_cannot_be_used_is_told(binding: Binding, words: str) -> None:
    [problem] = wired(binding).problems
    assert problem.startswith("`tell`: ")
    assert words in problem


def test_every_kind_can_be_bound() -> None:
    settings = read_settings(
        """
        [actions]
        commands = ["true"]
        private_targets = true
        [actions.bind]
        a = { to = "LOG" }
        b = { to = "PYTHON", target = "json:dumps", timeout = "3s" }
        c = { to = "COMMAND", target = ["true", "x"] }
        d = { to = "WEBHOOK", target = { env = "HOOK" }, header_x_team = "shop", secret = { env = "SECRET" } }
        f = { to = "SQL", target = "sqlite:///orders.db", table = "orders" }
        g = { to = "MAIL", target = "a@b.org", server = "localhost", sender = "c@d.org", port = 2525 }
        h = { to = "KAFKA", target = "acts", servers = "127.0.0.1:1" }
        i = { to = "NATS", target = "acts", url = "nats://127.0.0.1:1" }
        j = { to = "MQTT", target = "acts", host = "127.0.0.1", qos = 1 }
        """
    )
    found = wired(settings=settings)
    assert found.problems == ()
    assert sorted(found.carriers) == list("abcdfghij")
    asyncio.run(found.close())


def test_all_that_is_wrong_with_settings_is_said_at_once() -> None:
    text = """
        [actions]
        comands = ["x"]
        modules = "shop"
        private_targets = "yes"
        [actions.bind]
        a = { to = "WEBHOK", target = "x" }
        b = { to = "WEBHOOK" }
        c = { to = "WEBHOOK", target = "https://x.org/", timout = "3s" }
        d = { to = "WEBHOOK", target = "https://x.org/", retries = "many" }
        e = "LOG"
        f = { to = "LOG", target = "x" }
    """
    with pytest.raises(SettingsError) as error:
        read_settings(text, "s.toml")
    assert error.value.sentences == (
        "s.toml: [actions] comands is not known; did you mean `commands`?",
        "s.toml: [actions.bind.a] `WEBHOK` is not known; did you mean `WEBHOOK`?",
        's.toml: [actions.bind.b] needs a URL: target = "https://example.org/hook"',
        "s.toml: [actions.bind.c] `timout` is not known; did you mean `timeout`?",
        "s.toml: [actions.bind.d] `retries` takes a whole number",
        's.toml: [actions.bind.e] says what carries it out: to = "WEBHOOK"',
        "s.toml: [actions.bind.f] takes nothing, and no more",
        's.toml: `modules` under [actions] is a list of texts: modules = ["…"]',
        's.toml: `private_targets` under [actions] is true, false, or a list of networks: ["10.0.0.0/8"]',
    )
    with pytest.raises(SettingsError, match=r"^s\.toml: "):
        read_settings("[actions", "s.toml")
    assert read_settings("[other]\nx = 1\n") == ActionSettings()


@pytest.mark.parametrize("said", ["7", '"10.0.0.0/8"', '["10.0.0.1/8"]', "[7]", '["x"]'])
def test_private_targets_are_all_or_none_or_networks(said: str) -> None:
    with pytest.raises(SettingsError, match="a list of networks"):
        read_settings(f"[actions]\nprivate_targets = {said}")
    found = read_settings('[actions]\nprivate_targets = ["10.0.0.0/8", "fd00::/8"]')
    assert (found.private_targets, found.private_networks) == (False, ("10.0.0.0/8", "fd00::/8"))


# ---- the command line ------------------------------------------------------------------------------------------------

APP = typer.Typer()
register(APP)


@APP.callback()
def _root() -> None:
    """Verbs stay verbs."""


def augury(*words: str, code: int = 0) -> tuple[str, str]:
    result = CliRunner().invoke(APP, ["actions", *words])
    assert result.exit_code == code, (result.output, result.exception)
    return result.stdout, result.stderr


def test_actions_are_listed_retried_and_dropped(tmp_path: Path) -> None:
    store = str(tmp_path / "store.db")
    fill(store, [action(0), action(1, "order", None, "milk", 2.5), action(2)])
    listed, _ = augury("ls", "--store", store, "--output", "ndjson")
    rows = [json.loads(line) for line in listed.splitlines()]
    assert [(row["key"], row["state"], row["args"]) for row in rows] == [
        ("key-tell-0", "waiting", ["say 0"]),
        ("key-order-1", "waiting", ["milk", 2.5]),
        ("key-tell-2", "waiting", ["say 2"]),
    ]
    assert augury("drop", "--store", store, "--action", "Tell")[0] == "2 actions are never tried again\n"
    table, _ = augury("ls", "--store", store, "--state", "dropped", "--state", "dead")
    assert [line.split()[:2] for line in table.splitlines()[2:]] == [
        ["key-tell-0", "dropped"],
        ["key-tell-2", "dropped"],
    ]
    assert augury("retry", "--store", store, "key-tell-2")[0] == "1 action is tried again\n"
    assert augury("retry", "--store", store, "--event", "Nothing")[0] == "0 actions are tried again\n"
    _, told = augury("retry", "--store", store, code=2)
    assert "say which" in told
    assert "there is no store" in augury("ls", "--store", str(tmp_path / "none.db"), code=2)[1]
    augury("ls", code=2)


def test_what_is_misspelt_is_told(tmp_path: Path) -> None:
    store = str(tmp_path / "store.db")
    fill(store, [action(0), action(1, "order", None, "milk", 2.5)])
    said = {
        ("--action", "ordr"): "the outbox has no action `ordr`: did you mean `order`?\n",
        ("--action", "zzz"): "the outbox has no action `zzz`: there are order, tell\n",
        ("--event", "Lo"): "the outbox has no action of a class `Lo`: did you mean `Low`?\n",
        ("key-tel-0", "key-tell-0", "--state", "dead"): "there is no action with the key `key-tel-0`\n",
        ("--action", "TELL", "--state", "dead"): "",
    }
    for words, sentence in said.items():
        for verb in (("ls",), ("ls", "--output", "ndjson"), ("retry",), ("drop",)):
            assert augury(*verb, "--store", store, *words)[1] == sentence, (verb, words)
    fill(str(tmp_path / "empty.db"), [])
    assert augury("ls", "--store", str(tmp_path / "empty.db"), "--action", "tell")[1].endswith("it is empty\n")


def test_run_carries_out_what_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    fill("store.db", [action(0), action(1, "order"), action(2)])
    Path("shop.bicepl").write_text(SHOP)
    Path("shop_run_acts.py").write_text(
        "from pathlib import Path\ndef order(*words):\n    Path('ordered').write_text(repr(words))\n"
    )
    _, told = augury("run", "shop.bicepl", "--store", "store.db", "--once")
    assert "the action `tell` has no executor: it waits in the outbox" in told
    Path("augury.toml").write_text(
        '[actions.bind]\ntell = { to = "LOG" }\norder = { to = "PYTHON", target = "shop_run_acts:order" }\n'
    )
    lines, told = augury("run", "shop.bicepl", "--store", "store.db", "--once")
    assert [json.loads(line)["idempotency_key"] for line in lines.splitlines()] == ["key-tell-0", "key-tell-2"]
    assert Path("ordered").read_text() == "('say 1',)"
    assert told == "3 delivered, 0 dead\n"
    outbox = open_outbox("store.db", alone=False)
    assert {one.state for one in outbox.listed(Wanted())} == {State.DELIVERED}
    outbox.close()
    Path("augury.toml").write_text('[actions.bind]\ntell = { to = "COMMAND", target = "rm" }\n')
    _, told = augury("run", "shop.bicepl", "--store", "store.db", "--once", code=2)
    assert told.startswith("error: `tell`: the command `rm` may not be run")
    assert "cannot be read" in augury("run", "shop.bicepl", "--store", "x", "--settings", "no.toml", code=2)[1]
    Path("bad.bicepl").write_text("SET CHRONON;")
    augury("run", "bad.bicepl", "--store", "store.db", code=1)
