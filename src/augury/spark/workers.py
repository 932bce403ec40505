"""What a Python worker of Spark does once, when it has imported what its tasks are made of.

PySpark collects garbage after every task. To look at all that was imported each time takes a tenth of a second, longer
than most tasks of a stream; none of it is ever garbage.
"""

from __future__ import annotations

import gc

from pyspark import TaskContext


def imports_are_kept() -> None:
    """Leave what is there now to itself, if this is a worker; called at the end of modules that tasks come from."""
    if TaskContext.get() is not None:
        gc.freeze()
