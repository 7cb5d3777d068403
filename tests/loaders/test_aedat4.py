"""AEDAT4 files are written by faery, and where it has no option for it, packed here."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from evprof.core.errors import UserError
from evprof.core.events import EventArray
from evprof.loaders.events.aedat.aedat4 import MAGIC
from evprof.loaders.events.opening import open_recording
from made_events import same

START_US = 1_600_000_000_000_000
COMPRESSIONS = {"none": None, "lz4": ("lz4", 1), "zstd": ("zstd", 3)}


def made(count: int, *, span_us: int = 1_000_000, seed: int = 1) -> EventArray:
    chance = np.random.default_rng(seed)
    return EventArray.from_columns(
        chance.integers(0, 346, count),
        chance.integers(0, 260, count),
        START_US + np.sort(chance.integers(0, span_us, count)),
        chance.integers(0, 2, count),
    )


def by_faery(path: Path, events: EventArray, compression: str, per_packet: int = 4096) -> Path:
    """As faery writes it: at most 4096 events in a packet."""
    import faery
    from faery import file_encoder

    rows = np.zeros(len(events), faery.EVENTS_DTYPE)
    rows["x"], rows["y"], rows["t"], rows["on"] = events.x, events.y, events.t_us, events.p
    pieces = (rows[start : start + per_packet].copy() for start in range(0, len(rows), per_packet))
    file_encoder.events_to_file(pieces, path, (346, 260), compression=COMPRESSIONS[compression])
    return path


def event_packet(events: EventArray, number: int = 0) -> bytes:
    """An uncompressed packet: size, root, identifier, list of fields, table, vector."""
    rows = np.zeros(len(events), [("t", "<i8"), ("x", "<i2"), ("y", "<i2"), ("on", "u1"), ("", "V3")])
    rows["x"], rows["y"], rows["t"], rows["on"] = events.x, events.y, events.t_us, events.p
    table = struct.pack("<I4s4H", 16, b"EVTS", 0, 6, 8, 4) + struct.pack("<iII", 6, 4, len(rows))
    content = table + rows.tobytes()
    return struct.pack("<III", number, len(content) + 4, len(content)) + content


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_what_faery_wrote(tmp_path: Path, compression: str) -> None:
    events = made(30_000)
    path = by_faery(tmp_path / "a.aedat4", events, compression, per_packet=1_000)
    with open_recording(path) as recording:
        assert same(recording.read(), events)
        info = recording.info
        assert (info.format, info.width, info.height) == ("aedat4", 346, 260)
        assert info.events == (30_000 if compression == "none" else None)
        assert (info.t_min_us, info.t_max_us) == (events.t_min_us, events.t_max_us)
        assert info.details == {"compression": compression, "sensor": "faery"}
        assert info.problems == ()
        for start, stop in ((0, 50_000), (499_999, 500_001), (990_000, 2**40), (-5, 0), (300, 200)):
            window = recording.read_time(START_US + start, START_US + stop)
            assert same(window, events.slice_time(START_US + start, START_US + stop))
        assert recording.origin_us() == events.t_min_us


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_a_window_reads_little(tmp_path: Path, compression: str) -> None:
    events = made(400_000)
    path = by_faery(tmp_path / "a.aedat4", events, compression, per_packet=1_000)
    with open_recording(path) as recording:
        window = recording.read_time(START_US + 500_000, START_US + 501_000)
        assert same(window, events.slice_time(START_US + 500_000, START_US + 501_000))
        assert recording.bytes_read < path.stat().st_size / 4


def stream(number: int, kind: str, size: tuple[int, int] | None = (346, 260)) -> str:
    sizes = "".join(f'<attr key="size{axis}" type="int">{n}</attr>' for axis, n in zip("XY", size or (), strict=False))
    return (
        f'<node name="{number}"><attr key="typeIdentifier" type="string">{kind}</attr>'
        f'<node name="info">{sizes}<attr key="source" type="string">DAVIS346_1</attr></node></node>'
    )


def head(*streams: str, stop: int = -1, compression: int = 0, extra: str = "") -> bytes:
    text = f'{extra}<dv version="2.0"><node name="outInfo">{"".join(streams)}</node></dv>'.encode()
    fields = struct.pack("<I4s6H", 20, b"IOHE", 10, 24, 4, 8, 20, 0)
    table = struct.pack("<iiqiI", 12, compression, stop, 0, 4) + struct.pack("<I", len(text)) + text
    return MAGIC + struct.pack("<I", len(fields + table)) + fields + table


def test_the_first_event_stream_of_several(tmp_path: Path) -> None:
    events, other = made(50), made(50, seed=2)
    frame = struct.pack("<II", 0, 500) + bytes(500)
    streams = (
        stream(0, "FRME"),
        stream(2, "EVTS"),
        stream(3, "EVTS"),
        stream(1, "IMUS", None),
        stream(9, "TRIG", None),
    )
    packets = [frame, event_packet(events.slice_count(0, 20), 2), event_packet(other, 3), frame]
    path = tmp_path / "a.aedat4"
    path.write_bytes(head(*streams) + b"".join([*packets, event_packet(events.slice_count(20, 50), 2)]))
    with open_recording(path) as recording:
        assert same(recording.read(), events)
        assert recording.info.details["streams"] == "0 frames, 2 events, 3 events, 1 inertial, 9 triggers"
        assert recording.info.details["sensor"] == "DAVIS346_1"
        assert recording.info.problems == ("The file was not closed by its recorder; its packets were read.",)
        assert recording.info.events == 50


def test_time_running_backwards_is_kept(tmp_path: Path) -> None:
    late, early = made(30), made(30)
    late.t_us[:] += 10_000_000
    path = tmp_path / "a.aedat4"
    path.write_bytes(head(stream(0, "EVTS")) + event_packet(late) + event_packet(early))
    with open_recording(path) as recording:
        assert recording.read().t_us.tolist() == [*late.t_us.tolist(), *early.t_us.tolist()]
        assert same(recording.read_time(START_US, START_US + 2_000_000), early)
        assert recording.info.t_min_us is None


def test_empty_packets_are_passed_over(tmp_path: Path) -> None:
    events = made(60)
    none = made(0)
    path = tmp_path / "a.aedat4"
    packets = [event_packet(part) for part in (none, events.slice_count(0, 9), none, events.slice_count(9, 60), none)]
    path.write_bytes(head(stream(0, "EVTS")) + b"".join(packets))
    with open_recording(path) as recording:
        assert same(recording.read(), events)
        assert same(recording.read_time(0, 2**62), events)
    path.write_bytes(head(stream(0, "EVTS")) + event_packet(none))
    with open_recording(path) as recording, pytest.raises(UserError, match="no events"):
        recording.read()


def test_a_killed_recorder(tmp_path: Path) -> None:
    events = made(40)
    whole = head(stream(0, "EVTS")) + event_packet(events) + event_packet(events)
    for missing in (1, 300, 660, 679):
        (tmp_path / "a.aedat4").write_bytes(whole[:-missing])
        with open_recording(tmp_path / "a.aedat4") as recording:
            assert same(recording.read(), events)
            assert recording.info.problems == ("The file ends within a packet, which was left out.",)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (head(stream(0, "FRME"), stream(1, "IMUS", None)), "no event stream, only frames, inertial"),
        (head(), "no event stream"),
        (head(stream(0, "EVTS"), compression=9), "compressed in a way"),
        (head(stream(0, "EVTS"), extra='<!DOCTYPE d [<!ENTITY a "b">]>'), "plain XML"),
        (head("<node name='0'>"), "cannot be read"),
        (head(stream(0, "EVTS"))[:60], "cut short"),
        (MAGIC + b"\xff\xff\xff\x7f" + bytes(30), "damaged or cut short"),
        (head(stream(0, "EVTS")) + event_packet(made(3), 7), "packet at byte"),
        (head(stream(0, "EVTS", (20, 20))) + event_packet(made(30)), "outside the 20x20 sensor"),
        (head(stream(0, "EVTS")) + event_packet(made(3)).replace(b"EVTS", b"FRME"), "makes no sense|damaged"),
    ],
)
def test_refusals(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "a.aedat4"
    path.write_bytes(content)
    with pytest.raises(UserError, match=said), open_recording(path) as recording:
        recording.read()


def zstd_bomb(blocks: int) -> bytes:
    """Blocks of one repeated byte: 4 bytes that become 128 KiB."""
    block = ((1 << 17) << 3 | 1 << 1).to_bytes(3, "little") + b"\0"
    return struct.pack("<IBB", 0xFD2FB528, 0, 0x38) + block * (blocks - 1) + bytes([block[0] | 1]) + block[1:]


def test_packets_that_would_burst(tmp_path: Path) -> None:
    for code, packet in ((3, zstd_bomb(40_000)), (1, lz4_bomb())):
        path = tmp_path / "bomb.aedat4"
        path.write_bytes(head(stream(0, "EVTS"), compression=code) + struct.pack("<II", 0, len(packet)) + packet)
        with open_recording(path) as recording, pytest.raises(UserError, match="made to fill the memory"):
            recording.read()


def test_many_packets_that_burst_together(tmp_path: Path) -> None:
    import lz4.frame

    # Each is a valid packet of one event repeated, small enough by itself.
    packet = event_packet(EventArray.from_columns(*[np.zeros(900_000, np.int64)] * 4))
    packed = lz4.frame.compress(packet[8:])
    path = tmp_path / "bomb.aedat4"
    path.write_bytes(head(stream(0, "EVTS"), compression=1) + (struct.pack("<II", 0, len(packed)) + packed) * 60)
    with open_recording(path) as recording, pytest.raises(UserError, match="made to fill the memory"):
        recording.read()
    path.write_bytes(head(stream(0, "EVTS"), compression=1) + (struct.pack("<II", 0, len(packed)) + packed) * 2)
    with open_recording(path) as recording:
        assert len(recording.read()) == 1_800_000


def lz4_bomb() -> bytes:
    import lz4.frame

    return lz4.frame.compress(bytes(60 << 20))
