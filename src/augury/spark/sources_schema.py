"""The columns of frames against the classes of a program: everything that can never fit, at once.

In: a program and schemas of Spark. Out: sentences for the user; none if every column can hold values of its attribute;
and a frame without the columns that no class has.
Whether each value fits is asked row by row, by `history.values`, whose rules about types these are. Of a frame whose
rows may be of any class nothing is known but its columns: what only rows of some class would miss is told row by row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import types as s

from augury import types as t
from augury.algebra.program import Program
from augury.diagnostics import closest
from augury.event import RESERVED_ATTRIBUTES, TIME_ATTRIBUTES, ClassKind, EventClass, key_of
from augury.spark.sources_lines import SourceError
from augury.spark.sure import named
from augury.types import with_article

_NUMBERS = (s.ByteType, s.ShortType, s.IntegerType, s.LongType, s.FloatType, s.DoubleType, s.DecimalType)
_TEXTS = (s.StringType, s.VarcharType, s.CharType)
_TIMES = (s.TimestampType, s.TimestampNTZType)


Columns = Mapping[str, Sequence[s.StructField]]
"""Columns by their names, in any case."""


@dataclass(frozen=True, slots=True)
class _Misfit:
    """What is wrong, and with which column; a key that is missing has none."""

    column: str
    text: str


def misfits(program: Program, schema: s.StructType, *, event: str | None = None) -> list[str]:
    """What of a typed frame cannot fit the classes it may hold: all subscribed ones, or the one named by `event`."""
    columns, classes = _columns(schema), _subscribed(program)
    if event is not None:
        named = [c for c in classes if key_of(c.name) == key_of(event)]
        if not named:
            meant = closest(event, [c.name for c in classes])
            return [f"there is no subscribed event class `{event}`" + (f"; did you mean `{meant}`?" if meant else "")]
        classes = named
    elif "event" not in columns and len(classes) != 1:
        return [_NO_EVENT]
    # Times stand in every class, and are told once.
    found = [one.text for event_class in classes for one in _of_class(program, event_class, columns)]
    return list(dict.fromkeys([*_of_event(columns), *found]))


def require_fit(program: Program, events: DataFrame | Mapping[str, DataFrame]) -> None:
    """Raise `SourceError` with everything about frames of columns that no row of theirs can get around."""
    frames: list[tuple[str, str | None, DataFrame]] = (
        [(f"the frame `{name}`: ", name, frame) for name, frame in events.items()]
        if isinstance(events, Mapping)
        else [("", None, events)]
    )
    wrong = [
        f"- {where}{one}"
        for where, name, frame in frames
        if not is_lines(frame)
        for one in _never(program, frame.schema, name)
    ]
    if wrong:
        raise SourceError("\n".join(["the events do not fit the program:", *wrong]))


def declared(program: Program, frame: DataFrame, *further: str) -> DataFrame:
    """The columns that the program names, some further ones, and no others: what Python does not get costs nothing."""
    names = (RESERVED_ATTRIBUTES - {"seq", "change", "constituents"}) | TIME_ATTRIBUTES.keys() | set(further)
    names |= {key_of(foreign) for source in program.sources for foreign, _ in source.columns}
    names |= {key_of(attribute.name) for c in _subscribed(program) for attribute in c.attributes}
    kept = [name for name in frame.columns if key_of(name) in names]
    if not kept or len({key_of(name) for name in frame.columns}) < len(frame.columns):
        return frame
    return frame.select(*map(named, kept))


def is_lines(frame: DataFrame) -> bool:
    """Whether a frame has lines of JSON and where they come from, not columns."""
    return {"line", "source", "position"} <= set(frame.columns)


def _never(program: Program, schema: s.StructType, name: str | None) -> list[str]:
    """What no row of a frame can get around; `name` is the class of rows that name none."""
    columns = _columns(schema)
    if "event" not in columns:
        return [_NO_EVENT] if name is None else misfits(program, schema, event=name)
    by_class = {c.name: list(_of_class(program, c, columns)) for c in _subscribed(program)}
    found = [one for of_class in by_class.values() for one in of_class]
    if not all(by_class.values()):
        # Rows may be of the classes that fit: then a column is wrong only if it fits no class that has it.
        wrong = {c.name: {one.column for one in by_class[c.name]} for c in _subscribed(program)}
        fine = {name for c in _subscribed(program) for name in _read(program, c, columns) - wrong[c.name]}
        found = [one for one in found if one.column and one.column not in fine]
    return list(dict.fromkeys([*_of_event(columns), *(one.text for one in found)]))


# ---- a class -----------------------------------------------------------------------------------------------------

_NO_EVENT: Final = "no column `event` says of which class a row is: add one, or name the class of the whole frame"


def _columns(schema: s.StructType) -> Columns:
    found: dict[str, list[s.StructField]] = {}
    for field in schema.fields:
        found.setdefault(key_of(field.name), []).append(field)
    return found


def _subscribed(program: Program) -> list[EventClass]:
    return [p.event_class for p in program.classes if p.event_class.kind is ClassKind.SUBSCRIBED]


def _of_event(columns: Columns) -> list[str]:
    fields = columns.get("event", ())
    is_text = not fields or any(isinstance(field.dataType, (*_TEXTS, s.NullType)) for field in fields)
    return [] if is_text else ["the column `event` names a class, and is no STRING"]


def _of_class(program: Program, event_class: EventClass, columns: Columns) -> Iterator[_Misfit]:
    for time in ("occ_time", "det_time"):
        fields = _fields_of(program, event_class, time, columns)
        if fields and not any(can_hold(field.dataType, t.TIMESTAMP) for field in fields):
            name, shown = fields[0].name, _shown(fields[0].dataType)
            yield _Misfit(name, f"`{time}` is a TIMESTAMP, and the column `{name}` is {shown}")
    keys = {key_of(name) for name in event_class.key}
    for attribute in event_class.attributes:
        own = f"`{event_class.name}.{attribute.name}`"
        fields = _fields_of(program, event_class, attribute.name, columns)
        if not fields and key_of(attribute.name) in keys:
            yield _Misfit("", f"{own} belongs to the key, and there is no column of that name")
        elif fields and not any(can_hold(field.dataType, attribute.type) for field in fields):
            name, shown = fields[0].name, _shown(fields[0].dataType)
            yield _Misfit(name, f"{own} is {with_article(attribute.type)}, and the column `{name}` is {shown}")


def _read(program: Program, event_class: EventClass, columns: Columns) -> set[str]:
    """The names of the columns that rows of a class are made of."""
    names = ["occ_time", "det_time", *(attribute.name for attribute in event_class.attributes)]
    return {field.name for name in names for field in _fields_of(program, event_class, name, columns)}


def _fields_of(program: Program, event_class: EventClass, name: str, columns: Columns) -> list[s.StructField]:
    """The columns of an attribute or a time: those that SOURCE maps first, then those of its own name."""
    pairs = [p for m in program.sources if key_of(m.event_class) == key_of(event_class.name) for p in m.columns]
    spelled = [key for key, time in TIME_ATTRIBUTES.items() if time == name] or [key_of(name)]
    mapped = [key_of(foreign) for foreign, own in pairs if key_of(own) in spelled]
    return [field for key in dict.fromkeys([*mapped, *spelled]) for field in columns.get(key, ())]


def can_hold(column: s.DataType, of: t.Type) -> bool:
    """Whether some value of a column may be one of an attribute's type: nothing is cast, text is no number."""
    if isinstance(column, s.NullType):
        return True
    match of:
        case t.Boolean():
            return isinstance(column, s.BooleanType)
        case t.Int() | t.BigInt() | t.Double() | t.Decimal():
            return isinstance(column, _NUMBERS)
        case t.String():
            return isinstance(column, _TEXTS)
        case t.Timestamp():
            return isinstance(column, (*_TIMES, s.DateType, *_TEXTS, *_NUMBERS))
        case t.Date():
            return isinstance(column, (*_TIMES, s.DateType, *_TEXTS))
        case t.Duration() | t.Null():
            raise AssertionError(f"no attribute is a {of}")


def _shown(column: s.DataType) -> str:
    name = column.simpleString().upper()
    return f"{'an' if name[0] in 'AEIO' else 'a'} {name if len(name) <= 40 else name.split('<')[0]}"
