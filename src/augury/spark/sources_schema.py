"""The columns of a frame against the classes of a program: everything that can never fit, at once.

In: a program and a schema of Spark. Out: sentences for the user; none if every column can hold values of its attribute.
Whether each value fits is asked row by row, by `history.values`, whose rules about types these are.
"""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.sql import types as s

from augury import types as t
from augury.algebra.program import Program
from augury.diagnostics import closest
from augury.event import TIME_ATTRIBUTES, ClassKind, EventClass, key_of
from augury.types import with_article

_NUMBERS = (s.ByteType, s.ShortType, s.IntegerType, s.LongType, s.FloatType, s.DoubleType, s.DecimalType)
_TEXTS = (s.StringType, s.VarcharType, s.CharType)
_TIMES = (s.TimestampType, s.TimestampNTZType)


def misfits(program: Program, schema: s.StructType, *, event: str | None = None) -> list[str]:
    """What of a typed frame cannot fit the classes it may hold: all subscribed ones, or the one named by `event`."""
    columns = {key_of(field.name): field for field in reversed(schema.fields)}
    classes = [p.event_class for p in program.classes if p.event_class.kind is ClassKind.SUBSCRIBED]
    if event is not None:
        named = [c for c in classes if key_of(c.name) == key_of(event)]
        if not named:
            meant = closest(event, [c.name for c in classes])
            return [f"there is no subscribed event class `{event}`" + (f"; did you mean `{meant}`?" if meant else "")]
        classes = named
    elif "event" not in columns and len(classes) != 1:
        return ["no column `event` says of which class a row is: add one, or say event=…"]
    found: dict[str, None] = {}
    if "event" in columns and not isinstance(columns["event"].dataType, _TEXTS):
        found["the column `event` names a class, and is no STRING"] = None
    for event_class in classes:
        # Times stand in every class, and are told once.
        found |= dict.fromkeys(_of_class(program, event_class, columns))
    return list(found)


def _of_class(program: Program, event_class: EventClass, columns: dict[str, s.StructField]) -> Iterator[str]:
    pairs = [p for m in program.sources if key_of(m.event_class) == key_of(event_class.name) for p in m.columns]
    foreign = {key_of(own): name for name, own in pairs}
    for time in ("occ_time", "det_time"):
        spelled = [key for key, name in TIME_ATTRIBUTES.items() if name == time]
        names = [key_of(foreign[key]) for key in spelled if key in foreign] + spelled
        field = next((columns[name] for name in names if name in columns), None)
        if field is not None and not can_hold(field.dataType, t.TIMESTAMP):
            yield f"`{time}` is a TIMESTAMP, and the column `{field.name}` is {_shown(field.dataType)}"
    keys = {key_of(name) for name in event_class.key}
    for attribute in event_class.attributes:
        key = key_of(attribute.name)
        field = columns.get(key_of(foreign.get(key, attribute.name)), columns.get(key))
        if field is None:
            if key in keys:
                yield f"`{event_class.name}.{attribute.name}` belongs to the key, and there is no column of that name"
        elif not can_hold(field.dataType, attribute.type):
            wanted = f"`{event_class.name}.{attribute.name}` is {with_article(attribute.type)}"
            yield f"{wanted}, and the column `{field.name}` is {_shown(field.dataType)}"


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
