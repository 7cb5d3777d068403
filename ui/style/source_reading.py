"""Spares the window's start PySide's look at everything that is imported.

From its first import on PySide6 steps into every import statement, of libraries too, and reads the whole source of what
is imported, to see whether `__feature__` (other names for Qt's methods) may be switched on there. Nothing here does.
"""

from __future__ import annotations

import builtins
import importlib

from ui.style.kept_code import keeping_code
from ui.style.late_patterns import putting_off_patterns


def spare_sources() -> None:
    """Called before the window's modules are imported: loads Qt's core, and gives imports back to Python."""
    imports = builtins.__import__
    with keeping_code(), putting_off_patterns():
        importlib.import_module("PySide6.QtCore")
    builtins.__import__ = imports
