"""Windows of .npy recordings are those of all events, and touch little else of the file."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evprof.core.errors import UserError
from evprof.core.events import EventArray
from evprof.loaders.events import blocks, npy
from evprof.loaders.events import recording as recordings
from evprof.loaders.events.npy import TableRecording
from evprof.loaders.events.opening import open_recording, read_events

COUNT = 60_000


@pytest.fixture(autouse=True)
def _small_measures(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"_LEAST_ROWS": 500, "_SURVEYED": 2_000, "_READ_WHOLE": 10_000}.items():
        monkeypatch.setattr(npy, name, value)
    monkeypatch.setattr(blocks, "_GROUP_EVENTS", 7_000)


def made(count: int = COUNT) -> dict[str, np.ndarray]:
    random = np.random.default_rng(2)
    return {
        "x": random.integers(0, 640, count).astype(np.uint16),
        "y": random.integers(0, 480, count).astype(np.uint16),
        "t": np.sort(random.integers(10_000, 1_000_000, count)),
        "p": random.integers(0, 2, count).astype(np.uint8),
    }


def structured(columns: dict[str, np.ndarray], order: str = "txyp") -> np.ndarray:
    rows = np.empty(len(columns["t"]), dtype=[(name, columns[name].dtype) for name in order])
    for name in order:
        rows[name] = columns[name]
    return rows


def table(columns: dict[str, np.ndarray], order: str, dtype: Any = np.int64) -> np.ndarray:
    return np.stack([columns[name] for name in order], axis=1).astype(dtype)


def seconds(columns: dict[str, np.ndarray]) -> np.ndarray:
    rows = table(columns, "txyp", np.float64)
    rows[:, 0] /= 1e6
    return rows


def pickled(path: Path, columns: dict[str, np.ndarray], protocol: int) -> bytes:
    np.save(path, np.array({"x": 1}), allow_pickle=True)
    head = path.read_bytes()
    return head[: head.index(b"\n") + 1] + pickle.dumps(np.array(columns), protocol=protocol)


LAYOUTS: dict[str, Callable[[Path, dict[str, np.ndarray]], None]] = {
    "rows.npy": lambda path, columns: np.save(path, structured(columns)),
    "others.npy": lambda path, columns: np.save(path, structured(columns, "pyxt")),
    "txyp.npy": lambda path, columns: np.save(path, table(columns, "txyp")),
    "xytp.npy": lambda path, columns: np.save(path, table(columns, "xytp", np.float64)),
    "fortran.npy": lambda path, columns: np.save(path, np.asfortranarray(table(columns, "txyp", ">i4"))),
    "seconds.npy": lambda path, columns: np.save(path, seconds(columns)),
}


def same(events: EventArray, columns: dict[str, np.ndarray], where: Any) -> None:
    for found, name in ((events.x, "x"), (events.y, "y"), (events.t_us, "t"), (events.p, "p")):
        assert (found == columns[name][where]).all(), name
        assert len(found) == len(columns[name][where])


@pytest.mark.parametrize("name", list(LAYOUTS))
def test_every_layout_in_windows(tmp_path: Path, name: str) -> None:
    columns = made()
    LAYOUTS[name](tmp_path / name, columns)
    size = (tmp_path / name).stat().st_size
    with open_recording(tmp_path / name) as recording:
        assert isinstance(recording, TableRecording)
        assert (recording.info.format, recording.info.events) == ("npy", COUNT)
        assert (recording.info.t_min_us, recording.info.t_max_us) == (columns["t"][0], columns["t"][-1])
        assert recording.origin_us() == columns["t"][0]
        same(recording.read_time(500_000, 520_000), columns, (columns["t"] >= 500_000) & (columns["t"] < 520_000))
        assert recording.bytes_read < size / 4
        for window in ((0, 20_000), (-50, 0), (990_000, 2**60), (600_000, 500_000)):
            same(recording.read_time(*window), columns, (columns["t"] >= window[0]) & (columns["t"] < window[1]))
        same(recording.read(), columns, slice(None))
        assert [len(chunk) for chunk in recording.chunks()][:2] == [7_000, 7_000]
        assert recording.bytes_read >= 2 * size * 0.99
    same(read_events(tmp_path / name), columns, slice(None))


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_pickles_of_every_protocol_give_the_same_events(tmp_path: Path, protocol: int) -> None:
    columns = {**made(), "note": np.array([1, 2])}
    path = tmp_path / "a.npy"
    path.write_bytes(pickled(path, columns, protocol))
    with open_recording(path) as recording:
        same(recording.read(), columns, slice(None))
        same(recording.read_time(500_000, 520_000), columns, (columns["t"] >= 500_000) & (columns["t"] < 520_000))


def test_time_that_runs_backwards_is_found(tmp_path: Path) -> None:
    columns = made()
    columns["t"] = np.roll(columns["t"], 20_000)
    np.save(tmp_path / "a.npy", structured(columns))
    with open_recording(tmp_path / "a.npy") as recording:
        assert isinstance(recording, TableRecording)
        assert (recording.info.t_min_us, recording.info.t_max_us) == (columns["t"].min(), columns["t"].max())
        same(recording.read_time(300_000, 310_000), columns, (columns["t"] >= 300_000) & (columns["t"] < 310_000))


def test_damage_inside_is_told_when_it_is_met(tmp_path: Path) -> None:
    columns = made()
    rows = structured(columns)
    rows["x"][50_000] = 60_000
    np.save(tmp_path / "a.npy", rows)
    with open_recording(tmp_path / "a.npy") as recording, pytest.raises(UserError, match=r"a\.npy: x runs from"):
        recording.read()
    late = seconds(columns)
    late[40_000, 0] = np.nan
    np.save(tmp_path / "b.npy", late)
    with open_recording(tmp_path / "b.npy") as recording, pytest.raises(UserError, match="no clock shows"):
        recording.read()


def test_more_events_than_are_read_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.save(tmp_path / "a.npy", structured(made()))
    monkeypatch.setattr(recordings, "MOST_EVENTS", 20_000)
    with open_recording(tmp_path / "a.npy") as recording:
        for read in (recording.read, lambda: recording.read_time(0, 2**40)):
            with pytest.raises(UserError, match="--start-ms"):
                read()


def test_a_file_cut_while_it_is_open(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", structured(made()))
    with open_recording(tmp_path / "a.npy") as recording:
        with (tmp_path / "a.npy").open("r+b") as file:
            file.truncate(5000)
        with pytest.raises(UserError, match=r"a\.npy: became shorter"):
            recording.read()
