"""A deterministic automaton: which words of symbols an expression takes place at the last event of.

A letter is a symbol with marks: one bit per free correlation variable, set on the event that the variable stands for.
Beyond the last letter they begin again: what a letter may say besides (`opened`), an automaton does not look at.
The empty word is never accepted, for an expression takes place at events only.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Automaton:
    """States 0 … n−1, 0 the initial one; `delta[state][letter]`; `accepting[state]`.

    Letters are numbered symbol × 2^variables + marks, bit i of the marks being that of variables[i].
    """

    symbols: int
    variables: tuple[str, ...]
    delta: tuple[tuple[int, ...], ...]
    accepting: tuple[bool, ...]

    @property
    def letters(self) -> int:
        """How many letters there are."""
        return self.symbols << len(self.variables)

    @property
    def initial(self) -> int:
        """The state that has read nothing."""
        return 0

    def step(self, state: int, letter: int) -> int:
        """The state after one more letter."""
        row = self.delta[state]
        return row[letter % len(row)]

    @property
    def is_open(self) -> bool:
        """Whether it looks at the values that a letter says; an automaton does not."""
        return False

    def accepts(self, state: int) -> bool:
        """Whether the expression takes place at the letter that led here."""
        return self.accepting[state]

    def runs(self, word: Sequence[int]) -> list[int]:
        """The positions, from 0, at which the expression takes place in a word of letters."""
        state, found = 0, []
        for position, letter in enumerate(word):
            state = self.delta[state][letter]
            if self.accepting[state]:
                found.append(position)
        return found

    def fingerprint(self) -> str:
        """A hash of the automaton: of a minimal one, of the language it accepts."""
        text = repr((self.symbols, len(self.variables), self.delta, self.accepting))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def dump(self, names: Sequence[str] | None = None) -> str:
        """One line a state: where each group of letters leads; accepting states have a star."""
        lines = [f"{len(self.delta)} states over {', '.join(names or map(str, range(self.symbols)))}"]
        if self.variables:
            lines[0] += f"; marks {', '.join(self.variables)}"
        for state, row in enumerate(self.delta):
            star = "*" if self.accepting[state] else " "
            moves = " ".join(f"{group}→{target}" for group, target in self._moves(row, names))
            lines.append(f"{state:>3}{star} {moves}")
        return "\n".join(lines)

    def to_dot(self, names: Sequence[str] | None = None) -> str:
        """The automaton for Graphviz."""
        lines = [
            "digraph automaton {",
            "  rankdir=LR;",
            '  node [shape=circle, fontname="Helvetica"];',
            "  start [shape=point];",
        ]
        lines += [f"  {s} [shape=doublecircle];" for s, accepts in enumerate(self.accepting) if accepts]
        lines.append("  start -> 0;")
        for state, row in enumerate(self.delta):
            for group, target in self._moves(row, names):
                label = group.replace("\\", "\\\\").replace('"', '\\"')
                lines.append(f'  {state} -> {target} [label="{label}"];')
        return "\n".join([*lines, "}"])

    def _moves(self, row: tuple[int, ...], names: Sequence[str] | None) -> list[tuple[str, int]]:
        """Letters by where they lead, in order of state; the target of most letters last, as `else`."""
        groups: dict[int, list[str]] = {}
        for letter, target in enumerate(row):
            groups.setdefault(target, []).append(self._letter(letter, names))
        rest = max(groups, key=lambda target: (len(groups[target]), -target))
        shown = [(",".join(groups[target]), target) for target in sorted(groups) if target != rest]
        return [*shown, ("else" if shown else "any", rest)]

    def _letter(self, letter: int, names: Sequence[str] | None) -> str:
        symbol, marks = letter >> len(self.variables), letter & ((1 << len(self.variables)) - 1)
        name = names[symbol] if names else str(symbol)
        marked = "+".join(v for i, v in enumerate(self.variables) if marks >> i & 1)
        return f"{name}={marked}" if marked else name


@dataclass(frozen=True, slots=True, eq=False)
class Unbuilt:
    """A machine that is too large to be built: it is stepped through as letters come, its states nested sets of states.

    It has the step of an Automaton, and no table.
    """

    symbols: int
    variables: tuple[str, ...]
    initial: Any
    step: Callable[[Any, int], Any]
    accepts: Callable[[Any], bool]
    is_open: bool = False
    """Whether it looks at the values that a letter says: then its letters cannot be listed."""


Language = Automaton | Unbuilt
"""What says, letter by letter, where an expression takes place."""
