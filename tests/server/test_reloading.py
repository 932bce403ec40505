"""Python code of rules and actions, loaded from modules and entry points, and loaded again while a server runs."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from augury.actions import python
from augury.actions.python import NoFunction
from augury.actions.settings import ActionSettings
from augury.api import compile
from augury.server.functions import RuleFunctions
from augury.server.tokens import Role, add_token
from tests.server.asking import JSON
from tests.server.conftest import Serve

SHOP = """
SET CHRONON 1s;
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Ordered (account INT) ID () LIFESPAN (1d)
  ON ANNOUNCEMENT DO inform(NEW.account), note(NEW.account), mark(NEW.account);
RULE Price (account INT) ACTION price(account);
TRIGGER Order (account INT) TRIGGEREVENT Ordered RULESTRUC Price(account) RETURNS INT : Price;
BIND inform TO PYTHON 'shop_code:inform';
BIND note TO PYTHON 'shop_code:note';
BIND price TO PYTHON 'shop_code:price';
"""
CODE = """
import augury

def told(*words):
    with open("told.txt", "a") as file:
        print(*words, file=file)

async def inform(account):
    told("inform", account, "{which}")

def note(account, delivery):
    told("note", account, "{which}")

@augury.action("mark")
def mark(account):
    told("mark", account, "{which}")

def price(account):
    return {price}
"""


def test_a_server_loads_the_code_of_rules_and_of_executors_again(tmp_path: Path, serve: Serve) -> None:
    (tmp_path / "shop_code.py").write_text(CODE.format(which="old", price=1))
    (tmp_path / "augury.toml").write_text('[actions]\nmodules = ["shop_code"]\n')
    token = add_token(tmp_path / "a.db.tokens", "owner", (Role.ADMIN,))
    server = serve(SHOP, "--act")

    def ordered(account: int) -> object:
        event = f'{{"event": "Ordered", "account": {account}}}'
        return server.ask("POST", "/v1/events?wait=read", event, JSON, token).json["returned"]

    def told(account: int) -> list[str]:
        over = time.monotonic() + 30
        while True:
            text = (tmp_path / "told.txt").read_text() if (tmp_path / "told.txt").exists() else ""
            found = sorted(line for line in text.splitlines() if line.split()[1] == str(account))
            if len(found) == 3:
                return found
            assert time.monotonic() < over, text
            time.sleep(0.05)

    assert ordered(1) == {"Order": 1}
    assert told(1) == ["inform 1 old", "mark 1 old", "note 1 old"]
    (tmp_path / "shop_code.py").write_text(CODE.format(which="renewed", price=22))
    assert server.ask("POST", "/v1/functions/reload", token=token).json == {"modules": ["shop_code"]}
    assert ordered(2) == {"Order": 22}
    assert told(2) == ["inform 2 renewed", "mark 2 renewed", "note 2 renewed"]
    for wrong in (CODE.format(which="wrong", price=3) + "\nraise OSError('no')", "async def price(account): ..."):
        (tmp_path / "shop_code.py").write_text(wrong)
        assert server.ask("POST", "/v1/functions/reload", token=token).status == 422
    assert ordered(3) == {"Order": 22}
    assert told(3) == ["inform 3 renewed", "mark 3 renewed", "note 3 renewed"], "a mistake changes nothing"


def test_what_entry_points_name_is_loaded_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    about = tmp_path / "shop-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: shop\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[augury.actions]\nprice = shop_entry:price\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(python, "_REGISTERED", {})
    monkeypatch.setattr("sys.dont_write_bytecode", True)  # two texts within a second would be taken for one
    monkeypatch.delitem(sys.modules, "shop_entry", raising=False)
    code = tmp_path / "shop_entry.py"
    code.write_text("def price(account):\n    return 1\n")
    program = compile(SHOP.partition("BIND")[0])
    functions = RuleFunctions(program, ActionSettings())
    price = functions.by_action()["price"]
    assert price(7) == 1
    code.write_text("def price(account):\n    return 22\n")
    assert functions.reload() == ["shop_entry"]
    assert price(7) == 22
    code.write_text("async def price(account):\n    return 333\n")
    with pytest.raises(NoFunction, match="called by rules at once"):
        functions.reload()
    assert price(7) == 22
