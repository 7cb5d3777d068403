"""The benchmark `parts`: every part really does its work, and is told with its amounts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks import parts
from benchmarks.parts import PARTS, TimedPart, measure_parts

QUICK = ("five frames", "paint polarity", "read manifest")


def test_rows_say_what_took_how_long(bench: Callable[..., Any]) -> None:
    document = bench("parts", "--only", *QUICK, "--repeat", 2, "--json").document
    assert document["benchmark"] == "parts"
    assert [row["part"] for row in document["rows"]] == list(QUICK)
    for row in document["rows"]:
        assert 0 < row["best_ms"] <= row["ms"] <= row["worst_ms"]
        assert row["per_s"] == pytest.approx(1000 * row["amount"] / row["ms"])
        assert row["turns"] == 2
    slowest = max(document["rows"], key=lambda row: row["ms"])
    assert document["summary"] == {"slowest": slowest["part"], "slowest_ms": slowest["ms"]}


def test_each_part_takes_its_turn_and_its_first_one_does_not_count() -> None:
    done: list[str] = []

    def noting(name: str) -> TimedPart:
        return TimedPart(name, 1, "notes", lambda _: lambda: done.append(name))

    found = measure_parts(2, parts=[noting("a"), noting("b")])
    assert done == ["a", "b", "a", "b", "a", "b"]
    assert [row["turns"] for row in found["rows"]] == [2, 2]


@pytest.mark.parametrize("part", PARTS, ids=[part.name for part in PARTS])
def test_every_part_works_twice(part: TimedPart, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it prepares is its own, and a turn leaves it as it was. In small."""
    for amount in ("EVENTS", "SAMPLES", "ROWS"):
        monkeypatch.setattr(parts, amount, 40)
    work = part.prepare(tmp_path)
    work()
    work()
