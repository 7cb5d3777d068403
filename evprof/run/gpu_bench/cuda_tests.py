"""Section "tests": the tests that need a GPU, by pytest in a process of its own, counted as they end."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from xml.etree import ElementTree

from evprof.core.errors import UserError

_OWN_KERNELS = re.compile("kernel|fused")
_NONE_RAN = 5

SPARE_S = 20.0
"""How long the last test and the summary may take: no test begins later than that before the section's end."""


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
    with TemporaryDirectory(prefix="evprof-tests-") as place:
        report = Path(place) / "report.xml"
        argv += [f"--junitxml={report}", *map(str, files)]
        # Standard error is the log of the section.
        code = subprocess.run(argv, cwd=folder.parents[1], stdout=sys.stderr, check=False).returncode
        row = counts_of(report)
    emit(row)
    if code == _NONE_RAN and row["skipped"]:  # as without a GPU
        code = 0
    if code not in (0, 1) or row["failed"]:
        raise UserError(_sentence(row, code))
    return _sentence(row, code)


def counts_of(report: Path) -> dict[str, Any]:
    """The row of a JUnit report that pytest wrote; zeros where it wrote none."""
    counts, failures = Counter[str](), []
    for case in ElementTree.parse(report).iter("testcase") if report.is_file() else ():
        problems = {found.tag: found for found in case if found.tag in ("failure", "error", "skipped")}
        bad = problems.get("failure", problems.get("error"))
        is_xfail = "skipped" in problems and problems["skipped"].get("type") == "pytest.xfail"
        counts["failed" if bad is not None else "skipped" if problems and not is_xfail else "passed"] += 1
        if bad is not None:
            file = case.get("classname", "").replace(".", "/")
            name = f"{file}.py::{case.get('name')}" if file else case.get("name")
            failures.append({"name": name, "reason": (bad.get("message") or "").partition("\n")[0]})
    return {"figure": "tests", **{key: counts[key] for key in ("passed", "failed", "skipped")}, "failures": failures}


def _sentence(row: dict[str, Any], code: int) -> str:
    if code not in (0, 1):
        return f"pytest ended with code {code}."
    named = ", ".join(failure["name"].rpartition("/")[2] for failure in row["failures"][:3])
    more = f": {named}{' and others' if len(row['failures']) > 3 else ''}" if named else ""
    return f"{row['passed']} passed, {row['skipped']} skipped, {row['failed']} failed{more}."
