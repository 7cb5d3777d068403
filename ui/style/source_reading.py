"""Spares the window's start the reading of its own sources.

From its first import on, PySide6 reads the whole source of every module that is imported, of libraries too, to see
whether it uses Qt: only such modules may switch on `__feature__` (other names for Qt's methods). Nothing here does.
"""

from __future__ import annotations

import importlib

from ui.style.kept_code import keeping_code


def spare_sources() -> None:
    """Called before the window's modules are imported: loads Qt's core, and has all of them taken for users of Qt."""
    with keeping_code():
        importlib.import_module("PySide6.QtCore")
    try:
        features = importlib.import_module("shibokensupport.feature")
    except ImportError:
        return
    if hasattr(features, "_mod_uses_pyside"):
        vars(features)["_mod_uses_pyside"] = lambda _module: True
