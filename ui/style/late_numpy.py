"""Spares the window's first picture numpy, which takes longer to import than an empty window takes to draw.

Modules say `import numpy as np` at their top all the same. Until the first picture they get a stand-in, which becomes
numpy, for all who hold it, as soon as anything is asked of it.
"""

from __future__ import annotations

import importlib
import sys
import threading
from types import ModuleType

_LATE = ("numpy", "numpy.typing")
_lock = threading.RLock()


class LateModule(ModuleType):
    """Stands in for a module that nobody has used yet."""

    def __getattr__(self, name: str) -> object:
        load_numpy()
        return getattr(sys.modules[self.__name__], name)


def put_off_numpy() -> None:
    """Has numpy imported when it is first used. Without effect where it is imported already."""
    with _lock:
        if any(name in sys.modules for name in _LATE):
            return
        numpy, typing = (LateModule(name) for name in _LATE)
        vars(numpy)["typing"] = typing
        sys.modules.update({"numpy": numpy, "numpy.typing": typing})


def load_numpy() -> None:
    """Imports numpy now, where that was put off: for after the first picture, and before anything that asks for parts
    of numpy by their names."""
    with _lock:
        late = [module for name in _LATE if isinstance(module := sys.modules.get(name), LateModule)]
        for module in late:
            del sys.modules[module.__name__]
        for module in late:
            vars(module).update(vars(importlib.import_module(module.__name__)))
