"""`make quick` runs the tests nearest to what changed first."""

from __future__ import annotations

from pathlib import Path

from nearest_tests import LAST, ranked_tests

ROOT = Path(__file__).parents[2]


def test_what_changed_comes_first_and_the_ground_floor_last() -> None:
    ranked = ranked_tests(["tests/view/test_lanes.py", "evprof/core/units.py", "docs/json.md", "evprof/gone.py"])
    assert ranked[:2] == ["tests/view/test_lanes.py", "tests/core/test_units.py"]
    assert ranked[-1].startswith(LAST)
    assert len(ranked) == len(set(ranked))
    assert "tests/cli/test_documentation.py" in ranked  # it names json.md
    assert all((ROOT / path).exists() for path in ranked)
