"""RECENT's shapes: which sides of OR and operands of ANY an occurrence has, and which kept version stands at each leaf.

In: a form, and the versions kept for each leaf. Out: shapes, and their leaves filled with the latest versions, as many
as needed, from left to right, oldest first.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product
from typing import assert_never

from augury.kernels.reference.composite import forms as f
from augury.kernels.reference.composite.occurrence import Operand


@dataclass(frozen=True, slots=True)
class Slot:
    """A leaf to be filled."""

    leaf: int


@dataclass(frozen=True, slots=True)
class Given:
    """The opening of a window that fired and is still open."""

    operand: Operand


@dataclass(frozen=True, slots=True)
class Put:
    """An operator over the operands that were picked."""

    form: f.Form
    operands: tuple[Shape, ...]
    picked: tuple[int, ...] = ()


Shape = Slot | Given | Put

Openings = Mapping[Hashable, Operand]
"""Of windows that fired and are still open, by the operator."""


def shapes(form: f.Form, openings: Openings) -> Iterator[Shape]:
    """Every shape of an occurrence; `openings` are those of windows still open."""
    match form:
        case f.Leaf(number=number):
            yield Slot(number)
        case f.Either(sides=sides):
            for index, side in enumerate(sides):
                yield from (Put(form, (shape,), (index,)) for shape in shapes(side, openings))
        case f.Together(need=need, operands=operands):
            for picked in combinations(range(len(operands)), need):
                yield from _products(form, [operands[index] for index in picked], openings, picked)
        case f.Chain(left=left, right=right):
            yield from _products(form, [right] if left is None else [left, right], openings)
        case f.Times(count=count, operand=operand):
            yield from _products(form, [operand] * count, openings)
        case f.Window(opening=opening, middle=middle):
            yield from _products(form, [opening, middle], openings)
            if (given := _given(form, openings)) is not None:
                yield from (Put(form, (given, shape)) for shape in shapes(middle, openings))
        case f.Pulse(opening=opening):
            yield from _products(form, [opening], openings)
            if (given := _given(form, openings)) is not None:
                yield Put(form, (given,))
        case f.Beside(operand=operand) | f.Later(operand=operand) | f.Bounds(operand=operand):
            yield from _products(form, [operand], openings)
        case f.Tested(operand=operand) | f.Unless(opening=operand):
            yield from _products(form, [operand], openings)
        case _:
            assert_never(form)


def _given(form: f.Form, openings: Openings) -> Given | None:
    """The opening of a window that is still open; of the windows that it was made in those count that are open too."""
    opening = openings.get(form)
    if opening is None:
        return None
    return Given(replace(opening, windows=tuple(each for each in opening.windows if openings.get(each[0]) == each[1])))


def _products(
    form: f.Form, operands: Sequence[f.Form], openings: Openings, picked: tuple[int, ...] = ()
) -> Iterator[Shape]:
    for chosen in product(*(list(shapes(operand, openings)) for operand in operands)):
        yield Put(form, chosen, picked)


def slots(shape: Shape) -> list[int]:
    """The leaves to be filled, left to right."""
    match shape:
        case Slot(leaf=leaf):
            return [leaf]
        case Given():
            return []
        case Put(operands=operands):
            return [leaf for operand in operands for leaf in slots(operand)]
        case _:
            assert_never(shape)


def positive(form: f.Form) -> list[f.Form]:
    """The operands whose versions fill leaves."""
    match form:
        case f.Leaf():
            return []
        case f.Either(sides=sides):
            return list(sides)
        case f.Together(operands=operands):
            return list(operands)
        case f.Chain(left=left, right=right):
            return [right] if left is None else [left, right]
        case f.Window(opening=opening, middle=middle):
            return [opening, middle]
        case f.Pulse(opening=operand) | f.Unless(opening=operand):
            return [operand]
        case f.Times(operand=operand) | f.Beside(operand=operand) | f.Later(operand=operand):
            return [operand]
        case f.Bounds(operand=operand) | f.Tested(operand=operand):
            return [operand]
        case _:
            assert_never(form)


def aside(form: f.Form) -> list[f.Form]:
    """The expressions of which every occurrence since the last firing counts: negated, gathered, and closings."""
    here: list[f.Form] = []
    match form:
        case f.Beside(absent=absent) | f.Unless(absent=absent):
            here = [absent]
        case f.Chain(middles=middles, right=right, closes=closes):
            here = [middle.form for middle in middles if not isinstance(middle, f.Elapsed)]
            here += [right] if closes else []
        case f.Window(closing=closing) | f.Pulse(closing=closing):
            here = [closing]
        case _:
            pass
    return here + [other for inner in positive(form) for other in aside(inner)]


def filled(leaves: Sequence[int], kept: Mapping[int, Sequence[int]], classes: Sequence[str]) -> list[int] | None:
    """A version for each leaf: of each class the latest that can fill its leaves; the oldest stand left.

    `kept` has the versions that fit a leaf, ascending. Where all leaves of a class are alike this is: as many of the
    latest as there are leaves, in order.
    """
    found: dict[int, int] = {}
    for name in dict.fromkeys(classes[leaf] for leaf in leaves):
        indices = [index for index, leaf in enumerate(leaves) if classes[leaf] == name]
        options = [kept[leaves[index]] for index in indices]
        if all(option == options[0] for option in options):
            if len(options[0]) < len(indices):
                return None
            best = tuple(options[0][-len(indices) :])
        else:
            fitting = list(_one_each(options))
            if not fitting:
                return None
            latest = max(sorted(versions, reverse=True) for versions in fitting)
            best = min(versions for versions in fitting if sorted(versions, reverse=True) == latest)
        found.update(zip(indices, best, strict=True))
    return [found[index] for index in range(len(leaves))]


def _one_each(options: Sequence[Sequence[int]]) -> Iterator[tuple[int, ...]]:
    """Every choice of one version for each leaf, none twice."""
    if not options:
        yield ()
        return
    for rest in _one_each(options[:-1]):
        yield from ((*rest, version) for version in options[-1] if version not in rest)
