"""Minimal automata with one numbering: states that no word tells apart become one, numbered as a walk meets them."""

from __future__ import annotations

from augury.automata.automaton import Automaton


def minimise(automaton: Automaton) -> Automaton:
    """The minimal automaton of the same language; equal languages give equal automata.

    Partition refinement by Hopcroft: only what leads into the smaller half of a split class is looked at again.
    """
    return _renumbered(automaton, _classes(automaton))


def _classes(automaton: Automaton) -> list[int]:
    states = range(len(automaton.delta))
    inverse: list[dict[int, list[int]]] = [{} for _ in range(automaton.letters)]
    for state in states:
        for letter, target in enumerate(automaton.delta[state]):
            inverse[letter].setdefault(target, []).append(state)
    block_of = [int(accepts) for accepts in automaton.accepting]
    blocks: list[set[int]] = [{s for s in states if block_of[s] == b} for b in (0, 1)]
    if not blocks[0] or not blocks[1]:
        return [0] * len(block_of)
    waiting = {0 if len(blocks[0]) <= len(blocks[1]) else 1}
    while waiting:
        splitter = list(blocks[waiting.pop()])
        for into in inverse:
            touched: dict[int, set[int]] = {}
            for target in splitter:
                for source in into.get(target, ()):
                    touched.setdefault(block_of[source], set()).add(source)
            for block, inside in touched.items():
                if len(inside) == len(blocks[block]):
                    continue
                blocks[block] -= inside
                fresh = len(blocks)
                blocks.append(inside)
                for state in inside:
                    block_of[state] = fresh
                waiting.add(fresh if block in waiting or len(inside) <= len(blocks[block]) else block)
    return block_of


def _renumbered(automaton: Automaton, block_of: list[int]) -> Automaton:
    member = {block: state for state, block in reversed(list(enumerate(block_of)))}
    number = {block_of[0]: 0}
    queue = [block_of[0]]
    rows: list[tuple[int, ...]] = []
    for block in queue:
        row = []
        for target in automaton.delta[member[block]]:
            following = block_of[target]
            if following not in number:
                number[following] = len(queue)
                queue.append(following)
            row.append(number[following])
        rows.append(tuple(row))
    accepting = tuple(automaton.accepting[member[block]] for block in queue)
    return Automaton(automaton.symbols, automaton.variables, tuple(rows), accepting)
