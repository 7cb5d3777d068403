"""What pip would install for a Python, and from where, without downloading it."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_PLATFORMS = ("manylinux1", "manylinux2010", "manylinux2014", *(f"manylinux_2_{minor}" for minor in range(5, 29)))


def resolved(
    wanted: Sequence[str], python: str, constraints: Path | None = None, *, is_alone: bool = False
) -> list[dict[str, Any]]:
    """The entries of pip's report for Linux on x86-64. `is_alone`: without what the packages need.

    Raises SystemExit with pip's last words.
    """
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        words = [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--quiet"]
        words += ["--disable-pip-version-check", "--only-binary", ":all:", "--target", folder]
        words += ["--python-version", python, "--report", str(report)]
        for platform in _PLATFORMS:
            words += ["--platform", f"{platform}_x86_64"]
        words += ["--no-deps"] if is_alone else []
        words += ["--constraint", str(constraints)] if constraints else []
        done = subprocess.run([*words, *wanted], capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(done.stderr.strip() or "pip ended without a word")
        found: list[dict[str, Any]] = json.loads(report.read_text(encoding="utf-8"))["install"]
        return found
