"""The order of classes: layers and cycles, against the definitions."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from augury.analysis.strata import stratify


def graphs_of(size: int) -> st.SearchStrategy[dict[str, list[str]]]:
    names = [str(i) for i in range(size)]
    return st.fixed_dictionaries({name: st.lists(st.sampled_from(names), unique=True) for name in names})


GRAPHS = st.integers(0, 8).flatmap(graphs_of)


def reachable(reads: dict[str, list[str]], start: str) -> set[str]:
    seen: set[str] = set()
    stack = list(reads[start])
    while stack:
        node = stack.pop()
        if node in reads and node not in seen:
            seen.add(node)
            stack.extend(reads[node])
    return seen


@given(GRAPHS)
def test_layers_hold_what_is_on_no_cycle_after_all_it_reads(reads: dict[str, list[str]]) -> None:
    layers, cycles = stratify(reads)
    level = {name: i for i, layer in enumerate(layers) for name in layer}
    stuck = {n for n in reads if n in reachable(reads, n) or any(m in reachable(reads, m) for m in reachable(reads, n))}
    assert set(level) == set(reads) - stuck
    for name in level:
        inside = [level[read] for read in reads[name] if read in reads]
        assert level[name] == (max(inside) + 1 if inside else 0)
    assert bool(cycles) == bool(stuck)
    for cycle in cycles:
        for here, following in zip(cycle, (*cycle[1:], cycle[0]), strict=True):
            assert following in reads[here]


def test_a_class_that_reads_itself_is_a_cycle_of_one() -> None:
    assert stratify({"a": ["a"], "b": []}) == ((("b",),), (("a",),))


def test_long_chains_and_cycles_do_not_recurse() -> None:
    chain = {str(i): [str(i + 1)] for i in range(20_000)}
    layers, cycles = stratify(chain | {"20000": []})
    assert (len(layers), cycles) == (20_001, ())
    _, cycles = stratify(chain | {"20000": ["0"]})
    assert len(cycles[0]) == 20_001
