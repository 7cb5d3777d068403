"""AEDAT 2.0 files are packed here word by word, as jAER's camera classes describe them."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.event_files import write_aedat2
from evprof.core.errors import UserError
from evprof.core.events import EventArray
from evprof.loaders.events.aedat.aedat2 import unwrapped
from evprof.loaders.events.opening import open_recording
from made_events import rows

DAVIS346 = "eu.seebetter.ini.chips.davis.Davis346blue"
DVS128 = "ch.unizh.ini.jaer.chip.retina.DVS128"


def header(chip: str | None, *, end: bool = True) -> bytes:
    lines = ["#!AER-DAT2.0", "# This is a raw AE data file - do not edit", "# Timestamps tick is 1 us"]
    lines += [f"# AEChip: {chip}"] if chip else []
    lines += ["#End Of ASCII Header"] if end else []
    return "".join(f"{line}\r\n" for line in lines).encode()


def davis(x: int, y: int, t: int, p: int, size: tuple[int, int] = (346, 260)) -> bytes:
    return struct.pack(">II", (size[1] - 1 - y) << 22 | (size[0] - 1 - x) << 12 | p << 11, t & 0xFFFF_FFFF)


def dvs(x: int, y: int, t: int, p: int) -> bytes:
    return struct.pack(">II", (127 - y) << 8 | (127 - x) << 1 | (1 - p), t & 0xFFFF_FFFF)


def written(path: Path, head: bytes, words: Iterable[bytes]) -> Path:
    path.write_bytes(head + b"".join(words))
    return path


EVENTS = [(0, 0, 5, 1), (345, 259, 5, 0), (17, 200, 90, 1), (100, 0, 1_000, 0)]


@pytest.mark.parametrize("end", [True, False])
def test_davis(tmp_path: Path, end: bool) -> None:
    path = written(tmp_path / "a.aedat", header(DAVIS346, end=end), (davis(*event) for event in EVENTS))
    with open_recording(path) as recording:
        assert rows(recording.read()) == EVENTS
        info = recording.info
        assert (info.format, info.width, info.height, info.t_min_us, info.t_max_us) == ("aedat2", 346, 260, 5, 1_000)
        assert info.details == {"sensor": "DAVIS346"}
        assert rows(recording.read_time(5, 90)) == EVENTS[:2]
        assert recording.origin_us() == 5


def test_dvs128_bit_is_off(tmp_path: Path) -> None:
    events = [(0, 0, 1, 1), (127, 127, 2, 0), (3, 90, 4, 1)]
    sync = struct.pack(">II", 0x8000, 3)
    path = written(tmp_path / "a.aedat", header(DVS128), [*(dvs(*e) for e in events[:2]), sync, dvs(*events[2])])
    with open_recording(path) as recording:
        assert rows(recording.read()) == events
        assert (recording.info.width, recording.info.height) == (128, 128)


def test_pictures_pins_and_inertia_are_no_events(tmp_path: Path) -> None:
    others = [struct.pack(">II", word | 7 << 22, 50) for word in (0x8000_0000, 0x8000_0C00, 0x400)]
    path = written(tmp_path / "a.aedat", header(DAVIS346), [davis(1, 2, 3, 1), *others, davis(4, 5, 60, 0)])
    with open_recording(path) as recording:
        assert rows(recording.read()) == [(1, 2, 3, 1), (4, 5, 60, 0)]
        assert recording.info.t_max_us == 60


@pytest.mark.parametrize(
    ("chip", "size"),
    [
        ("eu.seebetter.ini.chips.davis.DAVIS240C", (240, 180)),
        ("eu.seebetter.ini.chips.davis.Davis208PixelParade", (208, 192)),
        ("eu.seebetter.ini.chips.davis.DavisRGBW640", (640, 480)),
        ("Davis346Bmono", (346, 260)),
    ],
)
def test_chips(tmp_path: Path, chip: str, size: tuple[int, int]) -> None:
    corner = (size[0] - 1, size[1] - 1, 9, 1)
    path = written(tmp_path / "a.aedat", header(chip), [davis(*corner, size), davis(0, 0, 10, 0, size)])
    with open_recording(path) as recording:
        assert (recording.info.width, recording.info.height) == size
        assert rows(recording.read()) == [corner, (0, 0, 10, 0)]


@pytest.mark.parametrize("chip", ["org.ine.telluride.jaer.cuda.CochleaAMS1c", "my.Davis999", None])
def test_unknown_chips(tmp_path: Path, chip: str | None) -> None:
    path = written(tmp_path / "a.aedat", header(chip), [davis(1, 2, 3, 1)])
    with pytest.raises(UserError, match="chip"):
        open_recording(path)


def test_turn_over_of_the_clock(tmp_path: Path) -> None:
    start = 2**32 - 400_000
    times = start + np.arange(300_000) * 3
    times[150_000] -= 7
    events = EventArray.from_columns(np.arange(300_000) % 346, np.zeros(300_000), times, np.arange(300_000) % 2)
    path = tmp_path / "a.aedat"
    write_aedat2(path, events)
    with open_recording(path) as recording:
        whole = recording.read()
        assert (whole.t_us == events.t_us).all()
        assert (whole.x == events.x).all()
        assert (whole.p == events.p).all()
        assert recording.info.t_min_us == start
        for window in ((2**32 - 10, 2**32 + 10), (start, start + 1), (0, 5), (times[-1], 2**62), (2**33, 2**34)):
            inside = (times >= window[0]) & (times < window[1])
            assert recording.read_time(*map(int, window)).t_us.tolist() == times[inside].tolist()


def test_a_cut_record_is_told(tmp_path: Path) -> None:
    path = written(tmp_path / "a.aedat", header(DAVIS346), [davis(1, 2, 3, 1), davis(4, 5, 6, 0)[:5]])
    with open_recording(path) as recording:
        assert rows(recording.read()) == [(1, 2, 3, 1)]
        assert recording.info.problems == ("The file ends within a record; that one was left out.",)


def test_pixels_outside_the_sensor(tmp_path: Path) -> None:
    path = written(tmp_path / "a.aedat", header(DAVIS346), [struct.pack(">II", 400 << 12, 1)])
    with open_recording(path) as recording, pytest.raises(UserError, match="x = 400, outside the 346x260"):
        recording.read()


@given(st.lists(st.integers(0, 2**29), min_size=1, max_size=60), st.integers(0, 2**32 - 1))
def test_unwrapping_restores_sorted_times(steps: list[int], start: int) -> None:
    times = start + np.cumsum(np.array(steps, np.int64))
    turns = int(times[0] >> 32)
    assert unwrapped(times & 0xFFFF_FFFF, turns).tolist() == times.tolist()
