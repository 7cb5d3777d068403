"""The benchmark `events`: right and wrong results told apart, what is missing said, in processes of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.event_files import write_evt21
from benchmarks.event_formats import CONTESTS, Contest
from benchmarks.events import EventsPlan, measure_events, measure_rendering
from benchmarks.moving_edges import moving_edges
from benchmarks.processes import run_argv
from evprof.core.errors import UserError
from evprof.core.events import EventArray
from evprof.loaders.events.opening import read_events
from evprof.loaders.writers.raw import write_evt2

ARGV = tuple(run_argv("_read-events"))


def write_right(path: Path, events: EventArray) -> None:
    write_evt2(path, [events], width=640, height=480)


def write_wrong(path: Path, events: EventArray) -> None:
    """One polarity of all is another."""
    p = np.array(events.p)
    p[-1] ^= 1
    write_right(path, EventArray(events.x, events.y, events.t_us, p))


def write_nonsense(path: Path, events: EventArray) -> None:
    path.write_bytes(b"nothing that anybody reads" * len(events))


def measured(*contests: Contest, rounds: int = 1) -> dict[str, Any]:
    return measure_events(EventsPlan(ARGV, 3000, rounds, contests=contests))


def test_readers_take_turns_and_are_checked() -> None:
    chosen = [each for each in CONTESTS if each.name in ("evt2", "npy structured")]
    notes: list[str] = []
    plan = EventsPlan(ARGV, 3000, 2, contests=tuple(chosen))
    document = measure_events(plan, notes.append)
    rows = {row["format"]: row for row in document["rows"]}
    assert set(rows) == {"evt2", "npy structured"}
    for row in rows.values():
        assert row["ours_equal"] is True
        assert row["library_equal"] is True
        assert row["events"] == 3000
        assert row["ours_best_mev_s"] >= row["ours_mev_s"] > 0
        assert row["ratio"] > 0
        assert row["reason"] is None
        assert row["ours_peak_mb"] >= 0
    assert rows["evt2"]["library"] == "faery"
    summary = document["summary"]
    assert summary["slowest_vs_library"] == min(row["ratio"] for row in rows.values())
    assert summary["mev_per_s"]["evt2"] == rows["evt2"]["ours_mev_s"]
    assert summary["render_is_identical"] is True
    assert summary["window_100ms_ms"] is None
    assert len(notes) == 3


def test_wrong_events_are_told() -> None:
    (row,) = measured(Contest("wrong", "a.raw", write_wrong, ("faery",)))["rows"]
    assert row["ours_equal"] is False
    assert row["library_equal"] is False


def test_what_is_not_there_is_null_with_a_reason() -> None:
    document = measured(
        Contest("no library", "a.raw", write_right, ("no_such_library",)),
        Contest("no writer", "b.raw", write_right, needs="no_such_library"),
        Contest("no reader", "c.raw", write_nonsense, ("faery",)),
    )
    library, writer, reader = document["rows"]
    assert (library["library"], library["ratio"], library["ours_equal"]) == (None, None, True)
    assert library["reason"] == "no_such_library is not installed."
    assert (writer["file_bytes"], writer["ours_mev_s"]) == (None, None)
    assert "no_such_library" in writer["reason"]
    assert reader["ours_mev_s"] is None
    assert reader["reason"].startswith("small-c.raw: is no event recording")
    assert document["summary"]["slowest_vs_library"] is None


def test_windows_are_measured_in_the_dsec_file() -> None:
    pytest.importorskip("h5py")
    (contest,) = [each for each in CONTESTS if each.name.startswith("dsec") and "zstd" in each.name]
    document = measure_events(EventsPlan(ARGV, 300_000, 1, contests=(contest,)))
    summary = document["summary"]
    assert document["rows"][0]["ours_equal"] is True
    assert 0 < summary["window_100ms_ms"] <= summary["window_slowest_ms"]
    assert 50_000 < summary["window_events"] < 200_000
    assert summary["window_file_bytes"] == document["rows"][0]["file_bytes"]


@pytest.mark.parametrize(
    ("plan", "sentence"),
    [
        (EventsPlan(ARGV, 10), "--events"),
        (EventsPlan(ARGV, rounds=0), "--repeat"),
        (EventsPlan(ARGV, only=("evt9",)), "no format 'evt9'"),
    ],
)
def test_plans_that_mean_nothing_are_refused(plan: EventsPlan, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence) as refused:
        measure_events(plan)
    assert refused.value.exit_code == 2


def test_moving_edges_are_the_same_each_time() -> None:
    events, again = moving_edges(20_000), moving_edges(20_000)
    assert len(events) == 20_000
    assert events.is_sorted
    assert (events.x == again.x).all()
    assert events.width <= 640
    assert events.height <= 480
    neighbours = (
        (np.diff(events.x.astype(int)) == 1) & (np.diff(events.t_us) == 0) & (np.diff(events.y.astype(int)) == 0)
    )
    assert 0.7 < neighbours.mean() < 0.8
    assert 15_000 < int(events.t_us[-1]) < 20_000


def test_rendering_is_held_against_the_loop() -> None:
    found = measure_rendering(moving_edges(5000), 3)
    assert found["render_is_identical"] is True
    assert found["render_vs_loop"] > 1


@pytest.mark.parametrize("is_legacy", [False, True])
def test_evt21_files_hold_what_they_were_made_of(tmp_path: Path, is_legacy: bool) -> None:
    events = moving_edges(20_000)
    path = tmp_path / "a.raw"
    write_evt21(path, events, width=640, height=480, is_legacy=is_legacy)
    found = read_events(path)
    pairs = ((found.x, events.x), (found.y, events.y), (found.t_us, events.t_us), (found.p, events.p))
    assert all(np.array_equal(one, other) for one, other in pairs)
