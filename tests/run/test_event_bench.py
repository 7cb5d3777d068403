"""The benchmark `events`: right and wrong results told apart, what is missing said, in processes of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.event_files import write_evt21
from benchmarks.event_formats import Contest
from benchmarks.events import EventsPlan, measure_events
from benchmarks.moving_edges import moving_edges
from benchmarks.processes import run_argv
from evprof.core.events import EventArray
from evprof.loaders.events.opening import read_events
from evprof.loaders.writers.raw import write_evt2

ARGV = tuple(run_argv("_read-events"))


def write_right(path: Path, events: EventArray) -> None:
    write_evt2(path, [events], width=640, height=480)


def write_wrong(path: Path, events: EventArray) -> None:
    p = np.array(events.p)
    p[-1] ^= 1
    write_right(path, EventArray(events.x, events.y, events.t_us, p))


def write_nonsense(path: Path, events: EventArray) -> None:
    path.write_bytes(b"nothing that anybody reads" * len(events))


def measured(*contests: Contest, rounds: int = 1) -> dict[str, Any]:
    return measure_events(EventsPlan(ARGV, 3000, rounds, contests=contests))


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
    assert reader["reason"].startswith("small-c.raw: is not an event recording")
    assert document["summary"]["slowest_vs_library"] is None


@pytest.mark.parametrize("is_legacy", [False, True])
def test_evt21_files_hold_what_they_were_made_of(tmp_path: Path, is_legacy: bool) -> None:
    events = moving_edges(20_000)
    path = tmp_path / "a.raw"
    write_evt21(path, events, width=640, height=480, is_legacy=is_legacy)
    found = read_events(path)
    pairs = ((found.x, events.x), (found.y, events.y), (found.t_us, events.t_us), (found.p, events.p))
    assert all(np.array_equal(one, other) for one, other in pairs)
