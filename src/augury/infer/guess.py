"""A shape → what its class may be: attributes and their types, times under foreign names, a key.

In: what the rows have shown. Out: choices, each with its reason in words, for a person to check.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from augury import types as t
from augury.event import TIME_ATTRIBUTES, key_of
from augury.infer.kinds import LEFT_OUT, Oddity
from augury.infer.shape import Column, Shape, shown

FEW_ROWS: Final = 20
"""Below that many rows values that do not repeat may be chance: said of ids, not believed of others."""

PAIR_COLUMNS_MAX: Final = 6
"""Columns tried as pairs: 15 pairs take no time."""

_KEY_TEXT_MAX: Final = 40
_OWN_REPEATS: Final = 10
_OTHER_REPEATS: Final = 2
_EPOCH_SECONDS = (100_000_000, 10_000_000_000)
_OCC_NAMES = (
    *(
        "occtime",
        "occurredat",
        "occurrencetime",
        "happenedat",
        "eventtime",
        "eventtimestamp",
        "eventdatetime",
    ),
    *("timestamp", "ts", "time", "datetime", "createdat", "created", "createdon", "createtime"),
    *("eventdate", "date"),
)
_DET_NAMES = (
    *("dettime", "detectedat", "detectiontime", "receivedat", "receivetime", "ingestedat", "ingesttime"),
    *("ingestiontime", "arrivedat", "arrivaltime", "recordedat", "insertedat", "loadedat", "processingtime"),
)
_ID_WORDS = frozenset(
    ("id", "uuid", "guid", "key", "pk", "identifier", "number", "num", "no", "nr", "ref", "reference")
)
_PLACE_WORDS = frozenset(("line", "position", "pos", "item", "step", "index", "part", "leg"))


@dataclass(frozen=True, slots=True)
class Chosen:
    """An attribute of the draft, and the column that it is."""

    name: str
    type: t.Type
    column: Column


@dataclass(frozen=True, slots=True)
class Mapped:
    """A column that stands for a time, or for an attribute of another name."""

    foreign: str
    name: str


@dataclass(frozen=True, slots=True)
class Key:
    """What identifies an event, whether later versions replace it, and why that is thought."""

    names: tuple[str, ...]
    mutable: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Guess:
    """Everything a class declaration needs."""

    attributes: tuple[Chosen, ...]
    mappings: tuple[Mapped, ...]
    key: Key
    notes: tuple[str, ...]


def guess(shape: Shape) -> Guess:
    """Choose the attributes, times and key of a class."""
    notes: list[str] = []
    times = _times(shape, notes)
    attributes, renamed = _attributes(shape, {m.foreign for m in times}, notes)
    return Guess(tuple(attributes), (*times, *renamed), _key(shape, attributes), tuple(dict.fromkeys(notes)))


# ---- attributes ------------------------------------------------------------------------------------------


def _attributes(shape: Shape, taken: set[str], notes: list[str]) -> tuple[list[Chosen], list[Mapped]]:
    chosen: list[Chosen] = []
    renamed: list[Mapped] = []
    used: dict[str, str] = {}
    for column in shape.columns.values():
        if column.name in taken:
            continue
        if reason := _unusable(column):
            notes.append(f"`{shown(column.name)}` is left out: {reason}.")
            continue
        name = column.name
        if (before := used.get(key_of(name))) is not None:
            name = _free(name, {*used, *(key_of(other) for other in shape.columns)})
            renamed.append(Mapped(column.name, name))
            notes.append(f"`{column.name}` differs from `{before}` in case only, so it is called `{name}`.")
        used[key_of(name)] = name
        chosen.append(Chosen(name, _type(column, shape, notes), column))
    for role in sorted(shape.reserved & {"seq", "change", "constituents"}):
        notes.append(f"`{role}` is left out: the name is reserved. Rename the field if it is an attribute.")
    return chosen, renamed


def _unusable(column: Column) -> str:
    if not column.name:
        return "the column has no name"
    if "\n" in column.name or not _can_be_written(column.name):
        return "its name cannot be written"
    if key_of(column.name) in TIME_ATTRIBUTES:
        return "every event has that time; see occ_time and det_time"
    odd = [kind for kind in column.kinds if kind in LEFT_OUT]
    if odd:
        also = " besides plain values" if len(odd) < len(column.kinds) else ""
        return f"it holds {odd[0]}{also}"
    return ""


def _can_be_written(name: str) -> bool:
    return name.isprintable() or name.replace("\t", "").isprintable()


def _free(name: str, used: set[str]) -> str:
    return next(free for n in itertools.count(2) if key_of(free := f"{name}_{n}") not in used)


def _type(column: Column, shape: Shape, notes: list[str]) -> t.Type:
    """The type of a column; what is doubtful about it goes into the notes."""
    name, kinds = f"`{column.name}`", column.kinds
    found = column.type()
    if found is None:
        seen = [f"{_called(kind)} (`{example.value}`, {example.place})" for kind, example in kinds.items()]
        notes.append(f"{name} is STRING, for it mixes {_listed(seen[:3])}.")
        return t.STRING
    if isinstance(found, t.Null):
        notes.append(f"{name} is STRING for want of a value: it is always empty.")
        return t.STRING
    if Oddity.LEADING_ZEROS in kinds:
        example = kinds[Oddity.LEADING_ZEROS]
        notes.append(f"{name} is STRING, for a number would lose the leading zeros of `{example.value}`.")
    if Oddity.NOT_FINITE in kinds:
        place = kinds[Oddity.NOT_FINITE].place
        notes.append(f"{name} holds NaN or Infinity ({place}), which JSON does not have.")
    if isinstance(found, t.Double) and len(kinds) > 1 and column.rounded_by_double():
        notes.append(f"{name} is DOUBLE, which rounds its largest whole numbers; NUMERIC would keep them.")
    if isinstance(found, t.Timestamp) and t.DATE in kinds:
        notes.append(f"{name} is TIMESTAMP; where it holds a date, that means its midnight in UTC.")
    return found


def _called(kind: t.Type | Oddity) -> str:
    return str(kind) if not isinstance(kind, t.String) else "text"


def _listed(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


# ---- times -----------------------------------------------------------------------------------------------


def _times(shape: Shape, notes: list[str]) -> list[Mapped]:
    """Which columns stand for occ_time and det_time, where the data has no fields of these names."""
    mappings: list[Mapped] = []
    if shape.withdrawals and not shape.with_occ_time:
        notes.append("occ_time is null in every row: an event that never was cannot be withdrawn.")
    for role, names in (("occ_time", _OCC_NAMES), ("det_time", _DET_NAMES)):
        if role in shape.reserved:
            continue
        ranked = [c for name in names for c in shape.columns.values() if _plain(c.name) == name]
        found = next((c for c in ranked if _can_be_time(shape, c, role, notes)), None)
        if found:
            mappings.append(Mapped(found.name, role))
            notes.append(f"`{found.name}` is taken for {role} by its name{_missing(shape, found)}.")
    if not mappings and not shape.reserved & {"occ_time", "det_time"} and shape.rows:
        moments = [c for c in shape.columns.values() if isinstance(c.type(), t.Timestamp)]
        found = next((c for c in moments if _can_be_time(shape, c, "occ_time", notes)), None)
        if found:
            mappings.append(Mapped(found.name, "occ_time"))
            missing = _missing(shape, found)
            notes.append(f"`{found.name}` is taken for occ_time, for want of a better one{missing}.")
        else:
            notes.append("No field tells the time: a replay refuses events with neither occ_time nor det_time.")
    return mappings


def _missing(shape: Shape, column: Column) -> str:
    return f"; it is missing in {_rows(shape.rows - column.present)}" if column.present < shape.rows else ""


def _can_be_time(shape: Shape, column: Column, role: str, notes: list[str]) -> bool:
    if not column.name or not _can_be_written(column.name) or "\n" in column.name:
        return False
    if not column.present:
        return not shape.rows and isinstance(column.type(), t.Timestamp | t.Date)
    if column.times == column.present:
        if not column.nulls:
            return True
        effect = "which would withdraw events" if role == "occ_time" else "which is no time"
        notes.append(f"`{column.name}` could be {role}, but it is empty in some rows, {effect}.")
        return False
    numbers = all(isinstance(kind, t.Int | t.BigInt | t.Double) for kind in column.kinds)
    if not numbers or column.low is None or column.high is None or column.nulls:
        return False
    seconds = _EPOCH_SECONDS[0] <= column.low and column.high < _EPOCH_SECONDS[1]
    if not seconds:
        for unit, factor in (("milliseconds", 1e3), ("microseconds", 1e6), ("nanoseconds", 1e9)):
            if _EPOCH_SECONDS[0] * factor <= column.low and column.high < _EPOCH_SECONDS[1] * factor:
                notes.append(f"`{column.name}` could be {role}, but counts {unit}: write seconds or ISO-8601.")
    return seconds


def _plain(name: str) -> str:
    return "".join(ch for ch in name.casefold() if ch.isalnum())


# ---- the key ---------------------------------------------------------------------------------------------


def _key(shape: Shape, attributes: Sequence[Chosen]) -> Key:
    """The first of the rules below that finds a key."""
    own_names = _own_names(shape.name)
    usable = [a for a in attributes if _can_be_key(a.type)]
    own = [a for a in usable if _is_own(a.name, own_names)]
    ids = [*own, *(a for a in usable if a not in own and _ends_in(a.name, _ID_WORDS))]
    places = [a for a in usable if _ends_in(a.name, _PLACE_WORDS)]
    days = [a for a in usable if isinstance(a.type, t.Date)]
    if shape.withdrawals and shape.with_occ_time:
        return _key_of_withdrawn(shape, usable, ids)
    if not shape.versions:
        return Key((), False, "Key: none, for there are no rows to tell from.")
    return (
        _unique(shape, own if shape.versions == 1 else ids)
        or _unique_pair(shape, ids, places)
        or _repeating(shape, own, _OWN_REPEATS)
        or _unique_pair(shape, ids, [*ids, *days])
        or _repeating(shape, ids, _OTHER_REPEATS)
        or _unique_by_value(shape, usable)
        or _none(shape, ids)
    )


def _can_be_key(type_: t.Type) -> bool:
    match type_:
        case t.String() | t.Int() | t.BigInt() | t.Date():
            return True
        case t.Decimal(scale=scale):
            return scale == 0
        case _:
            return False


def _key_of_withdrawn(shape: Shape, usable: Sequence[Chosen], ids: Sequence[Chosen]) -> Key:
    """A withdrawal names at least the key of what it withdraws."""
    withdrawals = f"{_counted(shape.withdrawals, 'withdrawal')} (occ_time is null)"
    withdrawn = [a for a in usable if a.column.name in shape.withdrawn_with]
    always = [a for a in withdrawn if shape.values(a.column) is not None]
    chosen = [a for a in ids if a in always][:1] or always
    if 1 <= len(chosen) <= 2:
        named = _listed([f"`{a.name}`" for a in chosen])
        reason = f"Key: every row names {named}, among them {withdrawals}."
        return Key(tuple(a.name for a in chosen), True, reason)
    reason = f"Key: none found, but {withdrawals} cannot do without: write MUTABLE and fill in ID."
    return Key((), False, reason)


def _unique(shape: Shape, candidates: Iterable[Chosen]) -> Key | None:
    for a in candidates:
        values = shape.values(a.column)
        if values is not None and len(set(values)) == len(values):
            doubt = "" if len(values) >= FEW_ROWS else ", but there are few"
            reason = f"Key: `{a.name}` is different in all {_rows(shape.versions)}{doubt}."
            return Key((a.name,), False, reason)
    return None


def _unique_pair(shape: Shape, firsts: Sequence[Chosen], seconds: Sequence[Chosen]) -> Key | None:
    if shape.versions < 2:
        return None
    tried: set[frozenset[str]] = set()
    for a, b in itertools.product(firsts[:PAIR_COLUMNS_MAX], seconds[:PAIR_COLUMNS_MAX]):
        if a is b or frozenset((a.name, b.name)) in tried:
            continue
        tried.add(frozenset((a.name, b.name)))
        left, right = shape.values(a.column), shape.values(b.column)
        if left is None or right is None:
            continue
        if len(set(zip(left, right, strict=True))) == shape.versions:
            reason = f"Key: `{a.name}` and `{b.name}` together are different in all {_rows(shape.versions)}."
            return Key((a.name, b.name), False, reason)
    return None


def _repeating(shape: Shape, candidates: Iterable[Chosen], repeats_max: int) -> Key | None:
    """An id that comes again with a later row; one that comes again and again says to what a row belongs."""
    for a in candidates:
        values = shape.values(a.column)
        if values is None:
            continue
        different = len(set(values))
        if different * repeats_max < len(values) or (different == 1 and repeats_max == _OTHER_REPEATS):
            continue
        counts = f"{_counted(different, 'value')} in {_rows(len(values))}"
        reason = f"Key: `{a.name}` comes again ({counts}), so a later row replaces the earlier one."
        return Key((a.name,), True, reason)
    return None


def _unique_by_value(shape: Shape, usable: Sequence[Chosen]) -> Key | None:
    """A short text that never repeats, or a serial number, whatever it is called."""
    if shape.versions < FEW_ROWS:
        return None
    texts = [a for a in usable if isinstance(a.type, t.String) and a.column.longest <= _KEY_TEXT_MAX]
    numbers = [a for a in usable if isinstance(a.type, t.Int | t.BigInt)]
    serial = [a for a in numbers if _rises(shape.values(a.column))]
    return _unique(shape, [a for a in usable if a in texts or a in serial])


def _rises(values: Sequence[int] | None) -> bool:
    return values is not None and all(x < y for x, y in itertools.pairwise(values))


def _none(shape: Shape, ids: Sequence[Chosen]) -> Key:
    reason = "Key: none found, so each row is an event of its own."
    complete = next((a for a in ids if shape.values(a.column) is not None), None)
    if complete:
        reason += f" If `{complete.name}` is one and later rows replace earlier ones, write MUTABLE and ID."
    return Key((), False, reason)


def _rows(count: int) -> str:
    return _counted(count, "row")


def _counted(count: int, noun: str) -> str:
    return f"1 {noun}" if count == 1 else f"{count:,} {noun}s"


def _words(name: str) -> list[str]:
    """The words of `orderId`, `order_id`, `OrderID`, in lower case."""
    return [w.casefold() for w in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[^\W\d_A-Z]+|[^\W\d_]+", name)]


def _ends_in(name: str, endings: frozenset[str]) -> bool:
    words = _words(name)
    return bool(words) and words[-1] in endings


def _own_names(class_name: str) -> set[str]:
    whole = "".join(_words(class_name))
    names = {whole, whole.removesuffix("s"), whole.removesuffix("es"), whole.removesuffix("ies") + "y"}
    last = _words(class_name)[-1:]
    return (names | {last[0], last[0].removesuffix("s")} if last else names) - {""}


def _is_own(name: str, own_names: set[str]) -> bool:
    words = _words(name)
    plain = "".join(words)
    if len(words) == 1 and plain in _ID_WORDS:
        return True
    if len(words) > 1 and words[-1] in _ID_WORDS:
        return "".join(words[:-1]) in own_names
    return any(plain == own + ending for own in own_names for ending in ("id", "no", "nr", "key"))
