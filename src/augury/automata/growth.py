"""Whether an expression can have ever more occurrence tuples open at a time, as COLLECT ALL would have to keep.

In: an expression whose variables are bound. Out: yes or no, by the machine whose runs are its tuples. There is no bound
if an event can be marked again and again, and after it a run can wait for ever.
"""

from __future__ import annotations

from collections.abc import Iterable

from augury import limits
from augury.algebra.expression import Expression
from augury.automata.alphabet import alphabet_of
from augury.automata.build import Builder, body_of
from augury.automata.runs import FINAL, Runs
from augury.automata.tuples import tuples_of


def grows(expression: Expression) -> bool:
    """Whether its open tuples have no bound; raises what `tuples_of` and `body_of` raise."""
    body = body_of(expression)
    return _grows(tuples_of(body, Builder(alphabet_of(body)), lambda _: 1))


def _grows(runs: Runs) -> bool:
    if runs.size is None or runs.size > limits.GROWTH_STATES_MAX:
        return True
    letters = range(runs.symbols)
    ahead = {s: {q for a in letters for q, _ in runs.moves(s, a) if q != FINAL} for s in range(runs.size)}
    reached = {s: _reached(ahead, ahead[s]) for s in ahead}
    waiting = {s for s in ahead if s in reached[s]}
    again = waiting | {t for s in waiting for t in reached[s]}
    marked = {q for s in again for a in letters for q, m in runs.moves(s, a) if m and q != FINAL}
    return any(q in waiting or reached[q] & waiting for q in marked)


def _reached(ahead: dict[int, set[int]], first: Iterable[int]) -> set[int]:
    found = set(first)
    stack = list(found)
    while stack:
        new = ahead[stack.pop()] - found
        found |= new
        stack.extend(new)
    return found
