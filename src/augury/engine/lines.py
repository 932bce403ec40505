"""Occurrences → the lines that a run prints, as LANGUAGE section 8 has them.

In: the versions and the occurrences of each complex class, in order of declaration. Out: JSON texts, one an event, in
order of tick, class, `seq`, key and constituents; made piece by piece, so that any number of them fits the memory.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from augury import types as t
from augury.clock import moment_of
from augury.engine.changes import changes, chronons_of
from augury.engine.ticked import Action, ClassVersions, Ticked
from augury.history.raw import json_literal, whole_json
from augury.history.versions import WITHDRAWN
from augury.kernels.batch import NO_SEQ, Batch, Occurrences
from augury.kernels.columns.column import Mask

_LINES_AT_ONCE: Final = 1 << 14
_ESCAPED: Final = r'["\\\x00-\x1f]'
"""What JSON does not take as it is."""


def lines(versions: Batch, occurrences: Sequence[Occurrences], chronon_us: int) -> Iterator[str]:
    """The lines of all classes, each without its line break."""
    ticks = [chronons_of(found, chronon_us) for found in occurrences]
    code = np.repeat(np.arange(len(occurrences)), [len(found) for found in occurrences])
    # Stable, and each class is in order by itself.
    order = np.argsort(np.concatenate([np.empty(0, np.int64), *ticks]), kind="stable")
    sources = [_lines_of(found, changes(versions, found, chronon_us)) for found in occurrences]
    for which in code[order].tolist():
        yield next(sources[which])


def _one_array(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return pa.concat_arrays(column.chunks) if isinstance(column, pa.ChunkedArray) else column


def _lines_of(found: Occurrences, changed: Mask) -> Iterator[str]:
    for start in range(0, len(found), _LINES_AT_ONCE):
        yield from _some_lines(found, changed.astype(np.uint8), slice(start, start + _LINES_AT_ONCE))


def tick_lines(ticked: Ticked) -> Iterator[str]:
    """The lines of one tick: the versions of complex events, then the actions."""
    for versions in ticked.derived:
        yield from version_lines(versions)
    for action in ticked.action_rows():
        yield action_line(action)


def version_lines(versions: ClassVersions) -> Iterator[str]:
    """The lines of versions of a complex class, in the order given."""
    for start in range(0, len(versions), _LINES_AT_ONCE):
        yield from _some_lines(versions, versions.change, slice(start, start + _LINES_AT_ONCE))


def action_line(action: Action) -> str:
    """An action as a line of JSON; what a rule did names it and its trigger."""
    row = {"action": action.name, "args": list(action.arguments), "event": action.event, "key": dict(action.key)}
    by = {} if action.trigger is None else {"trigger": action.trigger, "rule": action.rule}
    return whole_json({**row, **by, "tick": moment_of(action.tick)})


_CHANGES: Final = pa.array(["announce", "change", "withdraw"])


def _some_lines(found: Occurrences | ClassVersions, changed: npt.NDArray[np.uint8], rows: slice) -> list[str]:
    """Joined column by column, for a line is many small texts; what becomes of each event is said by a number."""
    event_class = found.event_class
    attributes = event_class.attributes
    withdrawn = pa.array(changed[rows] == WITHDRAWN)
    parts: list[pa.Array | str] = [f'{{"event": {_quoted(event_class.name)}, "change": "']
    parts.append(_CHANGES.take(pa.array(changed[rows])))
    seq = pa.array(found.seq[rows])
    numbered = pc.binary_join_element_wise('"seq": ', seq.cast(pa.string()), ", ", "")
    parts += ['", ', pc.if_else(pc.less_equal(seq, NO_SEQ), "", numbered)]
    parts += ['"occ_time": ', pc.if_else(withdrawn, "null", _times(pa.array(found.occ_time[rows])))]
    parts += [', "det_time": ', _times(pa.array(found.det_time[rows]))]
    assert found.constituents is not None, "complex events are made of others"
    seqs = _one_array(found.constituents[rows]).cast(pa.list_(pa.string()))
    parts += [', "constituents": [', pc.binary_join(seqs, ", "), "]"]
    for attribute, column in zip(attributes, found.values.columns, strict=True):
        parts += [f", {_quoted(attribute.name)}: ", json_column(column[rows], attribute.type)]
    texts: list[str] = pc.binary_join_element_wise(*parts, "}", "").to_pylist()
    return texts


def json_column(column: pa.ChunkedArray | pa.Array, of: t.Type) -> pa.Array:
    """The values of a column as JSON: decimals and whole numbers exactly, without exponent; times with `Z`."""
    values = _one_array(column)
    match of:
        case t.Timestamp():
            texts = _times(values.cast(pa.int64()))
        case t.Boolean() | t.Int() | t.BigInt():
            texts = values.cast(pa.string())
        case t.Decimal():
            texts = _by_python(values, "{:f}".format)
        case t.String() if not pc.any(pc.match_substring_regex(values, _ESCAPED)).as_py():
            texts = pc.binary_join_element_wise('"', values, '"', "")
        case t.String():
            texts = _by_python(values, _quoted)
        case _:
            texts = _by_python(values, json_literal)
    return texts.fill_null("null")


def _times(microseconds: pa.Array) -> pa.Array:
    """As `clock.show_time` has them: a fraction of six digits, or none."""
    text = microseconds.cast(pa.timestamp("us")).cast(pa.string())
    text = pc.replace_substring_regex(pc.replace_substring(text, " ", "T"), r"\.000000$", "")
    return pc.binary_join_element_wise('"', text, 'Z"', "")


def _by_python(values: pa.Array, text: Callable[[Any], str]) -> pa.Array:
    return pa.array((None if v is None else text(v) for v in values.to_pylist()), pa.string())


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
