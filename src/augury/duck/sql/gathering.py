"""Which rows go into one row of a SELECT that aggregates or looks at windows.

In: a SELECT as sqlglot reads it. Out: whether its rows are gathered from others, and the windows in which a row sees
others. It writes no query by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from sqlglot import exp

from augury.event import key_of

_OF_PARTITIONS: Final = (
    *(exp.RowNumber, exp.Rank, exp.DenseRank, exp.PercentRank, exp.CumeDist),
    *(exp.Ntile, exp.Lag, exp.Lead),
)
"""What looks at a whole partition, whatever the frame."""


def collected(made: str) -> str:
    """What all rows of a group are made of, for DuckDB."""
    return f"coalesce(flatten(list({made})), CAST([] AS BIGINT[]))"


def gathers(node: exp.Select) -> bool:
    """Whether a select list aggregates or looks at a window."""
    return any(isinstance(inner, exp.AggFunc | exp.Window) for inner in _inside(node.expressions))


def aggregates(node: exp.Select) -> bool:
    """Whether a select list aggregates, windows apart."""
    return any(isinstance(inner, exp.AggFunc) and not _is_windowed(inner) for inner in _inside(node.expressions))


def seen_by(node: exp.Select, named: Mapping[str, exp.Window]) -> list[exp.Window]:
    """The windows of a select list and of QUALIFY, as far as their functions look: a frame, or the partition."""
    qualify = node.args.get("qualify")
    found = _inside([*node.expressions, *([qualify] if qualify else [])])
    return [_seen(inner, named) for inner in found if isinstance(inner, exp.Window)]


def _seen(window: exp.Window, named: Mapping[str, exp.Window]) -> exp.Window:
    if not isinstance(_function(window), _OF_PARTITIONS):
        return window
    name = window.args.get("alias")
    told = named[key_of(name.name)] if name else window
    return exp.Window(partition_by=[one.copy() for one in told.args.get("partition_by") or ()])


def _function(window: exp.Window) -> exp.Expr:
    inner: exp.Expr = window.this
    while isinstance(inner, exp.Filter | exp.IgnoreNulls | exp.RespectNulls):
        inner = inner.this
    return inner


def _is_windowed(node: exp.Expr) -> bool:
    parent = node.parent
    while isinstance(parent, exp.Filter | exp.IgnoreNulls | exp.RespectNulls):
        parent = parent.parent
    return isinstance(parent, exp.Window) and _function(parent) is node


def _inside(nodes: Sequence[exp.Expr]) -> Iterator[exp.Expr]:
    """All that stands in expressions, queries in them apart."""
    return (inner for node in nodes for inner in node.dfs(prune=lambda one: isinstance(one, exp.Query)))
