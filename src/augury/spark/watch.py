"""A program over a stream of events: every micro-batch, and every due tick between them, becomes a commit of a lake.

In: a program, a streaming data frame, a folder. Out: a `Watch`, a handle over Spark's query. One micro-batch may hold
many ticks or part of one; what came in a chronon that is not over waits in the lake. Live, ticks go by the wall clock
also while all sources are silent; in a replay the clock is the data's.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event, RLock, Thread
from types import TracebackType
from typing import Any, Final, Literal, Protocol

from pyspark import StorageLevel
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.utils import is_remote

from augury.algebra.program import Program
from augury.clock import parse_duration, show_time
from augury.engine.plan import engine_plan
from augury.engine.ports import SelectsBy, require_selects_by
from augury.engine.tick import tick_at_most, tick_reading
from augury.history.values import Moment, as_microseconds
from augury.lake import Lake, LakeError, LakeFailed, Manifest, NoLake
from augury.spark import checkpoint
from augury.spark.arriving import PIECES, SAYS_WHERE, Ingest
from augury.spark.committed import CommittedFrames
from augury.spark.inherited import Compile
from augury.spark.keeping import Keeper, keeper
from augury.spark.metrics import MetricsServer
from augury.spark.selects import selects_by
from augury.spark.session import NoSpark
from augury.spark.shipped import require_shipped
from augury.spark.sinks import Sink
from augury.spark.sources_lines import SourceError
from augury.spark.sources_schema import declared, is_lines, require_fit
from augury.spark.stepping import NOTHING_TOLD, ingested, told

LOG: Final = logging.getLogger("augury")

Clock = Callable[[], int] | Literal["wall", "data"]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a watch has gone: its last commit, tick and `seq`, what it has read and given, and what waits."""

    commit: int
    last_tick: int | None
    last_seq: int
    counts: Mapping[str, int]
    lag_seconds: float | None
    seconds: float
    state_bytes: int = 0


class Beside(Protocol):
    """What goes on beside a watch, and ends with it."""

    def close(self, settle: bool = False) -> None:
        """End; with `settle` do first what can be done now."""
        ...


class Stopped(RuntimeError):
    """A micro-batch came after the watch was told to stop; the next watch takes it."""


class Watch:
    """A program at work on a stream. It stops between ticks; what is committed stays, and the next watch goes on."""

    def __init__(
        self, keeper: Keeper, stream: DataFrame, clock: Clock, sinks: Sequence[Sink], trigger: Mapping[str, Any]
    ) -> None:
        """Start; `watch` is the way in."""
        self.keeper = keeper
        self.sinks = tuple(sinks)
        self.failure: BaseException | None = None
        self.metrics: MetricsServer | None = None
        self.beside: list[Beside] = []
        self._is_finished = False
        self._clock: Callable[[], int] | None = None if clock == "data" else wall_clock if clock == "wall" else clock
        self._working = RLock()
        self._over = Event()
        self._totals: dict[str, int] = {}
        self._told = before_last(keeper.lake, keeper.manifest) if sinks else 0
        self._tell()
        self._is_pieces = stream.columns == PIECES.names
        self._query: StreamingQuery = (
            stream.writeStream.foreachBatch(self._batch)
            .option("checkpointLocation", keeper.lake.storage.full(checkpoint.FOLDER))
            .trigger(**(dict(trigger) or {"processingTime": "0 seconds"}))
            .start()
        )
        self._ticker = Thread(target=self._tick_on, name="augury ticks", daemon=True)
        if self._clock is not None:
            self._ticker.start()

    # ---- what comes ------------------------------------------------------------------------------

    def _batch(self, frame: DataFrame, batch: int) -> None:
        """One micro-batch; Spark calls again with the same number where it does not know that it was committed."""
        with self._working:
            if self._over.is_set():
                # To return would tell Spark that the batch is done.
                raise Stopped("the watch has stopped; the next one takes this batch")
            try:
                self._tell()
                self._take(frame, batch)
            except Exception as error:
                self.failure = error  # Spark tells of it in words of its own
                raise

    def _take(self, frame: DataFrame, batch: int) -> None:
        last, query = self.keeper.manifest, checkpoint.query_id(self.keeper.lake)
        if last is not None and last.query == query and last.batch is not None and batch <= last.batch:
            return
        pieces = self._pieces(frame, batch).persist(StorageLevel.MEMORY_AND_DISK)
        try:
            found = told(pieces)
            until = self._until(found.last_us)
            self._kept(self.keeper.keep(pieces, found, until, query=query, batch=batch))
        finally:
            pieces.unpersist()

    def _pieces(self, frame: DataFrame, batch: int) -> DataFrame:
        if self._is_pieces:
            return frame
        now = None if self._clock is None else self._clock()
        last = self.keeper.last_tick
        ingest = Ingest(
            self.keeper.slots, 0, "stream", None, is_lines(frame), batch + 1, read_us=now, not_before_us=last
        )
        return ingested([(frame, ingest)])

    def _until(self, last_us: int | None) -> int:
        """How far to go: live to the last full chronon, in a replay to that of the newest row that was seen."""
        chronon_us = self.keeper.program.settings.chronon_us
        seen = [us for us in (last_us, self.keeper.noted.get("last_us"), self.keeper.last_tick) if us is not None]
        now = max(seen, default=0) if self._clock is None else self._clock()
        return tick_at_most(max(now, self.keeper.last_tick or 0), chronon_us)

    def _kept(self, manifest: Manifest | None) -> None:
        if manifest is None:
            return
        for name, count in manifest.counts.items():
            self._totals[name] = count if name == "live" else self._totals.get(name, 0) + count
        self._tell()

    def _tell(self) -> None:
        """Tell the sinks of what is committed and they were not told of; where one fails it is told again later."""
        last = self.keeper.manifest
        if not self.sinks or last is None:
            return
        for commit in range(self._told + 1, last.commit + 1):
            manifest = self.keeper.lake.manifest(commit)
            if not manifest.removed:  # an upkeep says nothing new
                for sink in self.sinks:
                    sink(CommittedFrames(self.keeper.spark, self.keeper.program, self.keeper.lake, manifest))
            self._told = commit

    # ---- time that passes ------------------------------------------------------------------------

    def _tick_on(self) -> None:
        """Live: do what is due though nothing comes."""
        chronon_us = self.keeper.program.settings.chronon_us
        assert self._clock is not None
        while not self._over.wait((chronon_us - self._clock() % chronon_us) / 1_000_000):
            if not self._query.isActive:
                return  # nobody reads what comes: that nothing came would be a guess
            try:
                self.advance()
                self.failure = None
            except Exception as error:
                self.failure = error
                if isinstance(error, LakeError) and not isinstance(error, LakeFailed):
                    LOG.warning("the watch ends: %s", error)
                    self._end()
                    return
                LOG.warning("a tick could not be kept: %s; it is tried again at the next", error)

    def advance(self, until_us: int | None = None) -> Manifest | None:
        """Do what is due by a time, or by now, if anything is, though nothing came."""
        with self._working:
            self._tell()
            until = self._until(None) if until_us is None else until_us
            if self.keeper.next_due > until:
                self.keeper.last_tick = max(until, self.keeper.last_tick or 0) or None
                return None
            manifest = self.keeper.keep(None, NOTHING_TOLD, until)
            self._kept(manifest)
            return manifest

    def finish(self, until_us: int | None = None) -> None:
        """Of a replay: take all that is there, go on to a time (the tick after the last version), and stop."""
        self._raising(self._query.processAllAvailable)
        last = self.keeper.noted.get("last_us")
        chronon_us = self.keeper.program.settings.chronon_us
        if until_us is None and last is not None:
            until_us = tick_reading(last, chronon_us)
        if until_us is not None:
            self.advance(tick_at_most(until_us, chronon_us))
        self._is_finished = True
        self.stop()

    # ---- the handle ------------------------------------------------------------------------------

    @property
    def query(self) -> StreamingQuery:
        """Spark's query."""
        return self._query

    @property
    def progress(self) -> Progress:
        """How far it has gone."""
        manifest = self.keeper.manifest
        last = self.keeper.last_tick
        lag = None if last is None or self._clock is None else max(0.0, (self._clock() - last) / 1_000_000)
        if manifest is None:
            return Progress(0, last, 0, {}, lag, 0.0)
        size = sum(self.keeper.state_bytes.values())
        seconds = manifest.seconds.get("all", 0.0)
        return Progress(manifest.commit, last, manifest.last_seq, dict(self._totals), lag, seconds, size)

    def await_termination(self, timeout_seconds: float | None = None) -> bool:
        """Wait until the query ends, or for some time; whether it has ended. Raises what made it fail."""
        ended = self._raising(lambda: self._query.awaitTermination(timeout_seconds))  # type: ignore[arg-type]
        if self.failure is not None and not self._query.isActive:
            raise self.failure
        return timeout_seconds is None or bool(ended)

    def _raising(self, wait: Callable[[], bool | None]) -> bool | None:
        """Wait for the query; what made it fail is raised as it was."""
        try:
            return wait()
        except StreamingQueryException:
            if self.failure is not None:
                raise self.failure from None
            if self._over.is_set():
                return True
            raise

    def stop(self) -> None:
        """Stop between two ticks, and with it what goes on beside."""
        self._end()
        if self._ticker.is_alive():
            self._ticker.join()
        while self.beside:
            self.beside.pop().close(settle=self._is_finished)

    def _end(self) -> None:
        self._over.set()
        with self._working:
            pass  # Not within a batch: stopping a query there has overflowed the stack of the JVM.
        self._query.stop()
        if self.metrics is not None:
            self.metrics.close()
            self.metrics = None

    def __enter__(self) -> Watch:
        """The handle itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Stop."""
        self.stop()

    def __repr__(self) -> str:
        """Where it is."""
        last = self.keeper.last_tick
        return f"Watch({self.keeper.lake.path!r}, last_tick={None if last is None else show_time(last)})"


def watch(
    program: Program,
    stream: DataFrame,
    *,
    store: str | Path,
    chronon: str | None = None,
    clock: Clock = "wall",
    buckets: int | None = None,
    sinks: Sequence[Sink] = (),
    trigger: Mapping[str, Any] | None = None,
    backfill_from: Moment | None = None,
    metrics_port: int | None = None,
    selects: SelectsBy = "duckdb",
    compile: Compile | None = None,
) -> Watch:
    """Run a program over a stream, and keep everything in the folder `store`, from where a later watch goes on.

    `stream` is a streaming data frame: columns as declared with a column `event` that names the class, or lines as
    `augury.sources` makes them. `chronon` (`"5s"`) is taken instead of what the program sets. `clock` is the wall
    clock; "data" makes a replay of it. `buckets` says into how many pieces events are put by key; it is settled when
    the store is made. `sinks` are told of each commit. `trigger` is Spark's. Where the program has changed since, its
    new complex classes are derived from the history, from `backfill_from` on or from its beginning. With a
    `metrics_port` it answers Prometheus on loopback; 0 takes a free one. `selects` says who runs SELECTs: "duckdb" in
    tasks, or "spark" itself from the driver. `compile` reads the text of the program before. Before a folder is made
    it raises `CannotRun` for what no engine runs, and `SourceError` for a frame that is no stream, or with all columns
    that can never fit.
    """
    require_selects_by(selects)
    if is_remote():
        # Spark would run the function of a batch in a process of the server, where nothing of the watch is.
        help_ = "run it where Spark runs: by spark-submit, or in a session with a master"
        raise NoSpark("a watch does not run over Spark Connect", help_)
    if not stream.isStreaming:
        raise SourceError(
            "a watch is over a stream, and this frame is none: read it by readStream, or give it to detect"
        )
    spark = stream.sparkSession
    ran_by = selects_by(selects, spark, program)
    engine_plan(program)  # refuse what does not run before a folder is made
    if stream.columns != PIECES.names:
        require_fit(program, stream)
        stream = stream if is_lines(stream) else declared(program, stream, *SAYS_WHERE)
    require_shipped(spark, str(store))
    if chronon is not None:
        program = replace(program, settings=replace(program.settings, chronon_us=parse_duration(chronon)))
    lake = opened(spark, program, str(store), buckets)
    since = None if backfill_from is None else as_microseconds(backfill_from)
    checkpoint.query_id(lake)  # what is damaged is told before anything is written
    kept = keeper(spark, program, lake, backfill_from_us=since, selects=ran_by, compile=compile)
    kept.is_replay = clock == "data"
    checkpoint.go_back(lake, kept.manifest)
    started = Watch(kept, stream, clock, sinks, trigger or {})
    if metrics_port is not None:
        started.metrics = MetricsServer(lambda: started.progress, metrics_port)
    return started


def opened(spark: SparkSession, program: Program, path: str, buckets: int | None = None) -> Lake:
    """The lake of a program in a folder, made where there is none."""
    try:
        return Lake.open(path)
    except NoLake:
        count = buckets or int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
        return Lake.create(path, program_text=program.text, chronon_us=program.settings.chronon_us, buckets=count)


def before_last(lake: Lake, last: Manifest | None) -> int:
    """The commit before the last that a step made: whether sinks were told of that one nobody knows.

    An upkeep, or a program in the place of another, is committed also where sinks were not told of the one before.
    """
    commit = 0 if last is None else last.commit
    while commit > 1 and (lake.manifest(commit).removed or _generation(lake, commit) != _generation(lake, commit - 1)):
        commit -= 1
    return max(commit - 1, 0)


def _generation(lake: Lake, commit: int) -> int:
    """How many programs a lake had seen."""
    return int((lake.manifest(commit).offsets or {}).get("generation", 0))


def wall_clock() -> int:
    """Microseconds since the epoch."""
    return time.time_ns() // 1_000
