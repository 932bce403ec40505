"""Which event_ids the ticks of a run have read: for a replay, and for one step of a stream.

In: what ticks did. Out: the answers that `engine.ports.KnownVersions` asks for. It keeps them in memory only.
"""

from __future__ import annotations

from collections.abc import Sequence

from augury.engine.ticked import Ticked
from augury.event import EventClass, key_of


class KnownIds:
    """The ids of the versions that ticks have read, where there is no store to ask."""

    def __init__(self) -> None:
        """No version was read yet."""
        self._ids: dict[str, set[str]] = {}

    def note(self, ticked: Ticked) -> None:
        """Remember the ids of what a tick has read."""
        for versions in ticked.read:
            if versions.event_id is not None:
                ids = self._ids.setdefault(key_of(versions.event_class.name), set())
                ids.update(versions.event_id.drop_null().to_pylist())

    def known_ids(self, event_class: EventClass, event_ids: Sequence[str]) -> set[str]:
        """Those of the ids that a version of this class has."""
        return self._ids.get(key_of(event_class.name), set()).intersection(event_ids)
