"""Which build of evprof this is, where that is known."""

from __future__ import annotations

import contextlib
import re
import subprocess
from pathlib import Path

from evprof.version import __version__

_HERE = Path(__file__).resolve().parents[1]

BUILD_FILE = "build.txt"
"""Beside the package: the commit, written by what makes a release; in a checkout git reports it."""

_COMMIT = re.compile(r"[0-9a-f]{7,64}")


def commit(package: Path = _HERE) -> str | None:
    """The commit this program was made from, as a full or a short hash; None where it is unknown."""
    try:
        return _checked((package / BUILD_FILE).read_text(encoding="ascii")) or _of_checkout(package.parent)
    except (OSError, ValueError):
        return _of_checkout(package.parent)


def version_text() -> str:
    """`evprof 0.2.0 (commit 796e839a)`."""
    found = commit()
    return f"evprof {__version__}{f' (commit {found[:8]})' if found else ''}"


def _of_checkout(root: Path) -> str | None:
    """The commit that git reports for a checkout; None without one, or without git."""
    if not (root / ".git").exists():
        return None
    words = ["git", "-C", str(root), "rev-parse", "HEAD"]
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        return _checked(subprocess.run(words, capture_output=True, text=True, check=False, timeout=10).stdout)
    return None


def _checked(text: str) -> str | None:
    word = text.strip()
    return word if _COMMIT.fullmatch(word) else None
