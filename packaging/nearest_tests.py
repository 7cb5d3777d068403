"""Runs the tests nearest to what differs from the main branch, for a minute."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[1]
SECONDS = 60
"""After so long no further test begins; `make test` runs them all."""

ALWAYS = ("tests/core", "tests/view", "tests/architecture")


def changed_files() -> list[str]:
    """What differs from the main branch or, on it, from the commit before; with what is not committed yet."""
    base = _git("merge-base", "HEAD", "main") or _git("merge-base", "HEAD", "origin/main")
    if base in ([], _git("rev-parse", "HEAD")):
        base = _git("rev-parse", "HEAD~1")
    return [*_git("diff", "--name-only", *base), *_git("ls-files", "--others", "--exclude-standard")]


def _git(*words: str) -> list[str]:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False).stdout.split()


def nearest_tests(changed: Iterable[str]) -> list[str]:
    """Changed tests, those named after changed modules, those that import them, and always the ground floor's."""
    paths = [Path(path) for path in changed if path.endswith(".py") and (ROOT / path).exists()]
    tests = {
        path.relative_to(ROOT): path.read_text(encoding="utf-8") for path in sorted(ROOT.glob("tests/*/test_*.py"))
    }
    found = [path for path in paths if path in tests]
    modules = [path for path in paths if path not in tests]
    found += [test for test in tests for module in modules if test.stem.startswith(f"test_{module.stem}")]
    found += [test for module in modules for test, text in tests.items() if _imports(text, module)]
    return [*dict.fromkeys(map(Path.as_posix, found)), *ALWAYS]


def _imports(text: str, module: Path) -> bool:
    """Whether a test's text imports a module by its whole name, or a file beside the folders of tests."""
    *folders, name = module.with_suffix("").parts
    if folders in (["tests"], ["packaging"]):
        return re.search(rf"^\s*(from|import) {name}\b", text, re.MULTILINE) is not None
    package = r"\.".join(folders)
    return (
        re.search(rf"^\s*(from {package}\.{name} |from {package} import .*\b{name}\b)", text, re.MULTILINE) is not None
    )


def main() -> int:
    """pytest's exit code."""
    options = ["-q", "-n", "2", "--dist", "load", f"--for-seconds={SECONDS}"]
    program = [sys.executable, "-m", "pytest", *options, *nearest_tests(changed_files())]
    return subprocess.run(program, cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    raise SystemExit(main())
