"""What the window shows is worked out in modules that need no Qt, and tested here where there may be none."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
QT = re.compile(r"^\s*(from|import) (PySide6|pyqtgraph)\b", re.MULTILINE)

SOURCES = [path for path in sorted((ROOT / "ui").rglob("*.py")) if path.name != "__init__.py"]
FREE = [
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for path in SOURCES
    if not QT.search(path.read_text(encoding="utf-8"))
]
"""Modules of `ui` that import no Qt themselves."""

PROBE = """
import importlib, sys
sys.modules.update(dict.fromkeys(("PySide6", "pyqtgraph", "torch")))
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except ImportError as error:
        print(name, error)
"""


def test_a_module_that_imports_no_qt_needs_none_through_others() -> None:
    assert len(FREE) > 20
    words = [sys.executable, "-c", PROBE, *FREE]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True, timeout=300)
    assert done.stdout == ""
