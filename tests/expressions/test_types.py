"""Spellings of types, promotion and assignment."""

from __future__ import annotations

from itertools import product

import pytest

from augury import types as t
from tests.expressions.samples import SAMPLES, TYPES


@pytest.mark.parametrize(
    ("name", "params", "spelling"),
    [
        ("boolean", (), "BOOLEAN"),
        ("Bool", (), "BOOLEAN"),
        ("INT", (), "INT"),
        ("integer", (), "INT"),
        ("BIGINT", (), "BIGINT"),
        ("long", (), "BIGINT"),
        ("REAL", (), "DOUBLE"),
        ("double", (), "DOUBLE"),
        ("FLOAT", (), "DOUBLE"),
        ("numeric", (), "NUMERIC(38,18)"),
        ("DECIMAL", (10,), "NUMERIC(10,0)"),
        ("NUMERIC", (10, 2), "NUMERIC(10,2)"),
        ("NUMERIC", (38, 38), "NUMERIC(38,38)"),
        ("VARCHAR", (30,), "VARCHAR(30)"),
        ("varchar", (), "STRING"),
        ("TEXT", (), "STRING"),
        ("String", (), "STRING"),
        ("TIMESTAMP", (), "TIMESTAMP"),
        ("date", (), "DATE"),
    ],
)
def test_a_type_is_read_and_printed_canonically(name, params, spelling):
    assert str(t.parse_type(name, params)) == spelling


@pytest.mark.parametrize("name", ["DURATION", "NULL", "MONEY", "VARCHAR2", ""])
def test_other_words_are_no_types(name):
    assert t.parse_type(name, ()) is None


@pytest.mark.parametrize(
    ("name", "params", "message"),
    [
        ("INT", (4,), "INT takes no parameters"),
        ("NUMERIC", (39,), "the precision of NUMERIC lies between 1 and 38"),
        ("decimal", (0,), "the precision of DECIMAL lies between 1 and 38"),
        ("NUMERIC", (5, 6), r"the scale of NUMERIC\(5,6\) lies between 0 and its precision"),
        ("NUMERIC", (1, 2, 3), "NUMERIC takes a precision and a scale, not 3 parameters"),
        ("VARCHAR", (0,), "the length of VARCHAR is at least 1"),
        ("VARCHAR", (1, 2), "VARCHAR takes one length, not 2 parameters"),
    ],
)
def test_parameters_that_do_not_fit_are_refused(name, params, message):
    with pytest.raises(t.BadTypeParameters, match=f"^{message}$"):
        t.parse_type(name, params)


def test_every_type_name_is_known():
    assert all(t.parse_type(name, ()) is not None for name in t.TYPE_NAMES)


def test_promotion_is_symmetric_and_keeps_what_is_alike():
    for a, b in product(TYPES, repeat=2):
        assert t.common_type(a, b) == t.common_type(b, a)
        assert t.common_type(a, a) == a
        assert t.common_type(a, t.NULL) == a


@pytest.mark.parametrize(
    ("a", "b", "common"),
    [
        (t.INT, t.BIGINT, t.BIGINT),
        (t.INT, t.Decimal(5, 2), t.Decimal(12, 2)),
        (t.BIGINT, t.Decimal(5, 2), t.Decimal(21, 2)),
        (t.BIGINT, t.Decimal(38, 30), t.Decimal(38, 30)),
        (t.Decimal(10, 2), t.Decimal(8, 4), t.Decimal(12, 4)),
        (t.Decimal(10, 2), t.DOUBLE, t.DOUBLE),
        (t.DATE, t.TIMESTAMP, t.TIMESTAMP),
        (t.String(3), t.String(5), t.String(5)),
        (t.String(3), t.STRING, t.STRING),
        (t.BOOLEAN, t.INT, None),
        (t.STRING, t.INT, None),
        (t.DURATION, t.BIGINT, None),
        (t.DURATION, t.TIMESTAMP, None),
        (t.STRING, t.TIMESTAMP, None),
    ],
)
def test_common_types(a, b, common):
    assert t.common_type(a, b) == common


def test_what_may_be_stored_without_a_cast():
    yes: list[tuple[t.Type, t.Type]] = [
        *((t.INT, wider) for wider in (t.INT, t.BIGINT, t.Decimal(5, 5), t.DOUBLE)),
        (t.Decimal(38, 6), t.Decimal(10, 2)),
        (t.DATE, t.TIMESTAMP),
        (t.STRING, t.String(3)),
        (t.BIGINT, t.INT),
    ]
    no: list[tuple[t.Type, t.Type]] = [
        *((t.DOUBLE, narrower) for narrower in (t.INT, t.BIGINT, t.Decimal(38, 18))),
        (t.TIMESTAMP, t.DATE),
        (t.INT, t.STRING),
        (t.STRING, t.TIMESTAMP),
        (t.DURATION, t.BIGINT),
    ]
    assert all(t.assignable(source, target) for source, target in yes)
    assert not any(t.assignable(source, target) for source, target in no)
    assert all(t.assignable(t.NULL, target) for target in SAMPLES)


def test_there_is_no_impossible_decimal():
    with pytest.raises(ValueError, match=r"no NUMERIC\(39,0\)"):
        t.Decimal(39, 0)
