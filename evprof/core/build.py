"""Which build of evprof this is, where that is known."""

from __future__ import annotations

import re
from pathlib import Path

from evprof.version import __version__

_HERE = Path(__file__).resolve().parents[1]

BUILD_FILE = "build.txt"
"""Beside the package: the commit, written by what makes a release; a checkout is asked instead."""

_COMMIT = re.compile(r"[0-9a-f]{7,64}")


def commit(package: Path = _HERE) -> str | None:
    """The commit this program was made from, as a full or a short hash; None where nobody knows."""
    try:
        return _checked((package / BUILD_FILE).read_text(encoding="ascii")) or _of_checkout(package.parent)
    except (OSError, ValueError):
        return _of_checkout(package.parent)


def version_text() -> str:
    """`evprof 0.2.0 (commit 796e839a)`."""
    found = commit()
    return f"evprof {__version__}{f' (commit {found[:8]})' if found else ''}"


def _of_checkout(root: Path) -> str | None:
    """What git's own files say, without starting git: HEAD, and the branch it may name."""
    try:
        git = root / ".git"
        if git.is_file():  # a further work tree
            git = root / git.read_text(encoding="utf-8").removeprefix("gitdir:").strip()
        head = (git / "HEAD").read_text(encoding="utf-8").strip()
        if not head.startswith("ref:"):
            return _checked(head)
        name = head.removeprefix("ref:").strip()
        common = git / "commondir"
        shared = git / common.read_text(encoding="utf-8").strip() if common.is_file() else git
        if (shared / name).is_file():
            return _checked((shared / name).read_text(encoding="utf-8"))
        packed = (shared / "packed-refs").read_text(encoding="utf-8").splitlines()
        return next((_checked(line.split()[0]) for line in packed if line.endswith(f" {name}")), None)
    except (OSError, ValueError):
        return None


def _checked(text: str) -> str | None:
    word = text.strip()
    return word if _COMMIT.fullmatch(word) else None
