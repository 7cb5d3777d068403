"""`make quick` runs the tests nearest to what changed, and for no longer than it is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from nearest_tests import LAST, SECONDS, ranked_tests, selected

ROOT = Path(__file__).parents[2]


def test_what_changed_comes_first_and_the_ground_floor_last() -> None:
    ranked = ranked_tests(["tests/view/test_lanes.py", "evprof/core/units.py", "docs/json.md", "evprof/gone.py"], {})
    assert ranked[:2] == ["tests/view/test_lanes.py", "tests/core/test_units.py"]
    assert ranked[-1].startswith(LAST)
    assert len(ranked) == len(set(ranked))
    assert "tests/cli/test_documentation.py" in ranked  # it names json.md
    for path in ranked:
        assert (ROOT / path).exists()


@pytest.mark.parametrize(
    ("changed", "test"),
    [
        ("tests/published_heads.py", "tests/engine/test_published_heads.py"),
        ("tests/gui/conftest.py", "tests/gui/test_timeline.py"),
        ("evprof/run/conversion/task.py", "tests/run/test_conversion.py"),
        ("evprof/core/vocabulary/switches.py", "tests/view/test_settings_text.py"),
    ],
)
def test_tests_that_import_what_changed_are_near(changed: str, test: str) -> None:
    ranked = ranked_tests([changed], {})
    assert ranked.index(test) < ranked.index("tests/core/test_safe_text.py")


def test_nearest_tests_fit_into_the_minute_by_their_recorded_seconds() -> None:
    near, long, other = "tests/core/test_units.py", "tests/core/test_plain.py", "tests/core/test_errors.py"
    seconds = {near: {"test_a": 30.0}, long: {"test_b": SECONDS * 1.0}, other: {}}
    assert selected([near, long, other], seconds) == [near, other]
    assert selected([long, other], seconds)[0] == long
