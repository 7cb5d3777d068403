"""Event Stream files are written by faery, and byte by byte where it has no say."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evprof.core.errors import UserError
from evprof.core.events import EventArray
from evprof.loaders.events import event_stream
from evprof.loaders.events.opening import open_recording
from made_events import same

WIDTH, HEIGHT = 640, 480


def header(*, kind: int = 1, version: int = 2, size: tuple[int, int] = (WIDTH, HEIGHT)) -> bytes:
    sizes = b"".join(number.to_bytes(2, "little") for number in size)
    return b"Event Stream" + bytes([version, 0, 0, kind]) + sizes


def packed(events: EventArray) -> bytes:
    content = bytearray()
    before = 0
    for x, y, t, p in zip(*(column.tolist() for column in (events.x, events.y, events.t_us, events.p)), strict=True):
        while t - before >= 127:
            content.append(0xFF)
            before += 127
        content += bytes([(t - before) << 1 | p]) + x.to_bytes(2, "little") + (HEIGHT - 1 - y).to_bytes(2, "little")
        before = t
    return bytes(content)


def made(gaps: np.ndarray, seed: int = 4) -> EventArray:
    chance = np.random.default_rng(seed)
    count = len(gaps)
    # Many coordinates that look like the bytes between events.
    x = chance.choice([254, 255, 510, 511, 3, 400], count)
    y = chance.choice([254, 255, 0, 479, 224, 225], count)
    return EventArray.from_columns(x, y, np.cumsum(gaps), chance.integers(0, 2, count))


@pytest.mark.parametrize("mean_us", [0.5, 60, 900])
def test_what_faery_wrote(tmp_path: Path, mean_us: float) -> None:
    import faery
    from faery import file_encoder

    events = made(np.random.default_rng(2).poisson(mean_us, 60_000))
    rows = np.zeros(len(events), faery.EVENTS_DTYPE)
    rows["x"], rows["y"], rows["t"], rows["on"] = events.x, events.y, events.t_us, events.p
    path = tmp_path / "a.es"
    file_encoder.events_to_file(iter([rows]), path, (WIDTH, HEIGHT), zero_t0=False)
    with open_recording(path) as recording:
        assert same(recording.read(), events)
        info = recording.info
        assert (info.format, info.width, info.height, info.t_min_us) == ("es", WIDTH, HEIGHT, events.t_min_us)
        middle = int(events.t_us[30_000])
        for start, stop in ((middle, middle + 500), (0, 10), (-5, 0), (middle, middle), (0, 2**62)):
            assert same(recording.read_time(start, stop), events.slice_time(start, stop))


@pytest.mark.parametrize("block", [7, 64, 5 << 17])
def test_blocks_and_windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    monkeypatch.setattr(event_stream, "_BLOCK", block)
    chance = np.random.default_rng(7)
    events = made(np.where(chance.random(900) < 0.1, chance.integers(100, 3_000, 900), chance.integers(0, 20, 900)))
    path = tmp_path / "a.es"
    path.write_bytes(header() + packed(events))
    for ask_late_first in (True, False):
        with open_recording(path) as recording:
            windows = [(0, 900), (450, 460), (890, 2_000), (5, 6), (-4, 3), (900, 910)]
            for start, stop in reversed(windows) if ask_late_first else windows:
                limits = [int(events.t_us[min(place, 899)]) for place in (max(0, start), stop)]
                assert same(recording.read_time(*limits), events.slice_time(*limits))
            assert same(recording.read(), events)


@given(st.lists(st.sampled_from([0xFE, 0xFF, "event"]), max_size=60), st.binary(max_size=4), st.randoms())
def test_bytes_between_events(tokens: list[int | str], rest: bytes, chance: object) -> None:
    pick = np.random.default_rng(chance.getrandbits(32))  # type: ignore[attr-defined]  # hypothesis' Random
    content, expected, passed = bytearray(), [], [0]
    for token in tokens:
        if token == "event":
            event = bytes([int(pick.integers(0, 0xFE)), *pick.choice([0xFF, 0xFE, 1], 4).tolist()])
            content += event
            expected.append(event)
            passed.append(0)
        else:
            content.append(int(token))
            passed[-1] += 127 * (token == 0xFF)
    unfinished = bytes([0x10]) + rest if rest else b""
    rows, passed_us, used = event_stream.split(bytes(content) + unfinished[:4])
    assert [row.tobytes() for row in rows] == expected
    assert passed_us.tolist() == passed
    assert used == len(content)


def test_a_file_cut_within_an_event(tmp_path: Path) -> None:
    events = made(np.full(50, 3))
    path = tmp_path / "a.es"
    path.write_bytes(header() + packed(events)[:-2])
    with open_recording(path) as recording:
        assert same(recording.read(), events.slice_count(0, 49))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (header(kind=2) + bytes(50), "kind ATIS"),
        (header(kind=9) + bytes(50), r"unknown \(9\)"),
        (header(version=1) + bytes(50), "Event Stream 1.0.0"),
        (header()[:17], "cut short"),
        (header(), "no events"),
        (header() + b"\xff" * 20, "no events"),
        (header(size=(3, 3)) + packed(made(np.ones(5, np.int64))), "outside the 3x3 sensor"),
    ],
)
def test_refusals(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "a.es"
    path.write_bytes(content)
    with pytest.raises(UserError, match=said), open_recording(path) as recording:
        recording.read()
