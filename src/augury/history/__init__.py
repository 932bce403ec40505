"""What was true, and when we knew: events as they come → accepted versions, and complex events among them.

To users `augury.history(path)` is a function, and this package has its name: so it can be called.
"""

import sys
from types import ModuleType
from typing import Any


class _History(ModuleType):
    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """What a lake holds: `augury.api.history`."""
        return sys.modules["augury.api"].history(*arguments, **named)


sys.modules[__name__].__class__ = _History
