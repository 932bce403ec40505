"""A detector in Python as a source of Spark: a function that is asked again and again what is new.

In: `poll(position) -> (events, new position)`. Out: a streaming frame of `LINES`. The events of a batch are part of the
offset that Spark writes down before it runs the batch: a batch that is run again is the very same, though the detector
is not asked again. For the same reason it is meant for few events: thousands a poll, not millions.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any, Final, TypeAlias

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader
from pyspark.sql.types import StructType

from augury.history.raw import whole_json
from augury.spark.sources_lines import LINES, SourceError

Position: TypeAlias = dict[str, Any]
Poll: TypeAlias = Callable[[Position], tuple[Sequence[Mapping[str, object]], Position]]

_NUMBERS: Final = count(1)
"""Sources are registered by name, and every detector has one of its own."""


def detector(
    spark: SparkSession,
    poll: Poll,
    *,
    start: Mapping[str, Any] | None = None,
    every: float = 1.0,
    name: str = "detector",
    event: str | None = None,
) -> DataFrame:
    """A stream of what a function finds: `poll(position)` gives the events since then, and the position after them.

    The first position is `start` ({}); positions are JSON, and kept by Spark's checkpoint. The function is asked at
    most once in `every` seconds, in a process of its own: what it needs it has to import or to open by itself. Events
    are mappings as in JSON Lines; `event` is the class of those that do not name theirs. An exception ends the query,
    and the next start goes on at the last position.
    """
    if every < 0:
        raise SourceError(f"a detector is asked every {every} seconds: say a number that is not negative")
    if not callable(poll):
        raise SourceError(f"a detector is a function poll(position) -> (events, position), not {type(poll).__name__}")
    first = dict(start or {})
    format_ = f"augury_detector_{next(_NUMBERS)}"

    class Detector(DataSource):
        """The source of this one function."""

        @classmethod
        def name(cls) -> str:
            return format_

        def schema(self) -> str:
            return LINES

        def simpleStreamReader(self, schema: StructType) -> SimpleDataSourceStreamReader:
            return _Polling(poll, first, every, name, event)

    spark.dataSource.register(Detector)
    return spark.readStream.format(format_).load()


class _Polling(SimpleDataSourceStreamReader):
    """Offsets are {count, position, lines}: how many events came before and with this batch, where the detector is
    now, and the events of the batch that ends here."""

    def __init__(self, poll: Poll, start: Position, every: float, name: str, event: str | None) -> None:
        self._poll, self._start, self._every, self._name, self._event = poll, start, every, name, event
        self._asked_at = float("-inf")

    def initialOffset(self) -> Position:
        return {"count": 0, "position": self._start, "lines": []}

    def read(self, start: Position) -> tuple[Iterator[tuple[Any, ...]], Position]:
        waiting = self._asked_at + self._every - time.monotonic()
        if waiting > 0:
            return iter([]), start
        self._asked_at = time.monotonic()
        events, position = self._poll(json.loads(json.dumps(start["position"])))
        lines = [whole_json(event) for event in events]
        if not lines and position == start["position"]:
            return iter([]), start
        end = {"count": start["count"] + len(lines), "position": position, "lines": lines}
        return self.readBetweenOffsets(start, end), end

    def readBetweenOffsets(self, start: Position, end: Position) -> Iterator[tuple[Any, ...]]:
        lines, before = end["lines"], end["count"] - len(end["lines"])
        # An iterator over a list can be copied, which Spark does; a generator cannot.
        return iter([(line, self._name, before + n, self._event, None) for n, line in enumerate(lines, 1)])
