"""What recording costs is kept as it was measured, with its interval, and never made up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from evprof.run.kept_overhead import keep_overhead, observer_effect


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path))
    return tmp_path


def _document(machine: str = "A Processor", pairs: int = 300, **summary: Any) -> dict[str, Any]:
    found = {
        "shape": "dispatch-32",
        "pairs": pairs,
        "instrumented_vs_off": 1.0031,
        "instrumented_vs_off_ci95_low": 0.9991,
        "instrumented_vs_off_ci95_high": 1.0079,
        "a_vs_a": 1.0002,
    }
    return {"environment": {"device": machine, "evprof": "1.0"}, "summary": found | summary}


def test_what_was_measured_is_told_with_its_interval_and_from_what() -> None:
    keep_overhead(_document(), "2026-01-02")
    found = observer_effect("A Processor")
    assert found is not None
    assert found.text == "+0.3 % (−0.1 … +0.8 %)"
    for part in (
        "300 pairs",
        "2026-01-02",
        "A Processor",
        "dispatch-32",
        "evprof 1.0",
        "0.0 %",
        "drawing does is not in it",
    ):
        assert part in found.sentence


def test_of_one_machine_the_newest_counts_and_of_another_nothing_is_said() -> None:
    keep_overhead(_document(), "2026-01-02")
    keep_overhead(_document(instrumented_vs_off=1.02), "2026-01-03")
    keep_overhead(_document("Another"), "2026-01-04")
    found = observer_effect("A Processor")
    assert found is not None
    assert (found.ratio, found.measured) == (1.02, "2026-01-03")
    assert observer_effect("A Third") is None


@pytest.mark.parametrize("text", ["", "{}", "[1, {}]", '[{"machine": "A Processor", "ratio": "x"}]', "[" * 100_000])
def test_a_damaged_file_is_as_good_as_none(data: Path, text: str) -> None:
    keep_overhead(_document("Another"), "2026-01-02")
    next(data.rglob("overhead.json")).write_text(text)
    assert observer_effect("A Processor") is None
