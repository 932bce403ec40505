"""Compiles every loop whose types are known, once: processes that want one at the same time compile it each by itself.

In: the sources. Out: machine code beside them, as numba keeps it.
"""

from __future__ import annotations

import pkgutil
from importlib import import_module

from augury.kernels.compiled import Loop


def loops() -> list[Loop]:
    """Those of all modules below the folders that have some, each once."""
    found = {}
    for folder in ("augury.kernels", "augury.history"):
        for module in pkgutil.walk_packages(import_module(folder).__path__, f"{folder}."):
            for value in vars(import_module(module.name)).values():
                if isinstance(value, Loop):
                    found[id(value)] = value
    return list(found.values())


if __name__ == "__main__":
    for one in loops():
        one.prepare()
