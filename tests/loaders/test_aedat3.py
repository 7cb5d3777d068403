"""AEDAT 3.1 files are packed here packet by packet, as iniVation's description has them."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from benchmarks.event_files import write_aedat3
from evprof.core.errors import UserError
from evprof.core.events import EventArray
from evprof.loaders.events.opening import open_recording
from made_events import rows

HEADER = b"#!AER-DAT3.1\r\n#Format: RAW\r\n#Source 1: DAVIS240C\r\n#Start-Time: 2016-01-01\r\n#!END-HEADER\r\n"

Event = tuple[int, int, int, int]


def packet(
    events: Sequence[Event],
    *,
    overflows: int = 0,
    invalid: Sequence[int] = (),
    kind: int = 1,
    spare: int = 0,
    valid: int | None = None,
) -> bytes:
    """`spare`: places for events that were reserved and not used."""
    count = len(events)
    really = count - len(invalid) if valid is None else valid
    content = b"".join(
        struct.pack("<Ii", x << 17 | y << 2 | p << 1 | (number not in invalid), t)
        for number, (x, y, t, p) in enumerate(events)
    )
    return struct.pack("<hhiiiiii", kind, 1, 8, 4, overflows, count + spare, count, really) + content + bytes(8 * spare)


def written(path: Path, *packets: bytes, header: bytes = HEADER) -> Path:
    path.write_bytes(header + b"".join(packets))
    return path


FIRST: list[Event] = [(0, 0, 10, 1), (239, 179, 11, 0), (5, 100, 11, 1)]
SECOND: list[Event] = [(1, 2, 20, 0), (3, 4, 30, 1)]
SPECIAL = struct.pack("<hhiiiiii", 0, 1, 8, 4, 0, 2, 2, 2) + bytes(16)
FRAME = struct.pack("<hhiiiiii", 2, 1, 40_000, 8, 0, 1, 1, 1) + bytes(40_000)


def test_packets(tmp_path: Path) -> None:
    path = written(tmp_path / "a.aedat", SPECIAL, packet(FIRST), FRAME, packet([]), packet(SECOND), SPECIAL)
    with open_recording(path) as recording:
        assert rows(recording.read()) == FIRST + SECOND
        info = recording.info
        assert (info.format, info.events, info.width, info.height) == ("aedat3.1", 5, 240, 180)
        assert (info.t_min_us, info.t_max_us) == (10, 30)
        assert info.details == {"sensor": "DAVIS240C"}
        assert info.problems == ()
        assert rows(recording.read_time(11, 30)) == [*FIRST[1:], SECOND[0]]
        assert rows(recording.read_time(30, 2**62)) == [SECOND[1]]
        assert recording.origin_us() == 10


def test_invalid_events_and_spare_places_are_left_out(tmp_path: Path) -> None:
    path = written(tmp_path / "a.aedat", packet(FIRST, invalid=[1], spare=4), packet(SECOND, invalid=[0, 1], spare=1))
    with open_recording(path) as recording:
        assert rows(recording.read()) == [FIRST[0], FIRST[2]]
        assert recording.info.events == 2


def test_turn_overs_are_added(tmp_path: Path) -> None:
    late = [(x, y, 2**31 - 100 + t, p) for x, y, t, p in FIRST]
    path = written(tmp_path / "a.aedat", packet(late), packet(SECOND, overflows=1), packet(SECOND, overflows=7))
    with open_recording(path) as recording:
        times = [t for _, _, t, _ in late] + [turn * 2**31 + t for turn in (1, 7) for t in (20, 30)]
        assert recording.read().t_us.tolist() == times
        assert recording.read_time(2**31, 2**32).t_us.tolist() == times[3:5]


def test_time_running_backwards_is_kept(tmp_path: Path) -> None:
    path = written(tmp_path / "a.aedat", packet(SECOND), packet(FIRST), packet(SECOND))
    with open_recording(path) as recording:
        assert rows(recording.read()) == SECOND + FIRST + SECOND
        assert rows(recording.read_time(10, 12)) == FIRST
        assert (recording.info.t_min_us, recording.info.t_max_us) == (None, None)


def test_an_unfinished_packet(tmp_path: Path) -> None:
    whole = packet(FIRST) + packet([*SECOND, (9, 9, 40, 1)])
    for missing, expected in ((3, FIRST + SECOND), (20, FIRST), (24, FIRST), (40, FIRST), (51, FIRST)):
        path = written(tmp_path / "a.aedat", whole[:-missing])
        with open_recording(path) as recording:
            assert rows(recording.read()) == expected, missing
            assert recording.info.events == len(expected)
            assert recording.info.problems, missing


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (HEADER.replace(b"RAW", b"SerializedTS") + packet(FIRST), "SerializedTS"),
        (HEADER.replace(b"3.1", b"3.0") + packet(FIRST), "3.0"),
        (HEADER[:-5], "no end"),
        (HEADER + packet(FIRST, kind=1 | -0x8000), "compressed"),
        (HEADER + packet(FIRST, valid=2), "damaged"),
        (HEADER + packet([(300, 0, 1, 1)]), "outside"),
        (HEADER + packet(FIRST) + bytes(28), "damaged"),
        (HEADER, "no events"),
    ],
)
def test_refusals(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "a.aedat"
    path.write_bytes(content)
    with pytest.raises(UserError, match=said), open_recording(path) as recording:
        recording.read()


def test_a_long_recording(tmp_path: Path) -> None:
    count = 400_000
    chance = np.random.default_rng(2)
    times = 2**31 - 50_000 + np.sort(chance.integers(0, 100_000, count))
    events = EventArray.from_columns(
        chance.integers(0, 346, count), chance.integers(0, 260, count), times, chance.integers(0, 2, count)
    )
    for packet_events in (90, 10_000):
        path = tmp_path / f"{packet_events}.aedat"
        write_aedat3(path, events, packet_events=packet_events)
        with open_recording(path) as recording:
            window = recording.read_time(2**31 - 10, 2**31 + 90)
            assert packet_events == 90 or recording.bytes_read < path.stat().st_size / 2
            assert window.t_us.tolist() == times[(times >= 2**31 - 10) & (times < 2**31 + 90)].tolist()
            whole = recording.read()
            for name in ("x", "y", "t_us", "p"):
                assert (getattr(whole, name) == getattr(events, name)).all()
            assert sum(len(chunk) for chunk in recording.chunks()) == count
