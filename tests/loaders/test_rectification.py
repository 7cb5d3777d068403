"""Rectification by DSEC's maps: every event at its pixel, and maps that are none."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from evprof.core.errors import UserError
from evprof.core.events import EventArray
from evprof.loaders.events.opening import open_recording
from evprof.loaders.events.recording import joined
from evprof.loaders.events.rectification import Rectified, RectifyMap

hdf5plugin = pytest.importorskip("hdf5plugin")

HEIGHT, WIDTH = 48, 64


def places() -> np.ndarray:
    y, x = np.mgrid[:HEIGHT, :WIDTH].astype(np.float64)
    return np.stack([1.1 * x + 0.2 * y - 5.3, 1.1 * y - 0.1 * x - 0.7], axis=2).astype(np.float32)


def save(path: Path, values: Any, name: str = "rectify_map", **options: Any) -> Path:
    with h5py.File(path, "w") as file:
        file.create_dataset(name, data=values, **options)
    return path


def some_events(count: int = 5000) -> EventArray:
    chance = np.random.default_rng(9)
    return EventArray(
        chance.integers(0, WIDTH, count).astype(np.uint16),
        chance.integers(0, HEIGHT, count).astype(np.uint16),
        np.sort(chance.integers(0, 90_000, count)),
        chance.integers(0, 2, count).astype(np.uint8),
    )


def expected(events: EventArray, table: np.ndarray) -> list[tuple[int, int, int, int]]:
    found = []
    for x, y, t, p in zip(events.x, events.y, events.t_us, events.p, strict=True):
        new_x, new_y = (round(float(value)) for value in table[y, x])
        if 0 <= new_x < WIDTH and 0 <= new_y < HEIGHT:
            found.append((new_x, new_y, int(t), int(p)))
    return found


def rows(events: EventArray) -> list[tuple[int, int, int, int]]:
    return list(zip(events.x.tolist(), events.y.tolist(), events.t_us.tolist(), events.p.tolist(), strict=True))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"chunks": (10, 20, 2), "compression": "gzip", "shuffle": True},
        {"chunks": (48, 7, 1), **dict(hdf5plugin.Blosc("zstd"))},
        {"dtype": ">f8"},
    ],
)
def test_events_go_where_the_map_says(tmp_path: Path, options: dict[str, Any]) -> None:
    rectify_map = RectifyMap.load(save(tmp_path / "map.h5", places(), **options))
    events = some_events()
    rectified = rectify_map.apply(events)
    assert (rectify_map.width, rectify_map.height) == (WIDTH, HEIGHT)
    assert rows(rectified) == expected(events, places())
    assert 0 < len(rectified) < len(events)
    assert (rectified.x.dtype, rectified.y.dtype) == (np.uint16, np.uint16)


def test_a_map_that_moves_nothing(tmp_path: Path) -> None:
    y, x = np.mgrid[:HEIGHT, :WIDTH].astype(np.float32)
    rectify_map = RectifyMap.load(save(tmp_path / "map.h5", np.stack([x, y], axis=2)))
    assert rows(rectify_map.apply(some_events())) == rows(some_events())
    assert len(rectify_map.apply(some_events().slice_count(0, 0))) == 0


def test_a_recording_through_a_map(tmp_path: Path) -> None:
    events = some_events()
    np.savez(tmp_path / "events.npz", x=events.x, y=events.y, t=events.t_us, p=events.p)
    rectify_map = RectifyMap.load(save(tmp_path / "map.h5", places()))
    with Rectified(open_recording(tmp_path / "events.npz"), rectify_map) as recording:
        assert recording.info.problems == ()
        assert rows(recording.read()) == expected(events, places())
        assert rows(joined(recording.chunks())) == expected(events, places())
        assert rows(recording.read_time(20_000, 30_000)) == expected(events.slice_time(20_000, 30_000), places())
        assert recording.origin_us() == events.t_min_us
        info = recording.info
        assert recording.bytes_read == (tmp_path / "events.npz").stat().st_size
    assert (info.events, info.width, info.height) == (None, WIDTH, HEIGHT)
    assert info.details["events_in_file"] == 5000


def test_events_of_a_larger_sensor_are_refused(tmp_path: Path) -> None:
    rectify_map = RectifyMap.load(save(tmp_path / "map.h5", places()))
    events = some_events(10)
    events.x[3] = WIDTH
    with pytest.raises(UserError, match="64x48 pixels, but events reach x = 64"):
        rectify_map.apply(events)


def test_nothing_left_in_the_picture(tmp_path: Path) -> None:
    table = np.full((HEIGHT, WIDTH, 2), -9.0, np.float32)
    table[0, 0] = 1
    events = some_events(20)
    events.x[:] = 5
    np.savez(tmp_path / "events.npz", x=events.x, y=events.y, t=events.t_us, p=events.p)
    rectify_map = RectifyMap.load(save(tmp_path / "map.h5", table))
    with Rectified(open_recording(tmp_path / "events.npz"), rectify_map) as recording:
        assert list(recording.chunks()) == []
        with pytest.raises(UserError, match="no event in the picture"):
            recording.read()


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (np.full((HEIGHT, WIDTH, 2), np.nan), "no numbers"),
        (np.full((HEIGHT, WIDTH, 2), np.inf, np.float32), "no numbers"),
        (np.full((HEIGHT, WIDTH, 2), 1e30, np.float32), "every pixel out of the picture"),
        (np.full((HEIGHT, WIDTH, 2), -1.0), "every pixel out of the picture"),
        (np.zeros((HEIGHT, WIDTH, 3)), "shape"),
        (np.zeros((HEIGHT, WIDTH)), "shape"),
        (np.zeros((2, HEIGHT, WIDTH)), "shape"),
        (np.zeros((0, WIDTH, 2)), "shape"),
        (np.zeros((1, 20_000, 2), np.float32), "shape"),
        (np.zeros((HEIGHT, WIDTH, 2), np.int32), "int32"),
        (np.zeros((HEIGHT, WIDTH, 2), np.complex64), "plain numbers"),
        (np.zeros(()), "shape"),
    ],
)
def test_maps_that_are_none(tmp_path: Path, values: np.ndarray, words: str) -> None:
    with pytest.raises(UserError, match=words):
        RectifyMap.load(save(tmp_path / "map.h5", values))


def test_hostile_maps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "map.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("rectify_map", (10**6, 10**6, 2), "f4", chunks=(100, 100, 2))
    with pytest.raises(UserError, match="claims 100,000,000 chunks"):
        RectifyMap.load(path)
    with h5py.File(path, "w") as file:
        file["rectify_map"] = h5py.ExternalLink("other.h5", "/rectify_map")
    with pytest.raises(UserError, match="is a link"):
        RectifyMap.load(path)
    save(path, places(), name="something")
    with pytest.raises(UserError, match=r"holds /something; "):
        RectifyMap.load(path)
    content = path.read_bytes()
    path.write_bytes(content[:-1000])
    with pytest.raises(UserError, match="damaged"):
        RectifyMap.load(path)
    path.write_bytes(b"x, y\n1, 2\n")
    with pytest.raises(UserError, match="no HDF5 file"):
        RectifyMap.load(path)
    with pytest.raises(UserError, match="no such file"):
        RectifyMap.load(tmp_path / "missing.h5")
    save(path, places())
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(ModuleNotFoundError, match="h5py"):  # which the command line words for every package
        RectifyMap.load(path)
