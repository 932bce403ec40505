"""An engine that answers before triggers run in it: `returned` is what the test says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from augury.local.running import LocalEngine
from augury.local.transactions import refuse_notify


@dataclass
class Said:
    returned: Mapping[str, Any]


class Notifying(LocalEngine):
    answers: Mapping[str, Any] = {}

    def notify(self, event: Mapping[str, Any] | str) -> Said:
        refuse_notify(self)
        self.post(event)
        assert not isinstance(event, str)
        answer = self.answers.get(event["event"])
        return Said({} if answer is None else {"T": answer(event)})
