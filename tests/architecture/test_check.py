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


MAKE = """#!/bin/sh
test "$2" = engine && echo ".......... [ 12%]
.....F.... [100%]"
echo "ran $2"
echo "1 passed in 2 s"
test "$2" != {failing} && exit
echo "make: *** [Makefile:1: $2] Error 1"
exit 1
"""


@pytest.mark.skipif(sys.platform == "win32", reason="a shell script")
@pytest.mark.parametrize(("failing", "code"), [("none", 0), ("style", 1), ("engine", 1), ("ground", 1)])
def test_every_part_runs_and_one_that_failed_fails_the_whole(tmp_path: Path, failing: str, code: int) -> None:
    make = tmp_path / "make"
    make.write_text(MAKE.format(failing=failing))
    make.chmod(0o755)
    parts = ("style", "engine", "ground")
    done = subprocess.run(
        [sys.executable, ROOT / "packaging" / "check.py", *parts],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "MAKE": str(make)},
        check=False,
    )
    lines = done.stdout.splitlines()
    assert done.returncode == code
    for part in parts:
        began = lines.index(f"--- {part}")
        assert lines[began + 1 : began + 3] == [f"ran {part}", "1 passed in 2 s"]
    assert lines.index("engine 12 %") < lines.index("engine 100 %, a test failed") < lines.index("--- engine")
    summary = [line.split(maxsplit=2) for line in lines[-3:]]
    assert [(status, part) for status, part, _ in summary] == [
        ("FAILED" if part == failing else "passed", part) for part in parts
    ]
    assert all(rest.endswith("s  1 passed in 2 s") for *_, rest in summary)


def test_no_test_asserts_how_long_something_took() -> None:
    """Speed is what `tests/benchmarks` measures; here a clock only ends a wait for what never comes."""
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in sorted((ROOT / "tests").rglob("*.py"))
        if path.parent.name != "benchmarks"
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if CLOCK.search(line) and path not in (Path(__file__), ENGINE)
    ]
    assert found == []
