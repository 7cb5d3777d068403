"""HDF5 recordings against h5py itself: every layout, whole and in windows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evprof.core.errors import UserError
from evprof.core.events import EventArray
from evprof.loaders.events import recording as recording_module
from evprof.loaders.events.hdf5 import recording as hdf5_recording
from evprof.loaders.events.hdf5 import stored
from evprof.loaders.events.opening import format_of, open_recording, read_events

hdf5plugin = pytest.importorskip("hdf5plugin")

COMPRESSIONS: dict[str, dict[str, Any]] = {
    "none": {},
    "gzip": {"compression": "gzip", "shuffle": True},
    "lzf": {"compression": "lzf", "fletcher32": True},
    "blosc zstd": dict(hdf5plugin.Blosc("zstd", 1)),
    "blosc lz4": dict(hdf5plugin.Blosc("lz4", 1)),
    "zstd": dict(hdf5plugin.Zstd()),
}


def made(count: int, seed: int = 1, span_us: int = 300_000) -> EventArray:
    chance = np.random.default_rng(seed)
    return EventArray(
        chance.integers(0, 640, count).astype(np.uint16),
        chance.integers(0, 480, count).astype(np.uint16),
        np.sort(chance.integers(0, span_us, count)),
        chance.integers(0, 2, count).astype(np.uint8),
    )


def write_columns(file: h5py.File, place: str, events: EventArray, chunk: int | None = 1000, **options: Any) -> None:
    columns = {"x": events.x, "y": events.y, "t": events.t_us.astype(np.uint32), "p": events.p}
    for name, values in columns.items():
        file.create_dataset(f"{place}/{name}", data=values, chunks=chunk and (chunk,), **options)


def write_dsec_like(
    path: Path, events: EventArray, offset: int | None, chunk: int | None = 1000, **options: Any
) -> None:
    with h5py.File(path, "w") as file:
        write_columns(file, "events", events, chunk, **options)
        if offset is not None:
            file["t_offset"] = np.int64(offset)


def same(found: EventArray, expected: EventArray, offset: int = 0) -> None:
    assert np.array_equal(found.t_us, expected.t_us + offset)
    for name in "xyp":
        assert np.array_equal(getattr(found, name), getattr(expected, name))
    assert (found.x.dtype, found.t_us.dtype, found.p.dtype) == (np.uint16, np.int64, np.uint8)


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks, pieces and surveys so small that little files need many."""
    monkeypatch.setattr(stored, "BLOCK_ROWS", 1000)
    monkeypatch.setattr(hdf5_recording, "_PIECE_EVENTS", 3000)
    monkeypatch.setattr(hdf5_recording, "CHUNK_EVENTS", 6000)


@pytest.mark.parametrize("title", COMPRESSIONS)
@pytest.mark.parametrize("chunk", [300, 65_536])
def test_dsec_whole_and_in_windows(tmp_path: Path, title: str, chunk: int) -> None:
    events, offset = made(20_000), 57_000_000_123
    path = tmp_path / "events.h5"
    write_dsec_like(path, events, offset, min(chunk, 20_000), **COMPRESSIONS[title])
    with open_recording(path) as recording:
        before = recording.bytes_read
        window = recording.read_time(offset + 100_500, offset + 150_700)
        inside = (events.t_us >= 100_500) & (events.t_us < 150_700)
        same(window, EventArray(events.x[inside], events.y[inside], events.t_us[inside], events.p[inside]), offset)
        assert before < recording.bytes_read <= 20_000 * 9 * 4
        same(recording.read(), events, offset)
        same(recording_module.joined(recording.chunks()), events, offset)
        info = recording.info
    assert (info.format, info.events, info.width, info.height) == ("dsec-h5", 20_000, None, None)
    assert (info.t_min_us, info.t_max_us) == (events.t_us[0] + offset, events.t_us[-1] + offset)
    assert info.details["compression"] == title
    assert info.details["t_offset_us"] == offset
    assert info.details["chunk"] == min(chunk, 20_000)
    assert info.problems == ()


@given(data=st.data())
def test_any_window_of_any_times(tmp_path: Path, small_blocks: None, data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 20_000))
    chance = np.random.default_rng(data.draw(st.integers(0, 99)))
    steps = chance.choice([0, 0, 1, 7, 900], count)
    steps[chance.integers(0, count, 3)] = data.draw(st.sampled_from([0, 5000, 90_000]))
    times = np.cumsum(steps) + data.draw(st.sampled_from([0, 0, 400, 77_000]))
    events = EventArray(
        np.arange(count).astype(np.uint16) % 600, np.zeros(count, np.uint16), times, np.ones(count, np.uint8)
    )
    path, offset = tmp_path / "any.h5", data.draw(st.sampled_from([None, 0, -5_000, 10**12]))
    title = data.draw(st.sampled_from(["none", "gzip", "blosc lz4"]))
    chunk = (
        data.draw(st.sampled_from([1, 64, 1000, 3001]))
        if count < 500
        else data.draw(st.sampled_from([500, 1000, 3001]))
    )
    write_dsec_like(path, events, offset, min(chunk, count), **COMPRESSIONS[title])
    shift = offset or 0
    with open_recording(path) as recording:
        for _ in range(4):
            start = data.draw(st.integers(-2000, int(times[-1]) + 2000))
            stop = start + data.draw(st.sampled_from([0, 1, 999, 1000, 40_000, 10**9]))
            low, high = np.searchsorted(times, [start, stop])
            same(recording.read_time(start + shift, stop + shift), events.slice_count(int(low), int(high)), shift)
        same(recording.read(), events, shift)
        assert recording.info.problems == ()


def test_a_window_reads_little_of_a_long_file(tmp_path: Path) -> None:
    path = tmp_path / "long.h5"
    events = made(1_500_000, span_us=15_000_000)
    write_dsec_like(path, events, 5_000, 65_536, **COMPRESSIONS["blosc lz4"])
    with open_recording(path) as recording:
        window = recording.read_time(7_005_000, 7_105_000)
        low, high = np.searchsorted(events.t_us, [7_000_000, 7_100_000])
        same(window, events.slice_count(int(low), int(high)), 5_000)
        # Ten thousand events lie in one or two of 23 chunks; bisection reads a few more of the times.
        assert recording.bytes_read < path.stat().st_size * 0.3


@pytest.mark.parametrize("title", ["none", "gzip"])
def test_time_running_backwards_is_told_and_windows_stay_right(tmp_path: Path, small_blocks: None, title: str) -> None:
    """Up to 6,000 events here all are looked at; beyond, those a block away."""
    for count in (5_000, 40_000):
        events = made(count)
        t = events.t_us.copy()
        t[2000:2100] = t[2000:2100][::-1]
        t[4000] -= 500
        events = EventArray(events.x, events.y, t, events.p)
        path = tmp_path / "back.h5"
        write_dsec_like(path, events, None, **COMPRESSIONS[title])
        start = int(t[2000:2100].min()) + 50
        with open_recording(path) as recording:
            same(recording.read_time(start, start + 3000), events.slice_time(start, start + 3000))
            assert sum("backwards" in problem for problem in recording.info.problems) == 1
        with open_recording(path) as recording:
            same(recording.read(), events)
            assert any("backwards" in problem for problem in recording.info.problems)
            if count == 5_000:
                assert (recording.info.t_min_us, recording.info.t_max_us) == (t.min(), t.max())


def test_a_clock_that_restarts(tmp_path: Path, small_blocks: None) -> None:
    events = made(6_000)
    t = np.concatenate([events.t_us[3000:], events.t_us[:3000]])
    events = EventArray(events.x, events.y, t, events.p)
    path = tmp_path / "restart.h5"
    write_dsec_like(path, events, None)
    with open_recording(path) as recording:
        assert recording.origin_us() == int(t.min())
        same(recording.read_time(10_000, 40_000), events.slice_time(10_000, 40_000))


def test_m3ed(tmp_path: Path) -> None:
    path, left, right = tmp_path / "m3ed.h5", made(8_000, 1), made(9_000, 2)
    with h5py.File(path, "w") as file:
        for camera, events in (("left", left), ("right", right)):
            group = file.create_group(f"prophesee/{camera}")
            for name, values in {"x": events.x, "y": events.y, "t": events.t_us, "p": events.p.astype(np.int8)}.items():
                group.create_dataset(name, data=values, compression="lzf")
            group["ms_map_idx"] = np.searchsorted(events.t_us, np.arange(0, 300_000, 1000)).astype(np.uint64)
            group["calib/resolution"] = np.array([1280, 720])
    with open_recording(path) as recording:
        same(recording.read(), left)
        info = recording.info
    assert (info.format, info.width, info.height) == ("m3ed-h5", 1280, 720)
    assert (info.details["camera"], info.details["other_cameras"]) == ("left", "right")
    with h5py.File(path, "r+") as file:
        del file["prophesee/left"]
    with open_recording(path) as recording:
        same(recording.read(), right)
        assert recording.info.details["camera"] == "right"


@pytest.mark.parametrize("chunks", [None, True])
def test_seconds_as_in_e2vid(tmp_path: Path, chunks: bool | None) -> None:
    path, events = tmp_path / "e2vid.h5", made(10_000)
    with h5py.File(path, "w") as file:
        values = {"xs": events.x, "ys": events.y, "ts": events.t_us / 1e6 + 1_500_000_000.0, "ps": events.p == 1}
        for name, column in values.items():
            file.create_dataset(f"events/{name}", data=column, chunks=chunks, maxshape=(None,) if chunks else None)
    with open_recording(path) as recording:
        same(recording.read(), events, 1_500_000_000_000_000)
        start = 1_500_000_000_100_000
        inside = events.slice_time(100_000, 120_000)
        same(recording.read_time(start, start + 20_000), inside, 1_500_000_000_000_000)
        assert recording.info.details["time_unit"] == "seconds"


@pytest.mark.parametrize("place", ["events", "CD/events"])
@pytest.mark.parametrize("title", ["none", "gzip", "blosc zstd"])
def test_tables(tmp_path: Path, place: str, title: str) -> None:
    path, events = tmp_path / "table.h5", made(10_000)
    rows = np.empty(10_000, [("x", "<u2"), ("y", "<u2"), ("p", "<i2"), ("t", "<i8")])
    for name, values in {
        "x": events.x,
        "y": events.y,
        "p": events.p.astype(np.int16) * 2 - 1,
        "t": events.t_us,
    }.items():
        rows[name] = values
    with h5py.File(path, "w") as file:
        table = file.create_dataset(place, data=rows, chunks=(3000,), **COMPRESSIONS[title])
        table.attrs["geometry"] = "1280x720"
    with open_recording(path) as recording:
        same(recording.read_time(50_000, 60_000), events.slice_time(50_000, 60_000))
        same(recording.read(), events)
        info = recording.info
    assert (info.format, info.width, info.height) == ("h5", 1280, 720)


def test_rows_of_four_as_in_mvsec(tmp_path: Path) -> None:
    path, events = tmp_path / "mvsec.hdf5", made(10_000)
    seconds = events.t_us / 1e6 + 1_504_645_177.4
    rows = np.stack([events.x, events.y, seconds, events.p * 2.0 - 1], axis=1)
    with h5py.File(path, "w") as file:
        file.create_dataset("davis/left/events", data=rows, chunks=(700, 2), compression="gzip")
        file.create_dataset("davis/right/events", data=rows[:50])
        file.create_dataset("davis/left/imu", data=np.zeros((9, 4)))
    with open_recording(path) as recording:
        same(recording.read(), events, 1_504_645_177_400_000)


@pytest.mark.parametrize("dtype", [np.uint32, np.int64, np.float64])
@pytest.mark.parametrize("chunks", [None, (700, 4)])
def test_rows_of_four_as_v2e_writes_them(tmp_path: Path, chunks: Any, dtype: Any) -> None:
    path, events = tmp_path / "v2e.h5", made(10_000)
    polarity = np.where(events.p, 1, -1).astype(dtype) if dtype != np.uint32 else np.where(events.p, 1, 2**32 - 1)
    rows = np.stack([events.t_us, events.x, events.y, polarity], axis=1).astype(dtype)
    with h5py.File(path, "w") as file:
        file.create_dataset("events", data=rows, chunks=chunks)
    with open_recording(path) as recording:
        same(recording.read(), events)
        same(recording.read_time(20_000, 30_000), events.slice_time(20_000, 30_000))


@pytest.mark.parametrize("form", ["h5", "npz", "npy"])
def test_whole_times_since_1970_are_nanoseconds_in_every_format(tmp_path: Path, form: str) -> None:
    path, events = tmp_path / f"epoch.{form}", made(600_000)
    base_us = 1_752_000_000_000_000
    columns: dict[str, Any] = {"x": events.x, "y": events.y, "t": (events.t_us + base_us) * 1000 + 7, "p": events.p}
    if form == "h5":
        with h5py.File(path, "w") as file:
            for name, column in columns.items():
                file.create_dataset(f"events/{name}", data=column)
    elif form == "npz":
        np.savez(path, **columns)
    else:
        rows = np.empty(len(events), [(name, column.dtype) for name, column in columns.items()])
        for name, column in columns.items():
            rows[name] = column
        np.save(path, rows)
    with open_recording(path) as recording:
        same(recording.read(), events, base_us)
        inside = events.slice_time(20_000, 30_000)
        same(recording.read_time(base_us + 20_000, base_us + 30_000), inside, base_us)
        assert recording.origin_us() == base_us + int(events.t_us[0])


@pytest.mark.parametrize("names", ["xytp", ["x", "y", "timestamp", "polarity"]])
@pytest.mark.parametrize("title", ["none", "gzip", "blosc lz4"])
def test_columns_at_the_top_in_other_types(tmp_path: Path, names: Any, title: str) -> None:
    path, events = tmp_path / "top.h5", made(5_000)
    values = (
        events.x.astype(">i4"),
        events.y.astype(np.float32),
        events.t_us.astype(np.float64),
        events.p.astype(bool),
    )
    with h5py.File(path, "w") as file:
        for name, column in zip(names, values, strict=True):
            file.create_dataset(name, data=column, chunks=(800,), **COMPRESSIONS[title])
        file.attrs.update(width=346, height=np.int64(260))
    with open_recording(path) as recording:
        same(recording.read(), events)
        info = recording.info
    assert (info.format, info.width, info.height) == ("h5", 346, 260)


def test_other_layouts_are_listed(tmp_path: Path) -> None:
    path = tmp_path / "rvt.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("data", (12, 20, 36, 64), np.uint8)
    with pytest.raises(UserError, match=r"holds /data; "):
        open_recording(path)


def test_no_events(tmp_path: Path) -> None:
    path = tmp_path / "none.h5"
    with h5py.File(path, "w") as file:
        for name in "xytp":
            file.create_dataset(f"events/{name}", (0,), "u2", maxshape=(None,), chunks=(1000,), compression="gzip")
    with open_recording(path) as recording:
        assert recording.info.events == 0
        assert recording.info.t_min_us is None
        assert len(recording.read_time(0, 1000)) == 0
        assert list(recording.chunks()) == []
        with pytest.raises(UserError, match="no events"):
            recording.read()


def test_told_by_content_also_behind_a_user_block(tmp_path: Path) -> None:
    path, events = tmp_path / "matlab.mat", made(3_000)
    with h5py.File(path, "w", userblock_size=512) as file:
        write_columns(file, "events", events, compression="gzip")
    content = path.read_bytes()
    path.write_bytes(b"MATLAB 7.3 MAT-file".ljust(512) + content[512:])
    form = format_of(path.read_bytes()[:4096])
    assert form.name == "h5"
    same(read_events(path), events)


def test_more_than_fits_is_refused_before_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "long.h5"
    write_dsec_like(path, made(3_000), None, 500)
    monkeypatch.setattr(hdf5_recording, "MOST_EVENTS", 1_000)
    with open_recording(path) as recording, pytest.raises(UserError, match="at once"):
        recording.read()
