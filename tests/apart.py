"""Code that tests run in a Python of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def run_apart(code: str, **environment: str) -> str:
    """What it prints; it may keep compiled files, unless `environment` says otherwise."""
    kept = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        timeout=300,
        env=kept | environment,
    )
    return done.stdout.strip()
