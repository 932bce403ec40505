"""Scalar expressions over Arrow columns: the in-process evaluator.

In: an expression and a column per leaf. Out: a column of values and one of errors, by docs/expressions.md.
It knows neither events nor time; what NOW, PREV and the timing primitives are, the caller says.
"""

from augury.kernels.columns.column import Evaluated, arrow_type
from augury.kernels.columns.evaluate import evaluate, holds

__all__ = ["Evaluated", "arrow_type", "evaluate", "holds"]
