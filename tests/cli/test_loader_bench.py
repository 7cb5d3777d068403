"""The benchmarks `events` and `video`: JSON, tables, refusals."""

from __future__ import annotations

QUICK = ["events", "--events", "3000", "--repeat", "1", "--only", "evt2", "dat", "evt2.1"]
KEYS = {"slowest_vs_library", "mev_per_s", "render_vs_loop", "window_100ms_ms"}


def test_json(bench) -> None:
    found = bench(*QUICK, "--json")
    assert found.code == 0, found.errors
    document = found.document
    assert document["benchmark"] == "events"
    assert set(document["summary"]) >= KEYS
    assert [row["format"] for row in document["rows"]] == ["evt2", "evt2.1", "dat"]
    assert all(row["ours_equal"] for row in document["rows"])
    assert document["settings"] == {"events": 3000, "rounds": 1, "large": False}
