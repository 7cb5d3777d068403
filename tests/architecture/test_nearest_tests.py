"""`make quick` runs the tests nearest to what changed, and for no longer than it is told."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from nearest_tests import ALWAYS, nearest_tests

ROOT = Path(__file__).parents[2]


def test_what_changed_comes_first_and_the_ground_floor_last() -> None:
    found = nearest_tests(["tests/view/test_lanes.py", "evprof/core/units.py", "docs/json.md", "evprof/gone.py"])
    assert found[:2] == ["tests/view/test_lanes.py", "tests/core/test_units.py"]
    assert tuple(found[-len(ALWAYS) :]) == ALWAYS
    assert len(found) == len(set(found))
    for path in found:
        assert (ROOT / path).exists()


def test_tests_that_import_what_changed_are_run() -> None:
    assert "tests/engine/test_closeness.py" in nearest_tests(["tests/closeness.py"])
    assert "tests/run/test_conversion.py" in nearest_tests(["evprof/run/conversion/step.py"])
    assert nearest_tests([]) == list(ALWAYS)


def test_no_test_begins_after_the_time_given() -> None:
    words = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--for-seconds=0", "tests/core/test_units.py"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout
    assert "left to make test" in done.stdout
    assert " passed" not in done.stdout
