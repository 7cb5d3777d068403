"""What is written in DSEC's layout: read by h5py and by our reader, for any times."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evprof.core.errors import UserError
from evprof.core.events import EventArray
from evprof.loaders.events.opening import open_recording
from evprof.loaders.writers import hdf5
from evprof.loaders.writers.hdf5 import COMPRESSIONS, write_dsec


def events_at(times: np.ndarray) -> EventArray:
    count = len(times)
    chance = np.random.default_rng(count)
    return EventArray(
        chance.integers(0, 1280, count).astype(np.uint16),
        chance.integers(0, 720, count).astype(np.uint16),
        np.asarray(times, np.int64),
        chance.integers(0, 2, count).astype(np.uint8),
    )


def pieces(events: EventArray, size: int) -> Iterator[EventArray]:
    for start in range(0, len(events), size):
        yield events.slice_count(start, start + size)


def check(path: Path, events: EventArray, offset: int) -> None:
    """By h5py alone, with the index compared to its definition; then by our reader."""
    with h5py.File(path) as file:
        assert int(file["t_offset"][()]) == offset
        t = file["events/t"][:].astype(np.int64)
        assert np.array_equal(t + offset, events.t_us)
        assert np.array_equal(file["events/x"][:], events.x)
        assert np.array_equal(file["events/y"][:], events.y)
        assert np.array_equal(file["events/p"][:], events.p)
        index = file["ms_to_idx"][:]
    assert len(index) == t[-1] // 1000 + 1
    assert np.array_equal(index, np.searchsorted(t, np.arange(len(index)) * 1000))
    with open_recording(path) as recording:
        whole = recording.read()
        assert np.array_equal(whole.t_us, events.t_us)
        middle = int(events.t_us[len(events) // 2])
        window = recording.read_time(middle, middle + 5_000)
        assert np.array_equal(window.x, events.slice_time(middle, middle + 5_000).x)
        assert recording.info.format == "dsec-h5"
        assert recording.info.problems == ()


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_every_compression(tmp_path: Path, compression: str) -> None:
    events = events_at(np.sort(np.random.default_rng(3).integers(50_000, 900_000, 150_000)))
    path = tmp_path / "events.h5"
    assert write_dsec(path, pieces(events, 40_001), compression=compression, width=1280, height=720) == 150_000
    check(path, events, int(events.t_us[0]))
    with open_recording(path) as recording:
        assert recording.info.details["compression"] == compression.replace("-", " ")
        assert (recording.info.width, recording.info.height) == (1280, 720)
    assert [found.name for found in tmp_path.iterdir()] == ["events.h5"]


@given(
    steps=st.lists(st.sampled_from([0, 0, 1, 999, 1000, 1001, 77_777]), min_size=1, max_size=300),
    first=st.sampled_from([0, 1, 5_500, 10**15, -(10**6)]),
    sizes=st.tuples(st.integers(1, 50), st.sampled_from([1, 7, 1000])),
)
def test_any_times(tmp_path: Path, steps: list[int], first: int, sizes: tuple[int, int]) -> None:
    size, gathered = sizes
    events = events_at(np.cumsum(steps) - steps[0] + first)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hdf5, "_GATHERED_EVENTS", gathered)
        write_dsec(tmp_path / "any.h5", pieces(events, size), compression="gzip")
    check(tmp_path / "any.h5", events, first)


def test_times_beyond_71_minutes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hdf5, "_GATHERED_EVENTS", 100)
    events = events_at(np.concatenate([np.arange(500) * 10, 2**32 + np.arange(500)]))
    write_dsec(tmp_path / "long.h5", pieces(events, 130))
    check(tmp_path / "long.h5", events, 0)
    with h5py.File(tmp_path / "long.h5") as file:
        assert file["events/t"].dtype == np.uint64
        assert sorted(file["events"]) == ["p", "t", "x", "y"]
    write_dsec(tmp_path / "long.h5", pieces(events.slice_count(0, 500), 130))
    with h5py.File(tmp_path / "long.h5") as file:
        assert file["events/t"].dtype == np.uint32


@pytest.mark.parametrize("times", [[5, 4], [0, 10, 20, 19], [-5, -6], [0, -1]])
@pytest.mark.parametrize("size", [1, 10])
def test_time_running_backwards_is_refused(tmp_path, monkeypatch, times: list[int], size: int) -> None:
    monkeypatch.setattr(hdf5, "_GATHERED_EVENTS", 1)
    (tmp_path / "kept.h5").write_bytes(b"before")
    with pytest.raises(UserError, match=f"backwards at event {len(times) - 1}"):
        write_dsec(tmp_path / "kept.h5", pieces(events_at(np.array(times)), size))
    assert [(found.name, found.read_bytes()) for found in tmp_path.iterdir()] == [("kept.h5", b"before")]


def test_what_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    some = events_at(np.arange(10))
    with pytest.raises(UserError, match="no events"):
        write_dsec(tmp_path / "a.h5", [])
    with pytest.raises(UserError, match="too far for an index"):
        write_dsec(tmp_path / "a.h5", [events_at(np.array([0, 10**15]))])
    with pytest.raises(OSError, match="missing"):
        write_dsec(tmp_path / "missing" / "a.h5", [some])
    with pytest.raises(UserError, match="no compression 'zip'"):
        write_dsec(tmp_path / "a.h5", [some], compression="zip")
    monkeypatch.setitem(sys.modules, "hdf5plugin", None)
    with pytest.raises(ModuleNotFoundError):
        write_dsec(tmp_path / "a.h5", [some])
    assert list(tmp_path.iterdir()) == []
    assert write_dsec(tmp_path / "a.h5", [some], compression="gzip") == 10
