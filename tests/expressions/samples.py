"""The types and values of the table test: of every type NULL, the smallest, the largest, zero, and what is odd."""

from __future__ import annotations

import math
from datetime import date, datetime, timedelta
from decimal import Decimal

from augury import types as t
from tests.expressions.oracle import MICROSECOND, Value

MONEY = t.Decimal(10, 2)
BARE = t.Decimal(38, 18)
WHOLE = t.Decimal(38, 0)
FRACTION = t.Decimal(38, 38)

SAMPLES: dict[t.Type, list[Value]] = {
    t.BOOLEAN: [None, False, True],
    t.INT: [None, -(2**31), 2**31 - 1, 0, 1, -1, 7, -3],
    t.BIGINT: [None, -(2**63), 2**63 - 1, 0, 1, -1, 9_007_199_254_740_993, 5],
    MONEY: [None, Decimal("-99999999.99"), Decimal("99999999.99"), Decimal(0), Decimal("1.25"), Decimal("-0.05")],
    BARE: [
        None,
        Decimal("-" + "9" * 20 + "." + "9" * 18),
        Decimal("9" * 20 + "." + "9" * 18),
        Decimal(0),
        Decimal("1000.5"),
        Decimal("-0.000000000000000001"),
        Decimal("3"),
    ],
    WHOLE: [None, Decimal("-" + "9" * 38), Decimal("9" * 38), Decimal(0), Decimal(1), Decimal(-7)],
    FRACTION: [None, Decimal("-0." + "9" * 38), Decimal("0." + "9" * 38), Decimal(0), Decimal("0.5")],
    t.DOUBLE: [
        None,
        -1.7976931348623157e308,
        1.7976931348623157e308,
        5e-324,
        0.0,
        -0.0,
        math.nan,
        math.inf,
        -math.inf,
        1.5,
        -2.5,
        0.1,
        9007199254740993.0,
        1e7,
        123456.789e-9,
    ],
    t.STRING: [None, "", "a", "Z", "é", "a_c", "abc", "a%", " x ", "ẞßᾳ", "𝒜\n\x00", "%b%", "\\%", "12"],
    t.String(3): [None, "", "abc", "zzz", "ABC", "a_", "b"],
    t.TIMESTAMP: [
        None,
        datetime.min,
        datetime.max,
        datetime(1970, 1, 1),
        datetime(1969, 12, 31, 23, 59, 59, 500_000),
        datetime(2026, 2, 28, 9, 30, 15, 123_456),
        datetime(2000, 2, 29),
    ],
    t.DATE: [None, date.min, date.max, date(1970, 1, 1), date(2000, 2, 29), date(1969, 12, 31)],
    t.DURATION: [
        None,
        -(2**63) * MICROSECOND,
        (2**63 - 1) * MICROSECOND,
        timedelta(0),
        MICROSECOND,
        timedelta(days=-1),
        timedelta(hours=5),
    ],
}

TYPES: list[t.Type] = [*SAMPLES, t.NULL]

SPELLINGS: list[str] = [
    *("0", "-0", "+17", "007", "2147483647", "2147483648", "-2147483648", "-2147483649", "9223372036854775807"),
    *("9223372036854775808", "-9223372036854775808", "-9223372036854775809", "9" * 19, "9" * 40, "0" * 50 + "4"),
    *("1.5", "1.", ".5", ".", "", " ", "+", "-", "1e3", "1E-3", "1e+3", "1e", "e3", "1e999999999", "-1e-999999999"),
    *("1e9999999999", "0e999999999", "0.005", "0.004999", "-0.005", "99999999.995", "9" * 38, "1" + "0" * 38),
    *("0." + "0" * 37 + "5", "0." + "0" * 38 + "5", "1e37", "1e38", "1e-39", "5e-39", "4.9e-39", "1_000", "1,5"),
    *("0x10", "1d", "1f", "--1", "+-1", "1 2", "\t42\n", "\u00a042", "\u0661", "\uff11", "1\x00"),
    *("nan", "NaN", "-nan", "inf", "+INF", "-Infinity", "infinit", "1e400", "-1e400", "4.9e-324", "2e-324", "1e-400"),
    *("0.1", "123456789012345678901234567890", "9007199254740993", "2.2250738585072011e-308"),
    *("t", "TRUE", " yes ", "Y", "1", "f", "False", "no", "N", "on", "off", "tru", "2"),
    *("2026-01-01", "2026-01-01T09:00", "2026-01-01 09:00:00", "2026-01-01t09:00:00z", "2026-01-01T09:00:00.5Z"),
    *("2026-01-01T09:00:00.123456789+02:30", "2026-01-01T09:00:00-0130", "2026-01-01T09:00+18"),
    *("2026-01-01T09:00+18:01", "2026-01-01T09:00:00+02:60", "2026-01-01T09", "2026-01-01T", "2026-01-01Z"),
    *("2026-1-1", "2026"),
    *("2026-02-29", "2024-02-29", "1900-02-29", "2000-02-29", "2026-13-01", "2026-00-01", "2026-01-00", "2026-01-32"),
    *("2026-04-31", "2026-01-01T24:00:00", "2026-01-01T23:60:00", "2026-01-01T23:59:60", "2026-01-01T9:00"),
    *("0000-12-31", "0001-01-01", "0001-01-01T00:00+00:01", "0001-01-01T00:00-00:01", "9999-12-31T23:59:59.999999"),
    *("9999-12-31T23:59:59-01:00", "9999-12-31T23:59:59.9999999Z", "-001-01-01", "2026-01-01T09:00:00."),
    *("2026-01-01T09:00:00.1234567890", "2026-01-01T09:00:00 Z", "  2026-01-01  ", "2026-01-01T09:00:00+2:30"),
    *("abc", "02026-01-01", "2026-01-01  09:00"),
]  # fmt: skip
"""Texts to cast from: what a type reads, what it just fails to read, and what another type would."""

DOUBLES: list[float] = [
    *(1e-3, 9.99e-4, 1e7, 9999999.999999998, 1e21, 1.0e-5, 123456789.125, 2.0**63, -(2.0**63), 2.0**31, -(2.0**31) - 1),
    *(2147483647.9, -2147483648.9, 9.223372036854775e18, 0.5, -0.5, 2.5, 1e38, 9.9e37, 1e-38, 5e-39, 1e300, -1e-300),
    *(1.0000005, -1.0000005, 253402300799.9, 253402300800.0, -62135596800.0, -62135596800.000001, 1.7e18, 0.000003),
    *(4.35, 0.005, 0.015, 99999999.995, 1700000000.123457, 5e-324, 2.2250738585072014e-308),
]  # fmt: skip
"""Doubles at the edges of casts to text, integers, decimals and times."""

TEXTS: list[str | None] = [
    *("", "a", "ab", "a\nb", "a.b", "a%b", "a_b", "a\\b", "\\", "äb", "𝒜b", "AB", "a\x00b", "a\r\nb"),
    *("(a|b)*", "b\n", None),
]  # fmt: skip
PATTERNS: list[str | None] = [
    *("", "%", "_", "__", "a%", "%b", "a_b", "a__b", "a.b", "a\\%b", "a\\_b", "a\\b", "a\\\\b", "\\", "%\\", "\\\\"),
    *("_b", "%\n%", "a\x00b", "(a|b)*", "^a", "b$", "b", "[ab]", "%%", "%a%b%", None),
]  # fmt: skip
"""Texts and what they are matched with: wildcards, escapes, and what a regular expression would misread."""
