"""Small programs in, the algebra as text out: what the tests of this folder share."""

from __future__ import annotations

from augury.algebra.dump import dump_class
from augury.api import check

CLASSES = """
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS A (x INT, y STRING) ID () LIFESPAN (1d);
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS B (x INT) ID () LIFESPAN (2d);
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS C (x BIGINT) ID () LIFESPAN (3d);
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS D () ID () LIFESPAN (4d);
"""


def lines(source: str, *, definitions: str = "", attributes: str = "") -> list[str]:
    """The derivation of a class as dumped, without its first line and one level of indentation."""
    text = f"{CLASSES}{definitions}\nCREATE COMPLEX EVENT CLASS T ({attributes}) ID () AS {source};"
    checked = check(text)
    assert checked.program is not None, checked.rendered()
    plan = checked.program.class_plan("T")
    assert plan is not None
    return [line.removeprefix("  ") for line in dump_class(plan).splitlines()[1:]]


def expression(match: str, *, definitions: str = "") -> str:
    """A MATCH expression as dumped."""
    found = lines(f"MATCH {match}", definitions=definitions)
    end = next(i for i, line in enumerate(found) if line.startswith("over "))
    return "\n".join(line.removeprefix("  ") for line in found[1:end])


def codes(source: str, *, definitions: str = "", attributes: str = "") -> list[str]:
    """The codes that a class gives rise to."""
    text = f"{CLASSES}{definitions}\nCREATE COMPLEX EVENT CLASS T ({attributes}) ID () AS {source};"
    return [d.code for d in check(text).diagnostics]
