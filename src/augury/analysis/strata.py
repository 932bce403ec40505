"""Who is derived when: cycles between classes, and the strata in which classes can be derived one after the other.

In: what each class reads. Out: layers of names; a cycle is reported with its whole path. Linear in classes and edges.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def stratify(
    reads: Mapping[str, Sequence[str]],
) -> tuple[tuple[tuple[str, ...], ...], tuple[tuple[str, ...], ...]]:
    """Layers (each in the order of `reads`), and the cycles, each once, from its first member on.

    What lies on a cycle, or reads what does, is in no layer.
    """
    waiting = {name: {r for r in found if r in reads} for name, found in reads.items()}
    readers: dict[str, list[str]] = {name: [] for name in reads}
    for name, found in waiting.items():
        for read in found:
            readers[read].append(name)
    position = {name: i for i, name in enumerate(reads)}
    layers: list[tuple[str, ...]] = []
    ready = [name for name, found in waiting.items() if not found]
    while ready:
        layers.append(tuple(sorted(ready, key=position.__getitem__)))
        following: list[str] = []
        for name in ready:
            del_from = readers[name]
            for reader in del_from:
                waiting[reader].discard(name)
                if not waiting[reader]:
                    following.append(reader)
            del waiting[name]
        ready = following
    return tuple(layers), _cycles(waiting, position)


def _cycles(waiting: Mapping[str, set[str]], position: Mapping[str, int]) -> tuple[tuple[str, ...], ...]:
    """One cycle for every knot among the nodes that are left; each of them reads at least one other that is left."""
    cycles: list[tuple[str, ...]] = []
    done: set[str] = set()
    for start in waiting:
        path: list[str] = []
        on_path: dict[str, int] = {}
        node = start
        while node not in done and node not in on_path:
            on_path[node] = len(path)
            path.append(node)
            node = min(waiting[node], key=position.__getitem__)
        if node in on_path:
            cycle = path[on_path[node] :]
            first = min(range(len(cycle)), key=lambda i: position[cycle[i]])
            cycles.append((*cycle[first:], *cycle[:first]))
        done.update(path)
    return tuple(cycles)
