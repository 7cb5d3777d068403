"""The main window: its parts, menus and messages.

PySide6's first import replaces `builtins.__import__` with one that reads the source of every imported module, to look
for `__feature__`. evprof never uses `__feature__`, so Python's own `__import__` is restored.
"""

import builtins
import contextlib
import importlib

_import = builtins.__import__
with contextlib.suppress(ImportError):  # modules of this package that need no Qt are imported without it, too
    importlib.import_module("PySide6.QtCore")
builtins.__import__ = _import
