"""Events of which columns alone tell which are versions: accepted and numbered by Spark expressions, not by Python.

In: a program and one data frame, whose types and NULLs decide what `history` would refuse. Out: the det_times of its
versions, for a glance at them; then the versions with their numbers, once it is known where those of each partition
begin. Why a row is refused is for the tasks of `accepting` to say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql import types as s

from augury import types as t
from augury.algebra.program import Program
from augury.event import TIME_ATTRIBUTES, ClassKind, EventClass, key_of
from augury.history.typed import DET_TIME, EVENT, EVENT_ID, OCC_TIME
from augury.kernels.batch import ASSERT
from augury.kernels.columns.spelling import INTEGER_BOUNDS, TIMESTAMP_US
from augury.spark.layout import REJECTED_COLUMNS, VERSION, Place, spark_type, value_name
from augury.spark.looks import ALIKE, US, Begin
from augury.spark.sheets import CODE, Source
from augury.spark.stage import subscribed

CAME: Final = "__came"
"""The column of Spark's own numbers of versions: where each came."""

_ROW, _KEPT = "__row", "__kept"
_DOUBTFUL: Final = {EVENT_ID, CODE, CAME, _ROW, _KEPT}
PART_BITS: Final = 33
_ROWS_OF_A_PARTITION: Final = 1 << PART_BITS
"""Spark's own numbers of rows are these times the partition, and the place in it."""

_BEGINS_MAX: Final = 20_000
"""Places where numbers begin that are told in an expression; it is read by every task, and shown with the plan."""

_FOLDED: Final = "\u00df\u017f\u1e9e\u212a\ufb00\ufb01\ufb02\ufb03\ufb04\ufb05\ufb06"
"""The letters that are no ASCII, and are written in ASCII where case does not matter."""

_WHOLE: Final = (s.ByteType, s.ShortType, s.IntegerType, s.LongType)


@dataclass(frozen=True, slots=True)
class Sure:
    """A data frame with the numbers of classes, which of its rows are versions (`fine`), and what these have.

    Where a class has a key, what is fine is a version unless others of that key stand in its way (`excepting`);
    `withdraws` are rows that would withdraw an event, and are none of those.
    """

    frame: DataFrame
    classes: tuple[EventClass, ...]
    fine: Column
    withdraws: Column
    det_us: Column
    occ_us: Column
    values: Mapping[Place, Column]

    @property
    def keyed(self) -> tuple[int, ...]:
        """The classes that have a key."""
        return tuple(code for code, event_class in enumerate(self.classes) if event_class.key)

    @property
    def glanced(self) -> DataFrame:
        """The det_time of each row that is fine; where classes have keys also what duplicates share."""
        times = f.when(self.fine, self.det_us).alias(US)
        if not self.keyed:
            return self.frame.select(times)
        alike = f.when(~self.fine, f.when(self.withdraws, f.lit(0).cast("bigint")))
        for code in (code for code in self.keyed if self.classes[code].mutable):
            values = [plain_zero(self.values[code, i], a.type) for i, a in enumerate(self.classes[code].attributes)]
            alike = alike.when(f.col(CODE) == code, f.xxhash64(f.col(CODE), self.occ_us, *values))
        return self.frame.select(times, alike.alias(ALIKE))

    def came(self) -> DataFrame:
        """The rows that are fine, each with where it came."""
        # As long as a filter asks for Spark's own numbers it stays where it is: were it to go below them to the
        # files, some of these might be left out, and partitions be others than those that were looked at.
        rows = self.frame.withColumn(_ROW, f.monotonically_increasing_id())
        return rows.where(self.fine & (f.col(_ROW) >= 0)).withColumn(CAME, f.monotonically_increasing_id())

    def numbered(
        self, begins: Mapping[int, Sequence[Begin]], positions: Sequence[str], excepted: DataFrame | None = None
    ) -> DataFrame:
        """The versions as accepting tasks give them; in each of the histories of `positions` are all of them."""
        rows, came = self.came(), CAME
        if excepted is not None:
            # What is broadcast leaves rows where they are; that numbers are asked for keeps the join below them.
            rows, came = rows.join(f.broadcast(excepted), CAME, "left_anti"), _KEPT
            rows = rows.withColumn(_KEPT, f.monotonically_increasing_id())
        seq = _seq(begins, came)
        heads = {
            "what": f.lit(VERSION).cast("tinyint"),
            "code": f.col(CODE).cast("smallint"),
            "kind": f.lit(ASSERT).cast("tinyint"),
            "seq": seq,
            "occ_time": self.occ_us,
            "det_time": self.det_us,
        }
        heads |= {name: f.lit(None).cast("string") for name in REJECTED_COLUMNS}
        heads |= {value_name(*place): column for place, column in self.values.items()}
        heads |= dict.fromkeys(positions, seq)
        return rows.select(*(column.alias(name) for name, column in heads.items()))


def tells_begins(begins: Mapping[int, Sequence[Begin]]) -> bool:
    """Whether places where numbers begin are few enough for `Sure.numbered`."""
    return (max(begins, default=0) + 1) * max(map(len, begins.values()), default=0) <= _BEGINS_MAX


def _seq(begins: Mapping[int, Sequence[Begin]], came: str) -> Column:
    """The number of a version from where it came, by the last place before it where numbers begin."""
    parts = range(max(begins, default=0) + 1)
    partition, row = f.shiftright(came, PART_BITS), f.col(came).bitwiseAND(f.lit(_ROWS_OF_A_PARTITION - 1))

    def each(level: int, told: Callable[[Begin], int]) -> Column:
        of_part = [begins.get(part, ()) for part in parts]
        texts = [f"{told(some[level])}L" if level < len(some) else "NULL" for some in of_part]
        return f.get(f.expr(f"CAST(array({', '.join(texts)}) AS array<bigint>)"), partition)

    changed = f.raise_error(f.lit("the events are others than before: give them numbers again"))
    found = f.coalesce(each(0, lambda begin: begin.seq - begin.version + 1), changed.cast("bigint"))
    for level in range(1, max(map(len, begins.values()), default=0)):
        here = each(level, lambda begin: begin.seq - begin.version + 1)
        found = f.when(row >= each(level, lambda begin: begin.version), here).otherwise(found)
    return row + found


def surely(program: Program, source: Source, frame: DataFrame, until_us: int | None) -> Sure | None:
    """A data frame whose columns alone tell which rows are versions; None where rows have to be looked at.

    They have to be where some value may not fit for other reasons than its length or range, and where some may have
    to be judged beside others because of an id.
    """
    classes, fields = subscribed(program), {key_of(field.name): field for field in frame.schema.fields}
    doubtful = program.sources or len(fields) < len(frame.columns) or not fields.keys().isdisjoint(_DOUBTFUL)
    if doubtful:
        return None
    code, times, values = _code(classes, source, fields), _times(fields), _values(classes, fields)
    if code is None or times is None or values is None:
        return None
    det_us, occ_us, known = times
    tests = [f.col(CODE).isNotNull(), known, *(_within(classes, fields))]
    tests += [(f.col(CODE) != code) | values[code, i].isNotNull() for code, i in of_keys(classes)]
    tests += [] if until_us is None else [det_us < until_us]
    fine = reduce(Column.__and__, tests)
    keyed = [number for number, event_class in enumerate(classes) if event_class.key]
    withdraws = f.col(CODE).isin(keyed) & occ_us.isNull() & det_us.isNotNull()
    return Sure(frame.withColumn(CODE, code), classes, fine, withdraws, det_us, occ_us, values)


def class_codes(event: Column, codes: Mapping[str, int], *, in_any_case: bool = True) -> Column:
    """The number of the class that each row names, as it is declared or else in any case; NULL where it names none."""
    none = f.lit(None).cast("tinyint")
    if not in_any_case:
        return _chosen(event, codes, none)
    folded = reduce(lambda text, one: f.replace(text, f.lit(one), f.lit(one.casefold())), _FOLDED, event)
    folded_codes = {key_of(name): number for name, number in codes.items()}
    return _chosen(event, codes, _chosen(f.lower(folded), folded_codes, none))


def _chosen(text: Column, numbers: Mapping[str, int], otherwise: Column) -> Column:
    tests = [(text == name, f.lit(number).cast("tinyint")) for name, number in numbers.items()]
    return reduce(lambda rest, test: f.when(*test).otherwise(rest), tests[::-1], otherwise)


def fits(there: s.DataType, declared: t.Type) -> bool:
    """Whether whatever a column holds is a value of a declared type."""
    match declared:
        case t.Int():
            return isinstance(there, _WHOLE[:3])
        case t.BigInt():
            return isinstance(there, _WHOLE)
        case t.Boolean() | t.Double() | t.String(max_length=None):
            return there == spark_type(declared)
        case _:
            return False


def named(name: str) -> Column:
    """The column of a name, whatever is in it."""
    return f.col("`" + name.replace("`", "``") + "`")


Fields = Mapping[str, s.StructField]
"""Columns by their names, in lower case."""


def _code(classes: Sequence[EventClass], source: Source, fields: Fields) -> Column | None:
    """The number of the class of each row, NULL for one that could not be posted; None where names are not plain."""
    codes = {c.name: code for code, c in enumerate(classes) if c.kind is ClassKind.SUBSCRIBED}
    own = next((code for name, code in codes.items() if key_of(name) == key_of(source.event_class or "")), None)
    default = f.lit(own).cast("tinyint")
    if EVENT not in fields:
        return None if own is None else default
    if not source.names:
        return None
    event = named(fields[EVENT].name)
    found = class_codes(event, codes)
    return found if own is None else f.when(event.isNull(), default).otherwise(found)


def _times(fields: Fields) -> tuple[Column, Column, Column] | None:
    """The det_time and occ_time of a version, and which rows have what a version needs of them."""
    there = [(TIME_ATTRIBUTES[key], field) for key, field in fields.items() if key in TIME_ATTRIBUTES]
    times = {name: named(field.name) for name, field in there if isinstance(field.dataType, s.TimestampType)}
    if not times or len(times) < len(there):
        return None
    # Where there are two, an occ_time that is NULL withdraws.
    first = times.get(OCC_TIME, times.get(DET_TIME))
    assert first is not None, "one of them is there"
    known = first.isNotNull()
    for column in times.values():
        known &= column.isNull() | f.unix_micros(column).between(*TIMESTAMP_US)
    det_time = f.coalesce(times[DET_TIME], first) if len(times) > 1 else first
    return f.unix_micros(det_time), f.unix_micros(first), known


def of_keys(classes: Sequence[EventClass]) -> Iterator[Place]:
    """The attributes that belong to keys."""
    for code, event_class in enumerate(classes):
        key = {key_of(name) for name in event_class.key}
        yield from ((code, i) for i, one in enumerate(event_class.attributes) if key_of(one.name) in key)


def plain_zero(column: Column, of: t.Type) -> Column:
    """A column in which a zero has no sign, as in a key."""
    return column + f.lit(0.0) if isinstance(of, t.Double) else column


def _attributes(classes: Sequence[EventClass], fields: Fields) -> Iterator[tuple[Place, t.Type, s.StructField | None]]:
    for code, event_class in enumerate(classes):
        for i, attribute in enumerate(event_class.attributes):
            yield (code, i), attribute.type, fields.get(key_of(attribute.name))


def _values(classes: Sequence[EventClass], fields: Fields) -> dict[Place, Column] | None:
    """The attributes of all classes; None where what a column holds may not fit, and its bounds do not tell."""
    found = {}
    for place, declared, field in _attributes(classes, fields):
        if field is None:
            found[place] = f.lit(None).cast(spark_type(declared))
        elif fits(field.dataType, declared) or _inside(field, declared) is not None:
            # What does not fit a class may be in rows of another.
            found[place] = named(field.name).try_cast(spark_type(declared))
        else:
            return None
    return found


def _within(classes: Sequence[EventClass], fields: Fields) -> Iterator[Column]:
    """What has to be true of rows of a class, or of others, for a value to fit."""
    for (code, _), declared, field in _attributes(classes, fields):
        if field is not None and not fits(field.dataType, declared):
            inside = _inside(field, declared)
            assert inside is not None, "else nothing is sure"
            yield (f.col(CODE) != code) | named(field.name).isNull() | inside


def _inside(field: s.StructField, declared: t.Type) -> Column | None:
    """Whether a value that is there fits, where bounds tell; else None."""
    column, there = named(field.name), field.dataType
    match declared:
        case t.Int() if isinstance(there, s.LongType):
            return column.between(*INTEGER_BOUNDS[t.INT])
        case t.String(max_length=int(length)) if there == s.StringType():
            return f.length(column) <= length
        case _:
            return None
