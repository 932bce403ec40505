"""String operators over columns.

In: Arrow string columns, and parameters as columns. Out: Arrow columns, NULL where an operand is.
Arrow's kernels take one pattern or position for a whole array, so rows are grouped by theirs.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from augury.kernels.columns.column import missing

Kernel = Callable[..., pa.Array]


def like(values: pa.Array, patterns: pa.Array) -> pa.Array:
    """Whether the whole value matches its LIKE pattern."""

    def matches(texts: pa.Array, pattern: str) -> pa.Array:
        return pc.match_substring_regex(texts, like_regex(pattern))

    return _grouped(matches, pa.bool_(), values, patterns)


def like_regex(pattern: str) -> str:
    """The RE2 expression of a LIKE pattern."""
    parts = []
    characters = iter(pattern)
    for character in characters:
        if character == "%":
            parts.append(".*")
        elif character == "_":
            parts.append(".")
        else:
            plain = next(characters, "\\") if character == "\\" else character
            # By number: no character then has a meaning of its own, not even the zero byte.
            parts.append(f"\\x{{{ord(plain):x}}}")
    return f"(?s)^{''.join(parts)}$"


def starts_with(values: pa.Array, parts: pa.Array) -> pa.Array:
    """Whether the value starts with the part."""
    return _grouped(lambda texts, part: pc.starts_with(texts, part), pa.bool_(), values, parts)


def ends_with(values: pa.Array, parts: pa.Array) -> pa.Array:
    """Whether the value ends with the part."""
    return _grouped(lambda texts, part: pc.ends_with(texts, part), pa.bool_(), values, parts)


def contains(values: pa.Array, parts: pa.Array) -> pa.Array:
    """Whether the part occurs in the value."""
    return _grouped(lambda texts, part: pc.match_substring(texts, part), pa.bool_(), values, parts)


def substring(values: pa.Array, starts: pa.Array, lengths: pa.Array | None = None) -> pa.Array:
    """SUBSTRING, with starts and lengths of any sign."""
    if lengths is None:
        return _grouped(lambda texts, start: _slice(texts, start, None), pa.string(), values, starts)
    return _grouped(_slice, pa.string(), values, starts, lengths)


def _slice(texts: pa.Array, start: int, length: int | None) -> pa.Array:
    if length is not None and length <= 0:
        return pc.if_else(texts.is_valid(), "", texts)
    first = start - 1 if start > 0 else start
    stop = None if length is None else first + length
    # Counted from the end, a window that reaches past the last character has no stop.
    if first < 0 and stop is not None and stop >= 0:
        stop = None
    limit = 2**31 - 1  # no string is longer, and Arrow adds to these numbers
    bounded = None if stop is None else max(min(stop, limit), -limit)
    return pc.utf8_slice_codeunits(texts, max(min(first, limit), -limit), bounded)


def _grouped(kernel: Kernel, result: pa.DataType, values: pa.Array, *parameters: pa.Array) -> pa.Array:
    """The kernel once per distinct combination of parameters, over the rows that have it."""
    absent = missing(*parameters)
    present = np.arange(len(values)) if absent is None else np.flatnonzero(~absent)
    if not len(present):
        return pa.nulls(len(values), result)
    codes = np.zeros(len(present), np.int64)
    for parameter in parameters:
        places = parameter.take(pa.array(present)).dictionary_encode().indices.to_numpy()
        codes = codes * (int(places.max()) + 1) + places
    if absent is None and not codes.any():
        return kernel(values, *(parameter[0].as_py() for parameter in parameters))
    order = np.argsort(codes, kind="stable")
    grouped = present[order]
    pieces = [
        kernel(values.take(pa.array(rows)), *(parameter[int(rows[0])].as_py() for parameter in parameters))
        for rows in np.split(grouped, np.flatnonzero(np.diff(codes[order])) + 1)
    ]
    home = np.zeros(len(values), np.int64)
    home[grouped] = np.arange(len(grouped))
    return pa.concat_arrays(pieces).take(pa.array(home, mask=absent))
