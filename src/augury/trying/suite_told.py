"""Results of tests → what people read: expected and got side by side, a time line, where they part, the line.

In: results, and the source of the suite. Out: lines of text. It prints nothing itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from augury.clock import show_time
from augury.diagnostics import Source
from augury.trying.suite_bound import Failure, Pair, Result
from augury.trying.suite_written import offset_text, written

SIDE_MAX: Final = 56
"""Characters of the left side; what is longer goes on in the next line."""

TIME_LINE_MAX: Final = 16
"""Lines of a time line: what comes long before they part, or long after, is left out."""

PAIRS_MAX: Final = 40


def told(source: Source, result: Result, seed: int) -> list[str]:
    """A test in a line, and what is wrong with it in as many as that takes."""
    bound = result.bound
    line = source.position(bound.test.span.start)[0]
    engine = "" if bound.test.engines == ("local",) else f" [{result.engine}]"
    orders = _orders_text(result, seed)
    lines = [f"{'ok  ' if result.passed else 'FAIL'} {source.name}:{line} {bound.test.name}{engine}{orders}"]
    return lines + [f"     {one}".rstrip() for one in failure_lines(source, result)]


def _orders_text(result: Result, seed: int) -> str:
    tried, every = result.orders
    if not result.bound.test.orders or every == 1 or not tried:
        return ""
    if tried == every or (result.failures and tried < every):
        return f" ({tried} of {every:,} orders)"
    return f" ({tried} of {every:,} orders, sampled with --seed {seed})"


def failure_lines(source: Source, result: Result) -> list[str]:
    """All that is wrong with a test, without its name, and one time line for all of it."""
    lines = [line for failure in result.failures for line in _failure(source, result, failure)]
    if any(failure.pairs for failure in result.failures):
        ticks = [failure.tick_us for failure in result.failures if failure.pairs and failure.tick_us is not None]
        lines += [*(f"  {one}" for one in _time_line(result, min(ticks, default=None))), ""]
    return lines


def _failure(source: Source, result: Result, failure: Failure) -> list[str]:
    line = source.position(failure.span.start)[0]
    where = "" if failure.step is None else f", in step {failure.step}"
    lines = [f"line {line}: {failure.message}{where}", *(f"  {note}" for note in failure.notes)]
    if failure.pairs:
        lines += ["", *(f"  {one}" for one in _side_by_side(source, failure))]
        lines += ["", f"  {_parting(result, failure)}"]
    return [*lines, ""]


def _parting(result: Result, failure: Failure) -> str:
    if failure.tick_us is None:
        return "what is missing comes at no tick"
    step = "" if failure.step is None else f" of step {failure.step}"
    offset = offset_text(failure.tick_us - result.bound.test.start_us)
    return f"they part at the tick {offset}{step}, {show_time(failure.tick_us)}"


# ---- side by side ------------------------------------------------------------------------------------------------


def _side_by_side(source: Source, failure: Failure) -> Iterator[str]:
    pairs, (left_name, right_name) = failure.pairs, failure.sides
    shown = _around(pairs)
    texts = [pair.expected for pair in shown if pair.expected is not None]
    width = min(SIDE_MAX, max([len(left_name), *map(len, texts)]))
    yield f"  {left_name:<{width}}   {right_name}"
    for pair in shown:
        sign = {"": " ", "missing": "-", "unexpected": "+"}.get(pair.differs, "!")
        for place, one in enumerate(_cut(pair.expected or "·", width)):
            other = "" if place else pair.got or "·"
            yield f"{sign if not place else ' '} {one:<{width}} | {other}".rstrip()
        where = "" if pair.span is None else f", line {source.position(pair.span.start)[0]}"
        if pair.differs:
            yield f"  {'':<{width}}   ^ {pair.differs}{where}"
    if len(shown) < len(pairs):
        yield f"  … {len(pairs) - len(shown)} more"


def _around(pairs: Sequence[Pair]) -> Sequence[Pair]:
    """Some of many: from a little before the first that differs."""
    first = next((i for i, pair in enumerate(pairs) if pair.differs), 0)
    begin = max(0, min(first - 3, len(pairs) - PAIRS_MAX))
    return pairs[begin : begin + PAIRS_MAX]


def _cut(text: str, width: int) -> list[str]:
    return [text[i : i + width] for i in range(0, len(text), width)] or [""]


# ---- the time line -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Moment:
    """Something on the time line: when it became known, and whether it came, was got, or is a mark."""

    time_us: int
    rank: int
    text: str


def _time_line(result: Result, parting_us: int | None) -> Iterator[str]:
    bound = result.bound
    start_us = bound.test.start_us
    moments = [
        _Moment(row.seen_us, 1, f"> {row.text}{' (rejected)' if place in result.ran.rejected else ''}")
        for place, row in enumerate(bound.rows)
    ]
    moments += [_Moment(got.tick_us, 0, f"< {written(got, start_us)}") for got in result.ran.got]
    if parting_us is not None:
        moments.append(_Moment(parting_us, -1, "<<< here they part"))
    if bound.until_us is not None:
        moments.append(_Moment(bound.until_us, 2, "the end"))
    # A tick comes before what is detected at its time: that belongs to the next.
    moments.sort(key=lambda one: (one.time_us, one.rank))
    mark = next((i for i, one in enumerate(moments) if one.rank == -1), len(moments))
    begin = max(0, min(mark - TIME_LINE_MAX * 2 // 3, len(moments) - TIME_LINE_MAX))
    shown = moments[begin : begin + TIME_LINE_MAX]
    times = [offset_text(one.time_us - start_us) for one in shown]
    width = max(map(len, times), default=0)
    yield f"time line, from {show_time(start_us)} (> came, < was got)"
    if begin:
        yield f"{'':>{width}} : {begin} before"
    for place, (time, one) in enumerate(zip(times, shown, strict=True)):
        is_new = place == 0 or times[place - 1] != time
        yield f"{time if is_new else '':>{width}} | {one.text}"
    if begin + len(shown) < len(moments):
        yield f"{'':>{width}} : {len(moments) - begin - len(shown)} after"


def summary(results: Sequence[Result]) -> str:
    """How many tests there are, and how many failed."""
    failed = sum(not result.passed for result in results)
    tests = f"{len(results)} test{'' if len(results) == 1 else 's'}"
    return f"{tests}, {failed} failed" if failed else f"{tests}, all passed"
