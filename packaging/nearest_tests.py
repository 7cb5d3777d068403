"""Runs the tests nearest to what differs from the main branch, for a minute at most."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Collection, Iterable, Iterator
from functools import cache
from pathlib import Path

import recorded_seconds

ROOT = Path(__file__).parents[1]
SECONDS = 60
"""After so long no further test begins; `make test` runs them all."""

FARTHEST = 4
"""Imports between a test and a changed module, at most."""

FOLDERS = {"engines": "tests/engine", "ui": "tests/gui", "packaging": "tests/frozen"}
"""Where a package is tested, if not in the folder of its name."""

LAST = ("tests/architecture", "tests/core", "tests/view")
"""Tests that fill up the minute."""


def base() -> str:
    """The commit that the branch starts from: on the main branch the last one that is pushed."""
    head, branch = _git("rev-parse", "HEAD"), _git("rev-parse", "--abbrev-ref", "HEAD")
    mains = ["origin/main"] if branch == ["main"] else ["main", "origin/main"]
    starts = [start for main in mains for start in _git("merge-base", "HEAD", main)]
    # The latest start: the one that no other start follows.
    return max(starts or head, key=lambda start: -len(_git("rev-list", f"{start}..HEAD")))


def changed_files(start: str) -> list[str]:
    """Files that differ from a commit, committed or not."""
    return [*_git("diff", "--name-only", start), *_git("ls-files", "--others", "--exclude-standard")]


def _git(*words: str) -> list[str]:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False).stdout.split()


def imports(path: Path, packages: Iterable[str]) -> Iterator[str]:
    """The files, relative to the root, that a Python file imports anywhere in it or names in a string."""
    for node in ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and re.fullmatch(r"[\w.]+", node.value):
            names = [node.value]
        else:
            continue
        for name in names:
            inside = name.replace(".", "/")
            for folder in packages:
                yield from (f"{folder}{inside}.py", f"{folder}{inside}/__init__.py")


@cache
def import_graph() -> dict[str, set[str]]:
    """Every Python file of the product, of tests and of packaging -> the files that import it."""
    files = [
        path.relative_to(ROOT)
        for folder in ("evprof", "engines", "ui", "tests", "packaging")
        for path in (ROOT / folder).rglob("*.py")
    ]
    graph: dict[str, set[str]] = {path.as_posix(): set() for path in files}
    for path in files:
        for imported in imports(path, ("", "tests/", "packaging/")):
            if imported in graph:
                graph[imported].add(path.as_posix())
        conftest = (path.parent / "conftest.py").as_posix()
        if path.name.startswith("test_") and conftest in graph:
            graph[conftest].add(path.as_posix())
    return graph


def is_test(path: str) -> bool:
    """Whether pytest collects a file."""
    return path.startswith("tests/") and Path(path).name.startswith("test_")


def ranked_tests(changed: Collection[str], seconds: recorded_seconds.Seconds) -> list[str]:
    """Test files, the nearest first; of equally near ones the shortest first.

    Nearest are the changed tests, then those named after a changed module, those that import it, directly or by way of
    other modules, those that name a changed file of another kind, those of the same folder, and LAST.
    """
    graph = import_graph()
    distances = {path: 0 for path in changed if is_test(path) and path in graph}
    tests = [path for path in graph if is_test(path)]
    modules = [path for path in changed if path in graph and not is_test(path)]
    others = [Path(path).name for path in changed if path not in graph and (ROOT / path).exists()]
    for test in tests:
        if any(_is_named_after(test, module) for module in modules):
            distances.setdefault(test, 1)
    reached = set(modules)
    for distance in range(2, 2 + FARTHEST):
        importers = {importer for path in modules for importer in graph[path]} - reached
        reached |= importers
        modules = [path for path in importers if not is_test(path)]
        for test in filter(is_test, importers):
            distances.setdefault(test, distance)
    folders = {_tests_of(path) for path in changed}
    for test in tests:
        text = (ROOT / test).read_text(encoding="utf-8")
        if any(name in text for name in others):
            distances.setdefault(test, 2)
        if test.startswith(tuple(folders)):
            distances.setdefault(test, 2 + FARTHEST)
        if test.startswith(LAST):
            distances.setdefault(test, 3 + FARTHEST)
    return sorted(distances, key=lambda test: (distances[test], _seconds(test, seconds)))


def _is_named_after(test: str, module: str) -> bool:
    """`test_MODULE...` in any folder, and `test_..._MODULE...` in the folder where the module's package is tested."""
    beginning = r"test_(\w+_)?" if test.startswith(_tests_of(module)) else "test_"
    return re.fullmatch(rf"{beginning}{Path(module).stem}(_\w+)?", Path(test).stem) is not None


def _tests_of(path: str) -> str:
    package, *rest = path.split("/")
    return FOLDERS.get(package, f"tests/{rest[0] if rest else package}") + "/"


def _seconds(test: str, seconds: recorded_seconds.Seconds) -> float:
    count = len(re.findall(r"^ *def test_", (ROOT / test).read_text(encoding="utf-8"), re.MULTILINE))
    return recorded_seconds.of_file(seconds, test, count)


def selected(ranked: Iterable[str], seconds: recorded_seconds.Seconds) -> list[str]:
    """The first file, and of the others those that fit into the minute by their recorded seconds."""
    chosen: list[str] = []
    left = float(SECONDS)
    for test in ranked:
        expected = _seconds(test, seconds)
        if expected <= left or not chosen:
            chosen.append(test)
            left -= expected
    return chosen


def excluded(changed: Iterable[str]) -> list[str]:
    """pytest's words that leave out tests of whole programs, unless a file of such tests has changed."""
    texts = [(ROOT / path).read_text(encoding="utf-8") for path in changed if is_test(path) and (ROOT / path).exists()]
    return [] if any("mark.whole" in text for text in texts) else ["-m", "not whole"]


def main() -> int:
    """Returns pytest's exit code."""
    seconds = recorded_seconds.read(recorded_seconds.folder())
    start = base()
    changed = changed_files(start)
    tests = selected(ranked_tests(changed, seconds), seconds)
    count = len(list(ROOT.glob("tests/*/test_*.py")))
    print(f"{len(changed)} files differ from {start[:8]}: {len(tests)} of {count} test files are nearest", flush=True)
    options = ["-q", "-rfE", f"--for-seconds={SECONDS}", *excluded(changed)]
    return subprocess.run([sys.executable, "-m", "pytest", *options, *tests], cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    raise SystemExit(main())
