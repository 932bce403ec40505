"""Event graphs of COMPOSITE: what a plan becomes before any kernel runs it.

In: a plan of the algebra. Out: numbered nodes as plain data, that print. It knows no event, no batch and no context.
"""

from augury.graphs.build import NotYet, graph_of, written_of
from augury.graphs.graph import Graph

__all__ = ["Graph", "NotYet", "graph_of", "written_of"]
