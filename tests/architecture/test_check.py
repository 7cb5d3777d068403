"""The check itself: no part of `make test` hides another, and no test asserts how long something took."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ENGINE = ROOT / "tests" / "scripted_engine.py"
"""Not a test: like any engine it tells how long its stages took."""

CLOCK = re.compile(r"(monotonic|perf_counter|process_time|thread_time)(_ns)?\(\) - ")


@pytest.mark.skipif(sys.platform == "win32", reason="a shell script")
@pytest.mark.parametrize(("failing", "code"), [("none", 0), ("lint", 1), ("light", 1), ("main", 1)])
def test_every_part_runs_and_one_that_failed_fails_the_whole(tmp_path: Path, failing: str, code: int) -> None:
    make = tmp_path / "make"
    make.write_text(f'#!/bin/sh\necho "ran $2"\ntest "$2" != {failing}\n')
    make.chmod(0o755)
    done = subprocess.run(
        [sys.executable, ROOT / "packaging" / "check.py", "lint", "light", "main"],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "MAKE": str(make)},
        check=False,
    )
    lines = [line for line in done.stdout.splitlines() if line]
    assert done.returncode == code
    assert sorted(lines[:3]) == ["ran light", "ran lint", "ran main"]
    assert lines[3:] == [f"{'FAILED' if part == failing else 'passed'}  {part}" for part in ("lint", "light", "main")]


def test_no_test_asserts_how_long_something_took() -> None:
    """Speed is what `evprof bench` measures; here a clock only ends a wait for what never comes."""
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in sorted((ROOT / "tests").rglob("*.py"))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if CLOCK.search(line) and path not in (Path(__file__), ENGINE)
    ]
    assert found == []
