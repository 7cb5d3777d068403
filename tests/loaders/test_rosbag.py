"""Bags are written by rosbags; the event messages in them by the message types' definition."""

from __future__ import annotations

import bz2
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from evprof.core.errors import UserError
from evprof.core.events import EventArray
from evprof.loaders.events.opening import open_recording
from made_events import same

EVENT_ARRAY = """std_msgs/Header header
uint32 height
uint32 width
Event[] events
================================================================================
MSG: std_msgs/Header
uint32 seq
time stamp
string frame_id
================================================================================
MSG: dvs_msgs/Event
uint16 x
uint16 y
time ts
bool polarity
"""
MD5 = "5e8beee5a6c107e504c2e78903c224b8"
START_US = 1_468_940_032_000_000


def made(count: int, seed: int = 5, *, width: int = 240, height: int = 180) -> EventArray:
    chance = np.random.default_rng(seed)
    return EventArray.from_columns(
        chance.integers(0, width, count),
        chance.integers(0, height, count),
        START_US + np.sort(chance.integers(0, 1_000_000, count)),
        chance.integers(0, 2, count),
    )


def message(
    events: EventArray, *, frame: bytes = b"davis", size: tuple[int, int] = (240, 180), extra_ns: int = 0
) -> bytes:
    rows = np.zeros(len(events), [("x", "<u2"), ("y", "<u2"), ("s", "<u4"), ("ns", "<u4"), ("p", "?")])
    rows["x"], rows["y"], rows["p"] = events.x, events.y, events.p
    rows["s"], rows["ns"] = events.t_us // 1_000_000, events.t_us % 1_000_000 * 1_000 + extra_ns
    head = struct.pack("<IIII", 7, 1, 2, len(frame)) + frame + struct.pack("<III", size[1], size[0], len(events))
    return head + rows.tobytes()


def bag(
    path: Path,
    topics: Mapping[str, Sequence[bytes]],
    *,
    compression: str | None = None,
    kind: str = "dvs_msgs/msg/EventArray",
    chunk_bytes: int = 1 << 20,
) -> Path:
    """One message of each topic after the other, a millisecond apart; a topic called /imu is no event topic."""
    from rosbags.rosbag1 import Writer

    path.unlink(missing_ok=True)
    writer = Writer(path)
    writer.chunk_threshold = chunk_bytes
    if compression:
        writer.set_compression(Writer.CompressionFormat[compression.upper()])
    with writer:
        connections = {
            topic: writer.add_connection(topic, "sensor_msgs/msg/Imu", msgdef="float64 x", md5sum="a" * 32)
            if topic == "/imu"
            else writer.add_connection(topic, kind, msgdef=EVENT_ARRAY, md5sum=MD5)
            for topic in topics
        }
        for number in range(max(map(len, topics.values()))):
            for topic, messages in topics.items():
                if number < len(messages):
                    writer.write(connections[topic], START_US * 1_000 + number * 1_000_000, messages[number])
    return path


def cut(events: EventArray, parts: int) -> list[bytes]:
    return [message(part) for part in events.split_equal_count(parts)]


@pytest.mark.parametrize("compression", [None, "bz2", "lz4"])
@pytest.mark.parametrize("chunk_bytes", [1 << 20, 4_000])
def test_events_of_a_topic(tmp_path: Path, compression: str | None, chunk_bytes: int) -> None:
    events = made(20_000)
    topics = {"/imu": [bytes(300)] * 90, "/dvs/events": cut(events, 50)}
    path = bag(tmp_path / "a.bag", topics, compression=compression, chunk_bytes=chunk_bytes)
    with open_recording(path) as recording:
        assert same(recording.read(), events)
        info = recording.info
        assert (info.format, info.width, info.height) == ("rosbag1", 240, 180)
        assert (info.t_min_us, info.t_max_us) == (events.t_min_us, events.t_max_us)
        assert info.details == {"topic": "/dvs/events", "other topics": "/imu"}
        for start, stop in ((0, 9_000), (499_990, 500_010), (999_000, 10**9), (-9, 0)):
            window = recording.read_time(START_US + start, START_US + stop)
            assert same(window, events.slice_time(START_US + start, START_US + stop))
        assert recording.origin_us() == events.t_min_us


def test_the_busier_topic_is_read(tmp_path: Path) -> None:
    left, right = made(90), made(90, seed=6)
    path = bag(tmp_path / "a.bag", {"/left": cut(left, 2), "/right": cut(right, 3)})
    with open_recording(path) as recording:
        assert same(recording.read(), right)
        assert recording.info.details == {"topic": "/right", "other topics": "/left"}
    with open_recording(bag(path, {"/left": cut(left, 3), "/right": cut(right, 3)})) as recording:
        assert same(recording.read(), left)


def test_prophesee_messages_and_nanoseconds(tmp_path: Path) -> None:
    events = made(40)
    path = bag(
        tmp_path / "a.bag", {"/cam": [message(events, extra_ns=999)]}, kind="prophesee_event_msgs/msg/EventArray"
    )
    with open_recording(path) as recording:
        assert same(recording.read(), events)


def test_empty_messages(tmp_path: Path) -> None:
    events = made(40)
    none = message(events.slice_count(0, 0), frame=b"")
    path = bag(tmp_path / "a.bag", {"/cam": [none, *cut(events, 2), none]}, chunk_bytes=10)
    with open_recording(path) as recording:
        assert same(recording.read(), events)
        assert same(recording.read_time(0, 2**62), events)
    with open_recording(bag(path, {"/cam": [none]})) as recording, pytest.raises(UserError, match="no events"):
        recording.read()


def test_bags_without_events(tmp_path: Path) -> None:
    path = bag(tmp_path / "a.bag", {"/imu": [bytes(300)] * 3})
    with pytest.raises(UserError, match=r"no topic with .* it holds /imu \(sensor_msgs/Imu\)"):
        open_recording(path)


def test_refusals(tmp_path: Path) -> None:
    events = made(40)
    path = bag(tmp_path / "a.bag", {"/cam": [message(events, size=(10, 10))]})
    with open_recording(path) as recording, pytest.raises(UserError, match="outside the 10x10 sensor"):
        recording.read()
    bag(path, {"/cam": [message(events)[:-1]]})
    with open_recording(path) as recording, pytest.raises(UserError, match="a record of the bag is damaged"):
        recording.read()
    whole = path.read_bytes()
    for content, said in (
        (whole.replace(b"V2.0", b"V1.2"), "another version"),
        (unclosed(whole), "not closed"),
        (whole[:-300], "damaged"),
    ):
        path.write_bytes(content)
        with pytest.raises(UserError, match=said):
            open_recording(path)


def test_a_chunk_that_lies_nowhere(tmp_path: Path) -> None:
    path = bag(tmp_path / "a.bag", {"/cam": cut(made(40), 1)})
    whole = path.read_bytes()
    place = whole.index(b"chunk_pos=") + len(b"chunk_pos=")
    for chunk_pos in (2**64 - 1, 2**63, 1 << 40, 5):
        path.write_bytes(whole[:place] + struct.pack("<Q", chunk_pos) + whole[place + 8 :])
        with open_recording(path) as recording, pytest.raises(UserError, match="damaged"):
            recording.read()


def unclosed(content: bytes) -> bytes:
    place = content.index(b"index_pos=") + len(b"index_pos=")
    return content[:place] + bytes(8) + content[place + 8 :]


def test_a_chunk_that_would_burst(tmp_path: Path) -> None:
    path = bag(tmp_path / "a.bag", {"/cam": [message(made(5))]}, compression="bz2")
    whole = path.read_bytes()
    at = whole.index(b"\x09\0\0\0size=") + 9
    bomb = whole[:at] + struct.pack("<I", 3 << 30) + whole[at + 4 :]
    path.write_bytes(bomb)
    with open_recording(path) as recording, pytest.raises(UserError, match="made to fill the memory"):
        recording.read()
    # A chunk that holds more than it says is not read on to its end.
    start = whole.index(b"BZh")
    packed = bz2.compress(bytes(100 << 20))
    length = struct.unpack_from("<I", whole, start - 4)[0]
    index = whole.index(b"index_pos=") + 10
    moved = struct.pack("<Q", struct.unpack_from("<Q", whole, index)[0] + len(packed) - length)
    content = whole[: start - 4] + struct.pack("<I", len(packed)) + packed + whole[start + length :]
    path.write_bytes(content[:index] + moved + content[index + 8 :])
    with open_recording(path) as recording, pytest.raises(UserError, match="damaged at byte"):
        recording.read()
