"""Modules that need neither Qt nor a model library, directly or through others."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
QT = re.compile(r"^\s*(from|import) (PySide6|pyqtgraph)\b", re.MULTILINE)

ABSENT = (
    *("PySide6", "pyqtgraph"),
    *("torch", "transformers", "safetensors", "sentencepiece", "bitsandbytes", "hqq", "triton"),
)

FREE = [
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for package in ("evprof", "ui")
    for path in sorted((ROOT / package).rglob("*.py"))
    if path.stem not in ("__init__", "__main__") and not QT.search(path.read_text(encoding="utf-8"))
]
"""All modules of `evprof`, and those of `ui` that import no Qt themselves."""

PROBE = f"""
import importlib, sys
sys.modules.update(dict.fromkeys({ABSENT}))
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except ImportError as error:
        print(name, error)
"""


def test_a_module_that_imports_no_qt_needs_none_through_others() -> None:
    assert sum(name.startswith("ui.") for name in FREE) > 20
    assert sum(name.startswith("evprof.") for name in FREE) > 400
    words = [sys.executable, "-c", PROBE, *FREE]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True, timeout=300)
    assert done.stdout == ""


def test_a_module_that_needs_qt_is_seen() -> None:
    words = [sys.executable, "-c", PROBE, "ui.window.main_window"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True, timeout=300)
    assert "PySide6" in done.stdout
