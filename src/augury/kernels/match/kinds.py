"""Which kinds of values a stream stands for (`automata.kinds`): tuples of other kinds are not its own.

A stream in which a variable is fresh stands for every value of it that has no stream of its own, so it may be of
several kinds.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from augury.algebra.expression import Variable
from augury.algebra.scalar import Constant
from augury.automata.kinds import Kind
from augury.kernels.match.collect import Candidates
from augury.kernels.match.detector import Detector
from augury.kernels.match.state import MatchState
from augury.kernels.match.streams import FRESH, Binding, Numbers, latest_part


def of_right_kind(detector: Detector, state: MatchState, found: Candidates) -> Candidates:
    """The tuples that are of a kind of their stream; the mark that says which is taken off."""
    heads = state.nodes.marks[found.head]
    kind = (heads >> detector.kind_shift) - 1
    streams = state.streams
    known = {(int(p), *map(int, b)): i for i, (p, b) in enumerate(zip(streams.partition, streams.bound, strict=True))}
    values = [_plain(numbers) for numbers in streams.values]
    binding_of = list(known)
    fits = {
        (s, k): _fits(detector, detector.kinds[k], binding_of[s], known, values)
        for s, k in set(zip(found.stream.tolist(), kind.tolist(), strict=True))
    }
    kept = np.array([fits[pair] for pair in zip(found.stream.tolist(), kind.tolist(), strict=True)], np.bool_)
    state.nodes.marks[found.head] = heads & (1 << detector.kind_shift) - 1
    return Candidates(found.event[kept], found.stream[kept], found.head[kept])


def _plain(numbers: Numbers) -> list[object]:
    """Values as constants have them."""
    values = numbers.values
    return list((values.cast(pa.int64()) if pa.types.is_timestamp(values.type) else values).to_pylist())


def _fits(
    detector: Detector, kind: Kind, binding: Binding, known: dict[Binding, int], values: list[list[object]]
) -> bool:
    """Whether values that only this stream stands for can be equal just so."""
    bound = zip(detector.keyed, binding[1:], values, strict=True)
    demanded = values_demanded(kind, {v: of[n] for v, n, of in bound if n != FRESH})
    if demanded is None:
        return False
    full = list(binding)
    for i, variable in enumerate(detector.keyed, 1):
        if full[i] == FRESH and variable in demanded:
            met = [n for n, value in enumerate(values[i - 1]) if same_value(value, demanded[variable])]
            full[i] = met[0] if met else FRESH
    return latest_part(tuple(full), known) == known[binding]


def values_demanded(kind: Kind, bound: Mapping[Variable, object]) -> dict[Variable, object] | None:
    """The values that variables have to have where these have theirs; None where they cannot be equal just so."""
    value_of: dict[int, object] = {n: term.value for term, n in kind.items() if isinstance(term, Constant)}
    for variable, value in bound.items():
        if variable in kind and not same_value(value_of.setdefault(kind[variable], value), value):
            return None
    distinct = list(value_of.values())
    if any(same_value(a, b) for j, a in enumerate(distinct) for b in distinct[:j]):
        return None
    return {v: value_of[n] for v, n in kind.items() if isinstance(v, Variable) and n in value_of}


def same_value(a: object, b: object) -> bool:
    """Whether two values are one to a variable: NULL is NULL, and NaN is NaN."""
    return a == b or (a != a and b != b)
