"""What automata decide, against brute force: all short words, and the definitions on concrete histories."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from itertools import combinations, product
from pathlib import Path
from random import Random

import pytest
from typer.testing import CliRunner, Result

from augury import limits
from augury.algebra.expression import Expression, MatchPlan, Primitive, Variable, walk
from augury.algebra.scalar import Constant
from augury.api import Checked, check, compile, deep
from augury.automata.advice import Survey
from augury.automata.alphabet import Alphabet, Symbol, alphabet_over, has_at_most
from augury.automata.answers import (
    Witness,
    canonical,
    canonical_hash,
    distinguishing,
    equivalent,
    everywhere,
    implies,
    never,
    normal,
    printed,
)
from augury.automata.build import Compiled, NoOneAutomaton, compile_expression
from augury.automata.operations import TooManyStates
from augury.automata.reasons import blow_up, why_never
from augury.cli import app
from augury.diagnostics import Severity
from augury.kernels.reference import Event, positions
from tests.match.generate import SECOND, Wanted, expression, history

ROOT = Path(__file__).parents[2]
LENGTH = 6
WORDS = Wanted(depth=2, attributes=False, masks=False)
VALUES = Wanted(depth=2, masks=False, prefix=False)


# ---- brute force -----------------------------------------------------------------------------------


@cache
def pool(wanted: Wanted, count: int) -> tuple[tuple[Expression, Compiled], ...]:
    found: list[tuple[Expression, Compiled]] = []
    random = Random(7)
    while len(found) < count:
        made = expression(random, wanted)
        try:
            found.append((made, canonical(made)))
        except (NoOneAutomaton, TooManyStates):
            continue
    return tuple(found)


LETTERS = alphabet_over([Primitive("A"), Primitive("B"), Primitive("K")], has_start=True)


def taking_place(made: Expression, length: int) -> list[set[tuple[int, ...]]]:
    """The words of each length up to so many events at whose last event an expression takes place."""
    automaton = compile_expression(normal(made), LETTERS).automaton
    found: list[set[tuple[int, ...]]] = []
    states: dict[tuple[int, ...], int] = {(): 0}
    for _ in range(length):
        states = {(*word, a): automaton.delta[q][a] for word, q in states.items() for a in range(4)}
        found.append({word for word, q in states.items() if automaton.accepting[q]})
    return found


def test_answers_are_those_of_all_short_words() -> None:
    made = [(form, taking_place(one, LENGTH)) for one, form in pool(WORDS, 120)]
    for form, words in made:
        assert not (never(form) and any(words))
        assert never(form) or any(words) or len(form.automaton.delta) > LENGTH
        assert everywhere(form) == all(len(some) == 4 ** (n + 1) for n, some in enumerate(words))
    same = different = 0
    for (first, one), (second, other) in combinations(made, 2):
        shortest = next((n + 1 for n in range(LENGTH) if one[n] != other[n]), None)
        witness = distinguishing(first, second)
        assert equivalent(first, second) == (witness is None)
        if shortest is None:
            assert witness is None or len(witness.word) > LENGTH
            same += 1
            continue
        assert witness is not None
        assert len(witness.word) == shortest
        word = in_letters(witness)
        assert (word in one[shortest - 1], word in other[shortest - 1])[:: 1 if witness.first_takes_place else -1] == (
            True,
            False,
        )
        assert implies(first, second) <= all(a <= b for a, b in zip(one, other, strict=True))
        assert implies(second, first) <= all(b <= a for a, b in zip(one, other, strict=True))
        different += 1
    assert same > 100
    assert different > 1000


def in_letters(witness: Witness) -> tuple[int, ...]:
    classes = [witness.alphabet.symbols[symbol].event_class for symbol in witness.word]
    return tuple(3 if name is None else "ABK".index(name) for name in classes)


def test_implication_holds_of_all_short_words_and_is_found() -> None:
    """What fails to imply has a counterexample, and a short one here: the automata are small."""
    made = [(form, taking_place(one, LENGTH)) for one, form in pool(WORDS, 60)]
    found = 0
    for (first, one), (second, other) in product(made, made):
        if len(first.automaton.delta) * len(second.automaton.delta) <= LENGTH:
            contained = all(a <= b for a, b in zip(one, other, strict=True))
            assert implies(first, second) == contained
            found += contained
    assert found > 100


# ---- the definitions, with values -------------------------------------------------------------------


def test_answers_hold_of_the_definitions() -> None:
    histories = [history(Random(seed), 7) for seed in range(25)]
    made = [
        (form, [set(positions(one, events)) for events in histories])
        for one, form in pool(Wanted(depth=2, prefix=False), 60)
    ]
    related = 0
    for form, found in made:
        assert not (never(form) and any(found))
        if everywhere(form):
            assert found == [{event.seq for event in events} for events in histories]
    for (first, one), (second, other) in product(made, made):
        if equivalent(first, second):
            assert one == other
        if implies(first, second):
            related += 1
            assert all(a <= b for a, b in zip(one, other, strict=True))
    assert related > 300


def test_a_history_that_tells_apart_does_so_by_the_definitions() -> None:
    told = with_values = 0
    made = pool(VALUES, 60)
    for (one, first), (other, second) in combinations(made, 2):
        witness = distinguishing(first, second)
        events = None if witness is None else concrete(witness)
        if witness is None or events is None:
            continue
        last = events[-1].seq
        found = last in positions(one, events), last in positions(other, events)
        assert found == (witness.first_takes_place, not witness.first_takes_place), (one, other, witness.history)
        told += 1
        with_values += any(isinstance(b, Variable) for leaf in witness.alphabet.leaves for b in leaf.bindings)
    assert told > 300
    assert with_values > 50


def concrete(witness: Witness) -> tuple[Event, ...] | None:
    """Events with the symbols of a witness: v1 is 10, v2 is 20; None if there are none."""
    found = []
    for seq, number in enumerate(witness.word, 1):
        values = attributes_of(witness.alphabet, witness.alphabet.symbols[number])
        if values is None:
            return None
        name = witness.alphabet.symbols[number].event_class or "Z"
        found.append(Event(seq, name, values if name == "K" else {}, seq * SECOND, seq * SECOND))
    return tuple(found)


def attributes_of(alphabet: Alphabet, symbol: Symbol) -> dict[str, int] | None:
    variables = {"v1": 10, "v2": 20}
    for k, v in product((10, 20, 1, 77), repeat=2):
        true = {
            i
            for i, leaf in enumerate(alphabet.leaves)
            if leaf.event_class == symbol.event_class
            and all(fits(binding, value, variables) for binding, value in zip(leaf.bindings, (k, v), strict=False))
        }
        if true == symbol.leaves:
            return {"k": k, "v": v}
    return None


def fits(binding: object, value: int, variables: dict[str, int]) -> bool:
    match binding:
        case Variable(name=name):
            return variables[name] == value
        case Constant(value=constant):
            return constant == value
        case _:
            return True


def test_the_smallest_part_that_never_takes_place_is_to_blame() -> None:
    blamed = 0
    for one, form in pool(Wanted(depth=3), 300):
        if never(form):
            reason = why_never(normal(one))
            assert reason.why
            assert any(reason.part == part for part in walk(normal(one)))
            blamed += 1
    assert blamed > 30


# ---- one hash for all spellings ----------------------------------------------------------------------

CLASSES = "".join(
    f"CREATE IMMUTABLE SUBSCRIBED EVENT CLASS {name} (card STRING, n INT) ID () LIFESPAN (1d);\n"
    for name in ("Login", "Fail", "Other")
)


def program(*matches: str) -> str:
    return CLASSES + "".join(
        f"CREATE COMPLEX EVENT CLASS C{i} () ID () AS MATCH {match};\n" for i, match in enumerate(matches)
    )


def expressions(*matches: str) -> Iterator[Expression]:
    for plan in compile(program(*matches)).classes:
        if isinstance(plan.derivation, MatchPlan):
            yield plan.derivation.expression


SAME = [
    ("Login OR Fail", "Fail OR Login"),
    ("prior(Login, Fail)", "Fail AND before(Login)"),
    ("prior(Login(c, _), Fail(c, _))", "prior(Login(d, _), Fail(d, _))"),
    ("Login(_, _)", "Login"),
    ("Login OR Login[n > 5]", "Login"),
    ("Login AND Login[n > 5]", "Login[n > 5]"),
    ("Login('a', _) AND !Login('b', _)", "Login('a', _)"),
    ("Fail OR (Login AND Other)", "Fail"),
    ("relative(start, Login)", "<1> any AND Login OR (Login AND before(any))"),
    ("!!(Login OR Fail)", "Fail OR Login"),
    ("Login AND !happened(Fail(x, _))", "Login AND !happened(Fail)"),
]


@pytest.mark.parametrize(("first", "second"), SAME, ids=[f"{a} = {b}" for a, b in SAME])
def test_equal_languages_have_one_hash(first: str, second: str) -> None:
    one, other = (canonical(made) for made in expressions(first, second))
    assert equivalent(one, other)
    assert len({canonical_hash(made) for made in expressions(first, second)}) == 1
    assert [printed(leaf) for leaf in one.alphabet.leaves] == [printed(leaf) for leaf in other.alphabet.leaves]


DIFFERENT = [
    ("Login", "Fail", ("Fail",)),
    ("prior(Login, Fail)", "sequence(Login, Fail)", ("Login", "OTHER", "Fail")),
    ("prior(Login(c, _), Fail(c, _))", "sequence(Login(c, _), Fail(c, _))", ("Login(v1, _)", "OTHER", "Fail(v1, _)")),
    ("<2> Login", "EVERY <2> Login", ("Login", "Login", "Login", "Login")),
    ("Login[n > 5]", "Login", ("other Login",)),
]


@pytest.mark.parametrize(("first", "second", "wanted"), DIFFERENT)
def test_different_languages_have_two_and_a_history_between(first: str, second: str, wanted: tuple[str, ...]) -> None:
    one, other = (canonical(made) for made in expressions(first, second))
    assert len({canonical_hash(made) for made in expressions(first, second)}) == 2
    witness = distinguishing(one, other)
    assert witness is not None
    assert witness.history == wanted


def test_a_value_is_no_difference_to_a_variable() -> None:
    """For one value of c they differ, but c may be 'a'."""
    one, other = (canonical(made) for made in expressions("Login('a', _)", "Login(c, _)"))
    assert distinguishing(one, other) is None
    assert not equivalent(one, other)


def test_symbols_are_counted_without_listing_them() -> None:
    leaves = [made for made in expressions(*(f"Login[n > {i}]" for i in range(60))) if isinstance(made, Primitive)]
    assert not has_at_most(leaves, 1000)
    assert has_at_most(leaves[:5], 32)
    assert not has_at_most(leaves[:5], 31)
    constants = [made for made in expressions(*(f"Login('{i}', _)" for i in range(60))) if isinstance(made, Primitive)]
    assert has_at_most(constants, 61)
    assert len(alphabet_over(constants).symbols) == 61


# ---- warnings -----------------------------------------------------------------------------------------


def codes(text: str) -> list[str]:
    return [diagnostic.code for diagnostic in check(text).diagnostics]


def test_clauses_keep_classes_apart() -> None:
    base = "prior(Login, Fail)"
    others = ["OVER (Login, Fail)", "PARTITION BY card", "WITHIN 1h", "WHERE Login.n > 3", "WITHIN 1h COLLECT ALL"]
    assert codes(program(base, *(f"{base} {clause}" for clause in others))) == []
    for clause in others:
        assert codes(program(f"{base} {clause}", f"{base} {clause}")) == ["W307"]
    # Filters look at constituents, which the language does not show.
    assert codes(program(f"{base} WITHIN 1h", "Fail AND before(Login) WITHIN 1h")) == []
    assert codes(program("Fail OR any WITHIN 1h")) == []
    assert codes(program("any OVER (Login, Fail)")) == []


def test_a_complex_class_that_is_named_is_in_the_history_of_one_only() -> None:
    text = program("prior(Login, Fail)", "any AND !(Fail AND NULL)", "any AND !(C0 AND NULL)")
    assert codes(text) == ["W306", "W306"]
    text = program("prior(Login, Fail)", "!Fail AND !(Fail AND C0)", "!Fail")
    assert codes(text) == []


def test_what_is_too_large_is_left_alone_and_quickly() -> None:
    many = " OR ".join(f"Login[n > {i}]" for i in range(40))
    deep_exists = "".join(f"EXISTS x{i} (" for i in range(12)) + "Login"
    deep_exists += "".join(f" AND x{i}" for i in range(12)) + ")" * 12
    wide = " OR ".join(["Login"] * (limits.ANSWERS_NODES_MAX + 1))
    assert codes(program(many)) == []
    assert codes(program(deep_exists)) == []
    assert codes(program(f"<4999> ({' OR '.join(f'Login[n > {i}]' for i in range(5))})")) == []
    compared = [d.code for d in check(program(wide, "Login")).diagnostics if d.code == "W307"]
    assert compared == []


def test_the_work_for_one_program_is_bounded() -> None:
    text = program(*(f"<{n}> Login AND NULL" for n in range(2, 40)))
    assert codes(text) == ["W305"] * 38
    survey = Survey(compile(text), work_left=1).take()
    assert len(survey.compared) == 1
    assert len(survey.left_out) == 37


# ---- blow-ups ------------------------------------------------------------------------------------------

BURST = program("relative(Login, <14> Fail)")


def test_a_blow_up_names_its_part_and_proposes_a_small_one() -> None:
    checked = check(BURST)
    (found,) = checked.diagnostics
    assert (found.code, found.severity) == ("W308", Severity.WARNING)
    assert BURST[found.mark.span.start : found.mark.span.end] == "relative(Login, <14> Fail)"
    assert "slower" in found.helps[0]
    assert "(<14> Fail) /+ Login" in found.helps[1]
    (small,) = expressions("(<14> Fail) /+ Login")
    assert len(compile_expression(small).automaton.delta) == 16
    assert blow_up(normal(small)) is None


def test_explain_tells_of_a_blow_up(tmp_path: Path) -> None:
    path = tmp_path / "p.bicepl"
    path.write_text(BURST, "utf-8")
    shown = run("explain", str(path), "C0", "--stage", "automaton").stdout
    assert "more than 10,000 states" in shown
    assert "because of `relative` in relative(Login, <14> Fail)" in shown
    assert "(<14> Fail) /+ Login" in shown


# ---- the deep check --------------------------------------------------------------------------------------


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


RELATED = program("prior(Login, Fail)", "sequence(Login, Fail)", "Fail", "Fail AND !(!Fail)", "Other")


def deep_of(text: str) -> tuple[list[tuple[str, str]], dict[tuple[str, str], tuple[str, ...]]]:
    found = deep(check(text))
    implications = [(i.first.name, i.second.name) for i in found.implications]
    return implications, {(d.first.name, d.second.name): d.witness.history for d in found.differences}


def test_implications_are_reduced_and_look_alikes_told_apart() -> None:
    implications, differences = deep_of(RELATED)
    assert implications == [("C0", "C2"), ("C1", "C0")]
    assert differences == {("C0", "C1"): ("Login", "OTHER", "Fail")}


def test_a_filtered_class_implies_what_its_expression_does() -> None:
    implications, _ = deep_of(program("prior(Login, Fail) WITHIN 1h", "Fail", "Fail PARTITION BY card"))
    assert implications == [("C0", "C1")]


def test_what_time_does_not_allow_is_said() -> None:
    checked: Checked = check(program("prior(Login, Fail)", "Fail", "relative(Login, <14> Fail)"))
    answers = iter([False, False, False, False, True, True, True, True, True])
    hurried = deep(checked, lambda: next(answers, True))
    assert hurried.classes_left_out == ("C2",)
    stopped = deep(checked, lambda: True)
    assert stopped.classes_left_out == ("C2", "C0", "C1")
    (note,) = stopped.notes()
    assert (note.code, note.severity) == ("N303", Severity.NOTE)


def test_a_pair_with_too_many_states_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "COMPARISON_STATES_MAX", 5)
    found = deep(check(program("EVERY <11> Login", "EVERY <13> Login")))
    assert (found.implications, found.differences, found.pairs_left_out) == ((), (), 1)


def test_the_command_line_prints_notes(tmp_path: Path) -> None:
    path = tmp_path / "p.bicepl"
    path.write_text(RELATED, "utf-8")
    plain, shown = run("check", str(path)), run("check", str(path), "--deep", "--deep-seconds", "60")
    assert "N30" not in plain.stdout
    assert "note[N301]: wherever `C0` takes place, `C2` does too" in shown.stdout
    assert "note[N302]: `C0` and `C1` differ: after Login, OTHER, Fail only `C0` takes place" in shown.stdout
    assert shown.exit_code == 0
    written = json.loads(run("check", str(path), "--deep", "--output", "json").stdout)
    assert [d["code"] for d in written] == ["W307", "N301", "N301", "N302"]
    assert written[1]["severity"] == "note"
    assert run("check", str(path), "--deep", "--strict").exit_code == 1  # for the warning, not for notes
    hurried = run("check", str(path), "--deep", "--deep-seconds", "0").stdout
    assert "note[N303]: not compared or not shown: `C0`, `C1`" in hurried
