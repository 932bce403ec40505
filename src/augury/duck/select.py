"""SELECT classes in process: a plan → SQL for DuckDB → rows → the one that counts of each key → what changed.

In: plans, and as-of-now views as Arrow tables. Out: rows as Arrow columns. It knows neither ticks nor where views
come from. What DuckDB means otherwise than Spark is dealt with in `augury.duck.sql`; docs/select.md lists it.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

import duckdb
import numpy as np
import pyarrow as pa
import sqlglot

from augury import limits
from augury import types as t
from augury.algebra.select import NOW_PARAMETER, SelectPlan
from augury.duck.sql.functions import Function
from augury.duck.sql.kinds import SqlType, Untranslatable, duck_type
from augury.duck.sql.queries import MADE, ROW, Translator, view_columns, view_name
from augury.duck.sql.values import Value, converted
from augury.engine.ports import SelectFailed
from augury.engine.rows import Changes, Keyed, Made, Rows, changes, keyed
from augury.engine.select_rows import rows_in
from augury.event import EventClass, key_of

__all__ = [
    "Changes", "Duck", "Keyed", "Made", "Rows", "SelectFailed", "Translated", "Untranslatable", "changes",
    "evaluated", "keyed", "translated",
]  # fmt: skip

OCC_TIME: Final = "occ_time"


@dataclass(frozen=True, slots=True)
class Translated:
    """A SELECT for DuckDB: text, functions of ours that it calls, the views it reads, the class it feeds.

    `kinds` are the types that Spark gives the columns of the SELECT, the occurrence time last.
    """

    event_class: EventClass
    sql: str
    functions: tuple[Function, ...]
    views: tuple[EventClass, ...]
    kinds: tuple[SqlType, ...]
    traced: bool
    uses_now: bool

    def __str__(self) -> str:
        """The text, and what it needs."""
        called = ", ".join(function.name for function in self.functions) or "none"
        return f"{self.sql}\n-- reads {', '.join(v.name for v in self.views) or 'nothing'}; functions: {called}"


def translated(plan: SelectPlan, classes: Iterable[EventClass], *, gathers: bool = False) -> Translated:
    """The SQL that DuckDB runs for a plan; `Untranslatable` says what it cannot. `classes` are those of the program.

    `gathers`: rows that are not traced, of aggregates and the like, are so all the same, to every row that went in.
    """
    by_key = {key_of(one.name): one for one in classes}
    event_class = by_key[key_of(plan.event_class)]
    tree = sqlglot.parse_one(_with_backslashes(plan.timed_sql), read="spark")
    translator = Translator(by_key, plan.reads, gathers)
    try:
        query = translator.query(tree, {}, None, traced=plan.traced or gathers)
    except RecursionError:
        raise Untranslatable("this SELECT is nested too deep") from None
    fed = {key_of(c.attribute): i for i, c in enumerate(plan.columns) if c.attribute is not None}
    shown = []
    for number, attribute in enumerate(event_class.attributes):
        column = fed[key_of(attribute.name)]
        value = Value(f"rows_.{query.names[column]}", query.types[column])
        shown.append(f"{_stored(value, attribute.type, translator)} AS a{number}")
    time = converted(Value(f"rows_.{query.names[-1]}", query.types[-1]), t.TIMESTAMP, translator.functions)
    shown.append(f"epoch_us({time.sql}) AS {OCC_TIME}")
    shown += [f"rows_.{MADE}"] if query.made else []
    hoisted = f"WITH {', '.join(translator.hoisted)} " if translator.hoisted else ""
    sql = f"{hoisted}SELECT {', '.join(shown)} FROM ({query.sql}) AS rows_"
    if len(sql) > limits.PROGRAM_CHARACTERS_MAX:
        raise Untranslatable("this SELECT grows too long for DuckDB")
    uses_now = f"${NOW_PARAMETER}" in sql
    views = tuple(by_key[key_of(name)] for name in plan.reads)
    functions = tuple(translator.functions.found.values())
    return Translated(event_class, sql, functions, views, query.types, query.made, uses_now)


_STRING: Final = re.compile(
    r"""`(?:[^`]|``)*` | \b[rR](?:'[^']*'|"[^"]*") | '(?:[^'\\]|\\.|'')*' | "(?:[^"\\]|\\.|"")*" """,
    re.DOTALL | re.VERBOSE,
)


def _with_backslashes(sql: str) -> str:
    """The SQL with a doubled quote in a string written with a backslash: sqlglot would take it for two strings."""

    def mended(found: re.Match[str]) -> str:
        text = found[0]
        quote = text[0]
        if quote not in ("'", '"'):
            return text
        pieces = re.findall(rf"\\.|{quote}{quote}|.", text[1:-1], re.DOTALL)
        return quote + "".join("\\" + quote if piece == quote * 2 else piece for piece in pieces) + quote

    return _STRING.sub(mended, sql)


def _stored(value: Value, target: t.Type, translator: Translator) -> str:
    """The value as an attribute takes it; VARCHAR(n) takes n letters."""
    found = converted(value, t.STRING if isinstance(target, t.String) else target, translator.functions)
    cut = isinstance(target, t.String) and target.max_length is not None and value.type != target
    return f"substring({found.sql}, 1, {target.max_length})" if cut and isinstance(target, t.String) else found.sql


# ---- running ----------------------------------------------------------------------------------------

_SETTINGS: Final = {
    "threads": "1",  # sums of DOUBLEs depend on the order of rows
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "python_enable_replacements": "false",
    "ieee_floating_point_ops": "false",  # a division by zero fails
    "TimeZone": "UTC",
}


@dataclass(slots=True, weakref_slot=True)
class Duck:
    """DuckDB in process: one connection, reused; it reaches neither files nor the network. One thread at a time."""

    connection: Any = field(init=False, repr=False)
    known: set[str] = field(init=False, default_factory=set, repr=False)
    loaded: dict[str, pa.Table] = field(init=False, default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        """Connect, and lock the settings."""
        self.connection = duckdb.connect(":memory:")
        for name, value in _SETTINGS.items():
            self.connection.execute(f"SET {name} = '{value}'")
        self.connection.execute("SET lock_configuration = true")
        weakref.finalize(self, self.connection.close)

    def query(self, made: Translated, views: Mapping[str, pa.Table], now_us: int) -> pa.Table:
        """The result as DuckDB gives it."""
        for function in made.functions:
            self._know(function)
        for view in made.views:
            self._load(view, views[view.name])
        parameters = {NOW_PARAMETER: now_us} if made.uses_now else None
        try:
            return self.connection.sql(made.sql, params=parameters).to_arrow_table()
        except duckdb.Error as error:
            raise SelectFailed(_readable(str(error))) from None

    def _know(self, function: Function) -> None:
        if function.name in self.known:
            return
        # Asked of the module, types would come from a second DuckDB, started for them.
        kinds = [self.connection.sqltype(duck_type(kind)) for kind in function.operands]
        result = self.connection.sqltype(duck_type(function.result))
        self.connection.create_function(
            function.name, _of_arity(function), kinds, result, type="arrow", null_handling="special"
        )
        self.known.add(function.name)

    def _load(self, event_class: EventClass, table: pa.Table) -> None:
        """A copy of the view in DuckDB: filters over Arrow tables would be Arrow's, which has other NaNs."""
        name = view_name(event_class)
        if self.loaded.get(name) is table:
            return
        names = [stored for _, stored, _ in view_columns(event_class)]
        columns = [_without_zone(column) for column in table.columns]
        if len(columns) == len(names):
            columns.append(pa.chunked_array([np.arange(table.num_rows, dtype=np.int64)]))
        self.connection.register("given_", pa.table(columns, names=[*names, ROW]))
        try:
            self.connection.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS SELECT * FROM given_")
        finally:
            self.connection.unregister("given_")
        self.loaded[name] = table


def _of_arity(function: Function) -> Any:
    """The function with as many parameters as DuckDB has to see."""
    return (lambda a: function(a)) if len(function.operands) == 1 else (lambda a, b: function(a, b))


@cache
def _shared() -> Duck:
    return Duck()


def _without_zone(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column.cast(pa.timestamp("us")) if pa.types.is_timestamp(column.type) else column


def _readable(message: str) -> str:
    """What DuckDB says, without its own names, advice and the text of the query."""
    first = re.sub(r"^.*?UDF: \w+: ", "", message.strip().splitlines()[0])
    first = re.sub(r"^[A-Z][A-Za-z ]* Error: ", "", first)
    return re.split(r"\. (?=Use |You |Note)| in expression |!? when casting from ", first)[0].rstrip("!. ")


def evaluated(made: Translated, views: Mapping[str, pa.Table], now_us: int, duck: Duck | None = None) -> Rows:
    """The rows of a SELECT over as-of-now views, by class name; raises `SelectFailed` where it fails at run time.

    A view has the declared attributes, occ_time, det_time and perhaps one column more, the number of each row.
    """
    found = (duck or _shared()).query(made, views, now_us)
    return rows_in(found, made.event_class, len(made.views) if made.traced else None)
