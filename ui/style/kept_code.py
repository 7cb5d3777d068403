"""Spares the window's start the compiling of PySide's own modules.

They lie as text in its library, so that Python, which keeps the code of modules that are files, compiles them at every
start: a twentieth of it. This keeps theirs, too, beside the code of this module.
"""

from __future__ import annotations

import builtins
import contextlib
import importlib.util
import marshal
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import CodeType
from typing import Any

Kept = dict[tuple[str, str | bytes], CodeType]
"""By a module's file and its text."""


@contextlib.contextmanager
def keeping_code() -> Iterator[None]:
    """Around the first import of PySide: what Python is to compile meanwhile is looked up first."""
    place = Path(importlib.util.cache_from_source(__file__)).with_suffix(".pyside")
    compile_anew, kept = builtins.compile, _read(place)
    known = len(kept)

    def find(source: Any, name: Any, mode: str, *given: Any, **named: Any) -> Any:
        if mode != "exec" or given or named or not isinstance(source, str | bytes):
            return compile_anew(source, name, mode, *given, **named)
        key = str(name), source
        if key not in kept:
            kept[key] = compile_anew(source, name, mode)
        return kept[key]

    vars(builtins)["compile"] = find
    try:
        yield
    finally:
        vars(builtins)["compile"] = compile_anew
    if len(kept) > known and not sys.dont_write_bytecode:
        _write(place, kept)


def _read(place: Path) -> Kept:
    with contextlib.suppress(OSError, EOFError, ValueError, TypeError):
        kept = marshal.loads(place.read_bytes())
        return kept if isinstance(kept, dict) else {}
    return {}


def _write(place: Path, kept: Kept) -> None:
    part = place.with_suffix(f".{os.getpid()}")
    with contextlib.suppress(OSError):
        part.write_bytes(marshal.dumps(kept))
        part.replace(place)
