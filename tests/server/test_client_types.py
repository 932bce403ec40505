"""Who uses the client has its types: mypy looks at a caller outside of the checkout, as a user's does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

CALLER = """
from typing import assert_type

import augury
from augury.client.told import Answer, Changes

client = augury.Client("http://127.0.0.1:8700", "token")
answer = client.notify({"event": "Order", "account": 7})
assert_type(answer, Answer)
assert_type([fired.trigger for fired in answer.firings], list[str])
assert_type(client.plan("").changes[0].name, str)
assert_type(client.put("rule", "R", ""), Changes)


@augury.event_method(before="Order")
def order(account: int) -> str:
    return str(account)


assert_type(order(7), str)
client.switch("triger", "T", False)  # wrong
order("seven")  # wrong
"""


def test_who_uses_it_has_its_types(tmp_path: Path) -> None:
    (tmp_path / "caller.py").write_text(CALLER)
    environment = {name: value for name, value in os.environ.items() if name != "MYPYPATH"}
    words = ["-m", "mypy", "--strict", "--no-error-summary", "caller.py"]
    done = subprocess.run(
        [sys.executable, *words], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    wrong = [n for n, line in enumerate(CALLER.splitlines(), 1) if line.endswith("# wrong")]
    told = done.stdout.splitlines()
    assert [line.partition(": error: Argument 1 to ")[0] for line in told] == [f"caller.py:{n}" for n in wrong], told
