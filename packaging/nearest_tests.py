"""Runs the tests nearest to what differs from the main branch, for a minute at most."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[1]
SECONDS = 60
"""After so long no further test begins; `make test` runs them all."""

LAST = ("tests/architecture", "tests/core", "tests/view")
"""Tests that fill up the minute."""


def base() -> str:
    """The commit that the branch starts from: on the main branch the last one that is pushed."""
    branch = _git("rev-parse", "--abbrev-ref", "HEAD")
    starts = _git("merge-base", "HEAD", "origin/main" if branch == ["main"] else "main")
    return (starts or _git("rev-parse", "HEAD"))[0]


def changed_files(start: str) -> list[str]:
    """Files that differ from a commit, committed or not."""
    return [*_git("diff", "--name-only", start), *_git("ls-files", "--others", "--exclude-standard")]


def _git(*words: str) -> list[str]:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False).stdout.split()


def ranked_tests(changed: Iterable[str]) -> list[str]:
    """Test files, the nearest first: changed ones, those named after a changed file, those that name one, and LAST.

    A test names a Python file by its import path, and any other file by its name.
    """
    texts = {
        path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
    }
    names = [
        re.escape(path.removeprefix("tests/").removeprefix("packaging/").removesuffix(".py").replace("/", "."))
        if path.endswith(".py")
        else re.escape(Path(path).name)
        for path in changed
    ]
    named = re.compile(rf"(?:{'|'.join(names)})\b") if names else None
    stems = [Path(path).stem for path in changed if path.endswith(".py")]
    distances = {}
    for test, text in texts.items():
        if test in changed:
            distances[test] = 0
        elif any(re.search(rf"_{stem}(_|$)", Path(test).stem) for stem in stems):
            distances[test] = 1
        elif named is not None and named.search(text):
            distances[test] = 2
        elif test.startswith(LAST):
            distances[test] = 3
    return sorted(distances, key=lambda test: distances[test])


def main() -> int:
    """Returns pytest's exit code."""
    start = base()
    changed = changed_files(start)
    tests = ranked_tests(changed)
    print(f"{len(changed)} files differ from {start[:8]}: {len(tests)} test files are nearest", flush=True)
    options = ["-q", "-rfE", f"--for-seconds={SECONDS}", "-m", "not whole"]
    return subprocess.run([sys.executable, "-m", "pytest", *options, *tests], cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    raise SystemExit(main())
