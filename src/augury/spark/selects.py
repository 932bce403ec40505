"""SELECTs run by Spark itself: the port that runs them as Spark SQL over live views, where there is a session.

In: a session and a program. Out: what runs its SELECTs, or why one cannot be run. Tasks have no session, so whoever
chooses this runs the engines that need it on the driver. Views and settings are those of a session of their own, so
that neither meets what a user has.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

import pyarrow as pa
from pyspark import SparkContext
from pyspark.errors import (
    AnalysisException,
    ArithmeticException,
    ArrayIndexOutOfBoundsException,
    DateTimeException,
    NumberFormatException,
    SparkRuntimeException,
)
from pyspark.logger import PySparkLogger
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as s
from pyspark.sql.utils import is_remote

from augury import types as t
from augury.algebra.program import ClassPlan, Program
from augury.algebra.select import NOW_PARAMETER, SelectPlan, quoted
from augury.clock import EPOCH
from augury.diagnostics import Findings
from augury.duck.selects import runnable
from augury.engine.plan import CannotRun
from augury.engine.ports import SelectFailed, SelectsBy, require_selects_by
from augury.engine.rows import Rows
from augury.engine.select_rows import rows_in
from augury.engine.shards import holds_select
from augury.event import EventClass, key_of
from augury.kernels.columns import arrow_type
from augury.spark.layout import spark_type
from augury.spark.tracing import Untraceable, Views, traced_sql

_SETTINGS: Final = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.caseSensitive": "false",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.parser.quotedRegexColumnNames": "false",
    "spark.sql.ansi.doubleQuotedIdentifiers": "false",
}
"""What SELECTs mean depends on these, and on those of older versions of Spark; all others are the user's."""

_OLDER: Final = "spark.sql.legacy."


@dataclass(frozen=True, slots=True)
class Prepared:
    """A SELECT for Spark: its text, with a parameter for NOW if it has one, the class it feeds and the views it reads.

    The columns are a row's attributes, as the class declares them, its time in µs and, if traced, what it is made of.
    """

    event_class: EventClass
    sql: str
    reads: tuple[EventClass, ...]
    traced: bool
    uses_now: bool


@dataclass(slots=True)
class SparkSelects:
    """Runs the SELECTs of one program, a query each; not for several threads at a time."""

    session: SparkSession
    plans: Mapping[str, Prepared]
    names: Views
    _loaded: dict[str, pa.Table] = field(default_factory=dict, repr=False)

    def rows(self, plan: ClassPlan, views: Mapping[str, pa.Table], now_us: int) -> Rows:
        """The rows of a SELECT class over views, by class name; raises `SelectFailed`."""
        made = self.plans[key_of(plan.event_class.name)]
        for view in made.reads:
            self.load(view, views[view.name])
        with _quietly():
            try:
                found = _frame(self.session, made, now_us).toArrow()
            except Exception as error:  # what a task raised comes as PySpark's, Py4J's or Connect's
                if (said := failure(error)) is None:
                    raise
                raise SelectFailed(said) from None
        return rows_in(found, made.event_class, len(made.reads) if made.traced else None)

    def load(self, event_class: EventClass, table: pa.Table) -> None:
        """Let a class be called by its name, and with numbers of rows by the name that traced SELECTs know."""
        name = event_class.name
        if self._loaded.get(name) is table:
            return
        fields = [s.StructField(attribute.name, spark_type(attribute.type)) for attribute in event_class.attributes]
        fields += [s.StructField(time, s.TimestampType()) for time in ("occ_time", "det_time")]
        schema = s.StructType([*fields, s.StructField(self.names.row, s.LongType())])
        given = table.rename_columns(schema.names)
        with _active_as_before():
            frame = self.session.createDataFrame(given, schema)
        frame.createOrReplaceTempView(quoted(self.names.numbered[key_of(name)]))
        frame.drop(self.names.row).createOrReplaceTempView(quoted(name))
        self._loaded[name] = table


def selects_by(word: SelectsBy, spark: SparkSession, program: Program) -> SparkSelects | None:
    """What runs the SELECTs of a program as Spark SQL, or None where tasks run them on DuckDB; raises `CannotRun`."""
    require_selects_by(word)
    if word == "spark" and holds_select(program, range(len(program.classes))):
        return spark_selects(spark, program)
    runnable(program)
    return None


def spark_selects(spark: SparkSession, program: Program) -> SparkSelects:
    """What runs the SELECTs of a program as Spark SQL; raises `CannotRun` for what no tick does, and Spark refuses."""
    findings = Findings()
    names = _names(program)
    classes = {key_of(plan.event_class.name): plan.event_class for plan in program.classes}
    found = SparkSelects(_session(spark), {}, names)
    plans: dict[str, Prepared] = {}
    for plan in program.classes:
        derivation, event_class = plan.derivation, plan.event_class
        if not isinstance(derivation, SelectPlan):
            continue
        made = _prepared(derivation, classes, names, found)
        if isinstance(made, Prepared):
            plans[key_of(event_class.name)] = made
            continue
        message = f"Spark does not run the SELECT of `{event_class.name}`: {made}"
        findings.error("E313", message, event_class.span, "cannot be run", helps=["write it in another way"])
    if refused := findings.sorted():
        raise CannotRun(refused)
    found.plans = plans
    return found


def _session(spark: SparkSession) -> SparkSession:
    """A session with the settings of another, as far as they do not change what a SELECT means."""
    own = spark.newSession()
    every = spark.conf.getAll.items()
    given = {name: value for name, value in every if name.startswith("spark.sql.") and not name.startswith(_OLDER)}
    for name, value in {**given, **_SETTINGS}.items():
        if own.conf.isModifiable(name):
            own.conf.set(name, value)
    return own


@contextmanager
def _active_as_before() -> Iterator[None]:
    """To make a frame makes its session the active one, and users would find this one where they look for theirs."""
    if is_remote():
        yield
        return
    python, before = SparkSession._activeSession, SparkSession.getActiveSession()
    try:
        yield
    finally:
        context = SparkContext._active_spark_context
        assert context is not None
        assert context._jvm is not None
        in_jvm = SparkSession._get_j_spark_session_class(context._jvm)
        SparkSession._activeSession = python
        if before is None:  # as of a thread that has made nothing yet
            in_jvm.clearActiveSession()
        else:
            in_jvm.setActiveSession(before._jsparkSession)


def _names(program: Program) -> Views:
    """Names for what is hidden, that nothing in the program begins with."""
    texts = [plan.derivation.timed_sql for plan in program.classes if isinstance(plan.derivation, SelectPlan)]
    texts += [a.name for plan in program.classes for a in plan.event_class.attributes]
    texts += [plan.event_class.name for plan in program.classes]
    mark = "made_"
    while any(mark in text.casefold() for text in texts):
        mark += "_"
    numbered = {key_of(p.event_class.name): f"{mark}of {p.event_class.name}" for p in program.classes}
    return Views(mark, f"{mark}row", numbered)


# ---- a plan → SQL ------------------------------------------------------------------------------------------------


def _prepared(
    plan: SelectPlan, classes: Mapping[str, EventClass], names: Views, selects: SparkSelects
) -> Prepared | str:
    """The SQL of a SELECT, which Spark has looked at, or why there is none."""
    event_class, reads = classes[key_of(plan.event_class)], tuple(classes[key_of(name)] for name in plan.reads)
    for view in reads:
        selects.load(view, _empty(view))
    try:
        text = traced_sql(plan.timed_sql, plan.reads, names) if plan.traced else plan.timed_sql
    except Untraceable as error:
        return f"what its rows are made of is not known, because of {error}"
    made, plain = (
        Prepared(event_class, stored_sql(plan, event_class, sql, names, traced), reads, traced, plan.uses_now)
        for sql, traced in ((text, plan.traced), (plan.timed_sql, False))
    )
    with _quietly():
        try:
            types = [[f.dataType for f in _frame(selects.session, one, 0).schema] for one in (plain, made)]
        except AnalysisException as error:
            return _sentence(str(error))
    assert types[1][: len(types[0])] == types[0], "hidden columns change nothing else"
    return made


def stored_sql(plan: SelectPlan, event_class: EventClass, text: str, names: Views, traced: bool) -> str:
    """A query as the class stores it: attributes by CAST, in which VARCHAR(n) takes n letters, and the time in µs."""
    columns = [quoted(f"{names.mark}c{number}") for number in range(len(plan.columns) + 1)]
    fed = {key_of(c.attribute): name for c, name in zip(plan.columns, columns, strict=False) if c.attribute is not None}
    shown = [_stored(fed[key_of(attribute.name)], attribute.type) for attribute in event_class.attributes]
    shown.append(f"unix_micros(CAST({columns[-1]} AS TIMESTAMP))")
    if traced:
        columns.append(quoted(f"{names.mark}all"))
        shown.append(columns[-1])
    listed = ", ".join(f"{value} AS {quoted(f'{names.mark}a{number}')}" for number, value in enumerate(shown))
    return f"SELECT {listed} FROM ({text}) AS {quoted(f'{names.mark}rows')}({', '.join(columns)})"


def _stored(column: str, kind: t.Type) -> str:
    cast = f"CAST({column} AS {spark_type(kind).simpleString()})"
    is_cut = isinstance(kind, t.String) and kind.max_length is not None
    return f"substring({cast}, 1, {kind.max_length})" if is_cut and isinstance(kind, t.String) else cast


def _empty(event_class: EventClass) -> pa.Table:
    kinds = [arrow_type(attribute.type) for attribute in event_class.attributes]
    kinds += [pa.timestamp("us", "UTC")] * 2 + [pa.int64()]
    return pa.table([pa.array([], kind) for kind in kinds], names=[str(i) for i in range(len(kinds))])


def _frame(session: SparkSession, made: Prepared, now_us: int) -> DataFrame:
    arguments = {NOW_PARAMETER: EPOCH + timedelta(microseconds=now_us)} if made.uses_now else None
    return session.sql(made.sql, args=arguments)


# ---- what goes wrong ---------------------------------------------------------------------------------------------

_OF_VALUES: Final = (
    ArithmeticException,
    ArrayIndexOutOfBoundsException,
    DateTimeException,
    NumberFormatException,
    SparkRuntimeException,
)
_STATE: Final = re.compile(r"\[([A-Z][A-Z0-9_.]*)\]((?:(?!\[[A-Z]|SQLSTATE).)*)SQLSTATE: (2\w{4}|P0001)", re.DOTALL)
"""What Spark says of data that a query cannot take: its name, a text, and a state of the classes 2x of the standard."""


def failure(error: Exception) -> str | None:
    """Why values made a SELECT fail, in one sentence; None if it failed for a reason that is none of theirs."""
    text = str(error)
    if found := _STATE.search(text):
        return _sentence(found[2])
    return _sentence(text) if isinstance(error, _OF_VALUES) else None


def _sentence(text: str) -> str:
    """The first sentence of what Spark says, without its names and advice."""
    first = re.sub(r"^\s*\[[A-Z0-9_.]+\]\s*", "", text).strip().splitlines()[0]
    first = re.split(r"\.(?=\s|$)| SQLSTATE:| Use [`']", first)[0]
    return " ".join(first.split()).rstrip(". ")


@contextmanager
def _quietly() -> Iterator[None]:
    """What goes wrong is raised, and told by whoever asked; Spark's own kilobytes of JSON about it are left out."""
    logger = PySparkLogger.getLogger("SQLQueryContextLogger")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(level)
