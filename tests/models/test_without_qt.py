"""The modules of `evprof` need neither Qt nor a model library, directly or through others."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

ABSENT = (
    *("PySide6", "pyqtgraph"),
    *("torch", "transformers", "safetensors", "sentencepiece", "bitsandbytes", "hqq", "triton"),
)

MODULES = [
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for path in sorted((ROOT / "evprof").rglob("*.py"))
    if path.stem not in ("__init__", "__main__")
]

PROBE = f"""
import importlib, sys
sys.modules.update(dict.fromkeys({ABSENT}))
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except ImportError as error:
        print(name, error)
"""


def test_no_module_of_evprof_needs_qt_or_torch() -> None:
    assert len(MODULES) > 250
    words = [sys.executable, "-c", PROBE, *MODULES]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True, timeout=300)
    assert done.stdout == ""


def test_a_module_that_needs_qt_is_seen() -> None:
    words = [sys.executable, "-c", PROBE, "ui.window.main_window"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True, timeout=300)
    assert "PySide6" in done.stdout
