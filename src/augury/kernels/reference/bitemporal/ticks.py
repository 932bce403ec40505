"""Chronons and ticks: which tick reads a version, and which ticks there are (LANGUAGE.md section 1)."""

from __future__ import annotations


def tick_of(moment: int, chronon_us: int) -> int:
    """The end of the chronon that a moment lies in; chronon k covers [k·c, (k+1)·c)."""
    return (moment // chronon_us + 1) * chronon_us


def ticks_between(first: int, until: int, chronon_us: int) -> range:
    """Every tick from one on, up to a time; busy or idle."""
    return range(first, until + 1, chronon_us)
