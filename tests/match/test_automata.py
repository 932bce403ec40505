"""Automata against the definitions: the reference reads histories, the automata read symbols, and they agree."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from augury.algebra.expression import Expression, MatchOperator, MatchPlan, Primitive, Some, Variable, walk
from augury.algebra.scalar import Constant
from augury.api import compile
from augury.automata.alphabet import Alphabet
from augury.automata.automaton import Automaton
from augury.automata.build import Compiled, NoOneAutomaton, compile_expression
from augury.automata.minimise import minimise
from augury.automata.operations import TooManyStates
from augury.kernels.reference import Event, positions
from tests.match.columns import detected
from tests.match.generate import Wanted, pair
from tests.match.generate import plan as match_plan

CASES, CHUNK = 20_000, 1_000
Op = MatchOperator
ROOT = Path(__file__).parents[2]


def word(alphabet: Alphabet, history: tuple[Event, ...], values: dict[str, Constant]) -> list[int]:
    """The symbol of each event: which leaves are true at it, by the definitions, for one value of each variable."""
    true: dict[int, set[int]] = {event.seq: set() for event in history}
    for i, leaf in enumerate(alphabet.leaves):
        bindings = tuple(values[b.name] if isinstance(b, Variable) else b for b in leaf.bindings)
        for seq in positions(replace(leaf, bindings=bindings), history):
            true[seq].add(i)
    return [alphabet.at(event.event_class, true[event.seq]) for event in history]


def valuations(expression: Expression, history: tuple[Event, ...]) -> Iterator[dict[str, Constant]]:
    variables = expression.variables if isinstance(expression, Some) else ()
    met = {value for event in history for value in event.values.values()}
    choices = [[Constant(value, v.type) for value in {*met, None, -99}] for v in variables]
    for combination in product(*choices):
        yield {variable.name: constant for variable, constant in zip(variables, combination, strict=True)}


def found(compiled: Compiled, expression: Expression, history: tuple[Event, ...]) -> tuple[int, ...]:
    seqs = {
        history[place].seq
        for values in valuations(expression, history)
        for place in compiled.automaton.runs(word(compiled.alphabet, history, values))
    }
    return tuple(sorted(seqs))


def agree(seeds: range, wanted: Wanted) -> int:
    """How many of the cases have an automaton; of those whose values no one automaton tells apart, the kernel runs."""
    with_automaton = 0
    for seed in seeds:
        expression, history = pair(seed, wanted)
        places = tuple(positions(expression, history))
        try:
            compiled = compile_expression(expression)
        except TooManyStates:
            continue
        except NoOneAutomaton:
            kernel = detected(match_plan(expression), history, tuples=False)
            assert tuple(o.seq for o in kernel) == places, (seed, expression)
            continue
        with_automaton += 1
        assert found(compiled, expression, history) == places, (seed, expression)
    return with_automaton


@pytest.mark.parametrize("start", range(0, CASES, CHUNK))
def test_automata_agree_with_the_definitions(start: int) -> None:
    """Every fourth thousand with attribute variables, whose automaton is walked for each value."""
    attributes = start // CHUNK % 4 == 3
    with_automaton = agree(range(start, start + CHUNK), Wanted(attributes=attributes))
    assert with_automaton > (0.95 if attributes else 0.999) * CHUNK


@pytest.mark.soak
def test_automata_agree_on_millions() -> None:
    cases = int(os.environ.get("AUGURY_SOAK_CASES", "1000000"))
    first = int(os.environ.get("AUGURY_SOAK_FIRST", CASES))
    for start in range(first, first + cases, CHUNK):
        agree(range(start, start + CHUNK), Wanted())


def test_equal_languages_give_equal_automata() -> None:
    text = (ROOT / "examples" / "seeds" / "ode_discount_rate.bicepl").read_text("utf-8")
    program = compile(text)
    dumps = []
    for name in ("Three_cuts_relative", "Three_cuts_pipe", "Three_cuts_correlated"):
        plan = program.class_plan(name)
        assert plan is not None
        assert isinstance(plan.derivation, MatchPlan)
        compiled = compile_expression(plan.derivation.expression)
        # The classes appear in another order in each: name the symbols to compare.
        dumps.append(sorted(compiled.dump().splitlines()[1:]))
    assert dumps[0] == dumps[1] == dumps[2]


def test_an_automaton_reads_and_draws_as_text() -> None:
    program = compile(
        "CREATE IMMUTABLE SUBSCRIBED EVENT CLASS A (x INT) ID () LIFESPAN (1d);\n"
        "CREATE COMPLEX EVENT CLASS T () ID () AS MATCH prior(A[x > 1], A[x > 2]);"
    )
    plan = program.class_plan("T")
    assert plan is not None
    assert isinstance(plan.derivation, MatchPlan)
    compiled = compile_expression(plan.derivation.expression)
    assert compiled.dump() == (
        "3 states over A[x > 1]∧[x > 2], A[x > 1], A[x > 2], OTHER\n"
        "  0  A[x > 1]∧[x > 2],A[x > 1]→1 else→0\n"
        "  1  A[x > 1]∧[x > 2],A[x > 2]→2 else→1\n"
        "  2* A[x > 1]∧[x > 2],A[x > 2]→2 else→1"
    )
    assert '0 -> 1 [label="A[x > 1]∧[x > 2],A[x > 1]"];' in compiled.to_dot()


def test_a_blow_up_is_refused_rather_than_built(monkeypatch: pytest.MonkeyPatch) -> None:
    from augury import limits

    monkeypatch.setattr(limits, "AUTOMATON_STATES_MAX", 1000)
    program = compile(
        "".join(f"CREATE IMMUTABLE SUBSCRIBED EVENT CLASS {c} () ID () LIFESPAN (1d);\n" for c in ("Login", "Fail"))
        + "CREATE COMPLEX EVENT CLASS T () ID () AS MATCH relative(Login, <14> Fail);"
    )
    plan = program.class_plan("T")
    assert plan is not None
    assert isinstance(plan.derivation, MatchPlan)
    with pytest.raises(TooManyStates):
        compile_expression(plan.derivation.expression)


def test_minimising_twice_changes_nothing_and_merges_what_no_word_tells_apart() -> None:
    redundant = Automaton(1, (), ((1,), (2,), (1,)), (False, True, True))
    minimal = minimise(redundant)
    assert minimal == Automaton(1, (), ((1,), (1,)), (False, True))
    assert minimise(minimal) == minimal
    assert minimal.fingerprint() != redundant.fingerprint()


def test_every_expression_of_the_paper_has_a_small_automaton() -> None:
    sizes = {}
    for path in sorted((ROOT / "examples" / "seeds").glob("ode_*.bicepl")):
        for plan in compile(path.read_text("utf-8")).classes:
            if isinstance(plan.derivation, MatchPlan):
                compiled = compile_expression(plan.derivation.expression)
                sizes[plan.event_class.name] = len(compiled.automaton.delta)
                assert any(isinstance(n, Primitive) for n in walk(plan.derivation.expression)) or sizes
    assert len(sizes) == 119
    assert max(sizes.values()) == 25
