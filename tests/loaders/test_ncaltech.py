"""N-Caltech101 files are packed here by their description, and much else must not be taken for one."""

from __future__ import annotations

import io
import wave
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evprof.core.errors import UserError
from evprof.loaders.events import ncaltech
from evprof.loaders.events.opening import format_of, open_recording
from evprof.loaders.events.recording import HEAD_BYTES
from evprof.loaders.pictures.png import encode_png
from made_events import rows

OVERFLOW = bytes([0, 240, 0, 0, 0])


def record(x: int, y: int, t: int, p: int) -> bytes:
    return bytes([x, y, p << 7 | t >> 16, t >> 8 & 255, t & 255])


def many(count: int, seed: int = 3) -> list[tuple[int, int, int, int]]:
    chance = np.random.default_rng(seed)
    times = np.sort(chance.integers(0, 300_000, count))
    return [
        (int(x), int(y), int(t), int(p))
        for x, y, t, p in zip(
            chance.integers(0, 240, count),
            chance.integers(0, 180, count),
            times,
            chance.integers(0, 2, count),
            strict=True,
        )
    ]


def test_records(tmp_path: Path) -> None:
    events = many(500)
    path = tmp_path / "image_0001.bin"
    path.write_bytes(b"".join(record(*event) for event in events))
    with open_recording(path) as recording:
        assert rows(recording.read()) == events
        info = recording.info
        assert (info.format, info.events, info.t_min_us, info.t_max_us) == (
            "n-caltech",
            500,
            events[0][2],
            events[-1][2],
        )
        assert rows(recording.read_time(100_000, 200_000)) == [e for e in events if 100_000 <= e[2] < 200_000]


@given(st.lists(st.integers(1, 400), min_size=20, max_size=60), st.lists(st.integers(0, 59), max_size=8))
def test_overflow_rows_move_what_follows(tmp_path: Path, gaps: list[int], places: list[int]) -> None:
    content = bytearray()
    expected = []
    t = overflows = 0
    for number, gap in enumerate(gaps):
        if number in places:
            content += OVERFLOW
            overflows += 1
        t += gap
        content += record(number, number % 180, t, number & 1)
        expected.append((number, number % 180, t + overflows * 8_192, number & 1))
    path = tmp_path / "a.bin"
    path.write_bytes(content)
    with ncaltech.Ncaltech(path) as recording:
        assert rows(recording.read()) == expected


def test_long_files_are_read_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ncaltech, "_HELD_RECORDS", 1_000)
    monkeypatch.setattr(ncaltech, "_PIECE", 700)
    events = many(3_000)
    content = b""
    for number, event in enumerate(events):
        content += (OVERFLOW if number in (900, 901, 2_500) else b"") + record(*event)
    times = [
        event[2] + 8_192 * sum(number >= place for place in (900, 901, 2_500)) for number, event in enumerate(events)
    ]
    path = tmp_path / "a.bin"
    path.write_bytes(content)
    with open_recording(path) as recording:
        assert recording.read().t_us.tolist() == times
        assert [len(chunk) for chunk in recording.chunks()] == [700, 698, 700, 699, 203]
        assert recording.info.t_min_us == times[0]
        assert recording.read_time(150_000, 160_000).t_us.tolist() == [t for t in times if 150_000 <= t < 160_000]


def others() -> dict[str, bytes]:
    chance = np.random.default_rng(8)
    sound = io.BytesIO()
    with wave.open(sound, "wb") as file:
        file.setparams((1, 2, 8_000, 0, "NONE", ""))
        file.writeframes((np.sin(np.arange(9_000) / 30) * 9_000).astype("<i2").tobytes())
    ramp = np.arange(20_000)
    return {
        "png": encode_png(chance.integers(0, 255, (80, 90, 3), dtype=np.uint8)),
        "flat png": encode_png(np.zeros((800, 900, 3), np.uint8)),
        "wav": sound.getvalue(),
        "deflated": zlib.compress(ramp.tobytes()),
        "zeros": bytes(10_000),
        "ones": b"\xff" * 10_000,
        "numbered lines": b"".join(b"%04d\n" % number for number in range(2_000)),
        "few numbered lines": b"".join(b"%04d\n" % number for number in range(90)),
        "words": b"the quick brown fox jumps over the lazy dog\n" * 300,
        "bytes in order": bytes(range(180)),
        **{
            f"{kind} in order": ramp.astype(kind).tobytes() for kind in ("u1", "<u2", "<u4", ">u4", "<f4", "<i8", ">f8")
        },
        "raster": np.repeat(np.arange(200, dtype=np.uint8), 400).tobytes(),
        "bmp": b"BM"
        + (80_054).to_bytes(4, "little")
        + bytes(48)
        + np.tile(np.arange(250, dtype=np.uint8), 300).tobytes(),
        "mp4": b"\0\0\0\x20ftypisom\0\0\x02\0isomiso2avc1mp41\0\0\0\x08free" + chance.bytes(9_000),
        "too few": b"".join(record(*event) for event in many(19)),
        "not whole": b"".join(record(*event) for event in many(60)) + b"\0",
    }


@pytest.mark.parametrize("name", others())
def test_other_files_are_not_taken_for_it(name: str) -> None:
    assert format_of(others()[name][:HEAD_BYTES]) is None


@given(st.integers(0, 2**32), st.integers(100, 6_000))
def test_random_bytes_are_not_taken_for_it(seed: int, length: int) -> None:
    content = np.random.default_rng(seed).bytes(length)
    assert not ncaltech.begins_as_ncaltech(content[:HEAD_BYTES])


def test_a_file_that_only_begins_like_one(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    beginning = b"".join(record(*event) for event in many(1_000))
    for rest in (np.random.default_rng(1).bytes(50_000), b"\0"):
        path.write_bytes(beginning + rest)
        with pytest.raises(UserError, match="is not an event recording"):
            open_recording(path)
