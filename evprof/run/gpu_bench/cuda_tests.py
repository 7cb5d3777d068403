"""Section "tests": the tests that need a GPU, by pytest in a process of its own, counted as they end."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evprof.core.errors import UserError

_RESULT = re.compile(r"^(\S+\.py::.*?) (PASSED|FAILED|SKIPPED|ERROR|XFAIL|XPASS)\b")
_REASON = re.compile(r"^(?:FAILED|ERROR) (\S+\.py\S*.*?) - (.*)$")
_OWN_KERNELS = re.compile("kernel|fused")
_BAD = ("FAILED", "ERROR", "XPASS")
_NONE_RAN = 5

SPARE_S = 20.0
"""How long the last test and the summary may take: no test begins later than that before the section's end."""


@dataclass
class TestCounts:
    """What pytest said so far: counts by outcome, and of what failed the name and, once told, why."""

    __test__ = False
    by_outcome: dict[str, int] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)

    def hear(self, line: str) -> None:
        """Takes a line of `pytest -v`."""
        if reason := _REASON.match(line):
            self.failures[reason[1]] = reason[2].strip()
        elif result := _RESULT.match(line):
            self.by_outcome[result[2]] = self.by_outcome.get(result[2], 0) + 1
            if result[2] in _BAD:
                self.failures.setdefault(result[1], "")

    def to_json(self) -> dict[str, Any]:
        """A row."""
        count = self.by_outcome.get
        return {
            "figure": "tests",
            "passed": count("PASSED", 0) + count("XFAIL", 0),
            "failed": sum(count(word, 0) for word in _BAD),
            "skipped": count("SKIPPED", 0),
            "failures": [{"name": name, "reason": reason} for name, reason in self.failures.items()],
        }


def tests_folder() -> Path | None:
    """Where the engine's tests lie in a checkout; None in an installed program."""
    folder = Path(__file__).resolve().parents[3] / "tests" / "engine"
    return folder if folder.is_dir() else None


def cuda_test_files(folder: Path) -> list[Path]:
    """Those whose tests all need a GPU; our own kernels' first, which are new to every GPU."""
    return sorted(folder.glob("test_*cuda*.py"), key=lambda path: (not _OWN_KERNELS.search(path.name), path.name))


def run_cuda_tests(emit: Callable[[dict[str, Any]], None], left_s: float) -> str:
    """Emits one row of counts and a row for each failure; returns the section's sentence.

    Raises UserError where there are no tests, pytest is missing, or it could not collect them.
    """
    folder = tests_folder()
    files = cuda_test_files(folder) if folder is not None else []
    if folder is None or not files:
        return "There is no folder of tests here: run it from a checkout to have them."
    argv = [sys.executable, "-m", "pytest", "-v", "-rfE", "--tb=short", "--color=no"]
    argv += ["-p", "no:cacheprovider", "-p", "no:benchmark"]
    # Without its plugin the time limit in pyproject.toml is an option that pytest does not know.
    argv += ["-W", "ignore::pytest.PytestConfigWarning", f"--for-seconds={max(left_s - SPARE_S, 1):.0f}"]
    process = subprocess.Popen(
        [*argv, *map(str, files)], cwd=folder.parents[1], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert process.stdout is not None
    counts = TestCounts()
    with process.stdout:
        for line in process.stdout:
            sys.stderr.write(line)  # for the section's log
            counts.hear(line)
    code = process.wait()
    row = counts.to_json()
    emit(row)
    if code == _NONE_RAN and row["skipped"]:  # as without a GPU
        code = 0
    if code not in (0, 1) or row["failed"]:
        raise UserError(_sentence(row, code))
    return _sentence(row, code)


def _sentence(row: dict[str, Any], code: int) -> str:
    if code not in (0, 1):
        return f"pytest ended with code {code}."
    named = ", ".join(failure["name"].rpartition("/")[2] for failure in row["failures"][:3])
    more = f": {named}{' and others' if len(row['failures']) > 3 else ''}" if named else ""
    return f"{row['passed']} passed, {row['skipped']} skipped, {row['failed']} failed{more}."
