"""The picture of an automaton: well-formed, self-contained, complete, and nothing on top of another."""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path
from xml.etree import ElementTree as Xml

import pytest
from typer.testing import CliRunner, Result

from augury.algebra.expression import MatchPlan
from augury.api import compile
from augury.automata.automaton import Automaton
from augury.automata.build import compile_expression
from augury.automata.drawing import draw
from augury.cli import app

ROOT = Path(__file__).parents[2]
SVG = "{http://www.w3.org/2000/svg}"
SEEDS = sorted((ROOT / "examples" / "seeds").glob("ode_*.bicepl"))
DISCOUNT = str(ROOT / "examples" / "seeds" / "ode_discount_rate.bicepl")


def pictures(path: Path) -> list[tuple[str, Automaton, Xml.Element]]:
    found = []
    for plan in compile(path.read_text("utf-8")).classes:
        if isinstance(plan.derivation, MatchPlan):
            compiled = compile_expression(plan.derivation.expression)
            text = draw(compiled.automaton, compiled.alphabet.names(), title=plan.event_class.name)
            found.append((plan.event_class.name, compiled.automaton, Xml.fromstring(text)))
    return found


def of_kind(picture: Xml.Element, tag: str, kind: str) -> list[Xml.Element]:
    return [node for node in picture.iter(SVG + tag) if node.get("class") == kind]


@pytest.mark.parametrize("path", SEEDS, ids=lambda p: p.stem)
def test_every_automaton_of_the_paper_is_drawn_whole(path: Path) -> None:
    for name, automaton, picture in pictures(path):
        arrows = sum(len(set(row)) for row in automaton.delta)
        assert len(of_kind(picture, "circle", "state")) == len(automaton.delta), name
        assert len(of_kind(picture, "circle", "ring")) == sum(automaton.accepting), name
        assert len(of_kind(picture, "path", "move")) == arrows + 1, name
        assert len(of_kind(picture, "text", "label")) == arrows, name
        numbers = [node.text for node in of_kind(picture, "text", "number")]
        assert numbers == [str(state) for state in range(len(automaton.delta))]


@pytest.mark.parametrize("path", SEEDS, ids=lambda p: p.stem)
def test_states_stand_apart_and_everything_is_inside(path: Path) -> None:
    for name, automaton, picture in pictures(path):
        left, top, width, height = (float(number) for number in str(picture.get("viewBox")).split())
        circles = [(float(n.get("cx", 0)), float(n.get("cy", 0))) for n in of_kind(picture, "circle", "state")]
        for (ax, ay), (bx, by) in combinations(circles, 2):
            assert max(abs(ax - bx), abs(ay - by)) > 60, name
        texts = [(float(n.get("x", 0)), float(n.get("y", 0))) for n in picture.iter(SVG + "text")]
        for x, y in circles + texts:
            assert left <= x <= left + width, name
            assert top <= y <= top + height, name
        labels = [(float(n.get("x", 0)), float(n.get("y", 0))) for n in of_kind(picture, "text", "label")]
        if len(automaton.delta) <= 8:
            assert all(abs(a[0] - b[0]) > 6 or abs(a[1] - b[1]) > 12 for a, b in combinations(labels, 2)), name


def test_text_is_escaped_and_long_names_have_a_legend() -> None:
    names = ["A[x < 1 AND y > 2 AND z = 'a&b']", "<b>", "OTHER"]
    text = draw(Automaton(3, (), ((1, 0, 2), (1, 1, 0), (0, 0, 2)), (False, True, False)), names, title="a < b & c")
    picture = Xml.fromstring(text)
    shown = [node.text for node in picture.iter(SVG + "text")]
    assert f"a: {names[0]}" in shown
    assert any(label is not None and "<b>" in label for label in shown)
    assert picture.find(SVG + "title").text == "a < b & c"  # type: ignore[union-attr]


def test_a_picture_needs_nothing_from_elsewhere() -> None:
    for path in SEEDS:
        text = path.read_text("utf-8")
        plan = next(p for p in compile(text).classes if isinstance(p.derivation, MatchPlan))
        assert isinstance(plan.derivation, MatchPlan)
        compiled = compile_expression(plan.derivation.expression)
        picture = draw(compiled.automaton, compiled.alphabet.names())
        assert not re.search(r"href|@import|<script|url\((?!#)", picture)
        assert picture == draw(compiled.automaton, compiled.alphabet.names())


def test_one_state_and_many_are_drawn() -> None:
    assert "any" in draw(Automaton(2, (), ((0, 0),), (False,)), ["A", "OTHER"])
    size = 30
    chain = Automaton(2, (), tuple((min(i + 1, size - 1), 0) for i in range(size)), (False,) * (size - 1) + (True,))
    assert draw(chain, ["A", "OTHER"]).count('class="state"') == size


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def test_the_command_line_draws_one_class() -> None:
    done = run("explain", DISCOUNT, "Three_cuts_pipe", "--stage", "automaton", "--svg")
    assert done.exit_code == 0
    assert Xml.fromstring(done.stdout).find(SVG + "title").text == "Three_cuts_pipe"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "arguments",
    [
        ["Three_cuts_pipe", "--stage", "automaton", "--svg", "--dot"],
        ["Three_cuts_pipe", "--svg"],
        ["--stage", "automaton", "--svg"],
    ],
)
def test_the_command_line_refuses_what_is_no_picture(arguments: list[str]) -> None:
    assert run("explain", DISCOUNT, *arguments).exit_code == 2
