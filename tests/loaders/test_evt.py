"""RAW captures: our decoders against loops written word by word after the specification, faery, and hostile files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evprof.core.errors import UserError
from evprof.core.events import EventArray
from evprof.loaders.events.opening import open_recording, read_events
from evprof.loaders.events.prophesee import raw
from evprof.loaders.events.recording import EventRecording
from made_events import from_faery, same

Event = tuple[int, int, int, int]
HEADERS = {
    "evt2": b"% evt 2.0\n% format EVT2;height=480;width=640\n% geometry 640x480\n% end\n",
    "evt2.1": b"% format EVT21;endianness=little;height=480;width=640\n% end\n",
    "legacy": b"% format EVT21;endianness=legacy;height=480;width=640\n% end\n",
    "evt3": b"% evt 3.0\n% format EVT3;height=480;width=640\n% geometry 640x480\n% end\n",
}
TYPES = {"evt2": "<u4", "evt2.1": "<u8", "legacy": "<u8", "evt3": "<u2"}


def packed(kind: str, words: Iterable[int]) -> bytes:
    """A file: header and words; of `legacy` with the halves of each word swapped."""
    array = np.array(list(words), np.uint64)
    if kind == "legacy":
        array = (array >> np.uint64(32)) | (array << np.uint64(32))
    return HEADERS[kind] + array.astype(TYPES[kind]).tobytes()


def rows(events: EventArray) -> list[Event]:
    """(t, x, y, p) of each event."""
    columns = (events.t_us, events.x, events.y, events.p)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def rows_of(recording: EventRecording) -> list[Event]:
    """All events, by chunks: a recording without any has no `read`."""
    return [event for chunk in recording.chunks() for event in rows(chunk)]


class Clock:
    """TIME_HIGH by the specification and OpenEB's rule for roll-overs."""

    def __init__(self, bits: int) -> None:
        self.bits, self.high, self.loops = bits, -1, 0

    def set(self, high: int) -> bool:
        if self.high >= 0 and self.high - high >= 1 << (self.bits - 1):
            self.loops += 1
        changed, self.high = high != self.high, high
        return changed

    @property
    def now(self) -> int:
        return (self.loops << self.bits) + self.high


def slow_evt2(words: Iterable[int]) -> list[Event]:
    """EVT2 and EVT2.1 (words above 32 bits), one word after the other."""
    clock, found = Clock(28), []
    for word in words:
        head, mask = (word >> 32, word & 0xFFFFFFFF) if word >> 32 else (word, 1)
        if head >> 28 == 8:
            clock.set(head & 0xFFFFFFF)
        elif head >> 28 in (0, 1) and clock.high >= 0:
            x, y, t = head >> 11 & 0x7FF, head & 0x7FF, (clock.now << 6) + (head >> 22 & 63)
            found += [(t, x + bit, y, head >> 28) for bit in range(32) if mask >> bit & 1 and x + bit < 2048]
    return found


def slow_evt3(words: Iterable[int]) -> list[Event]:
    clock, low, row, base, polarity, found = Clock(12), 0, -1, 5000, 0, []
    for word in words:
        kind, content = word >> 12, word & 0xFFF
        if kind == 8:
            low = 0 if clock.set(content) else low
        if clock.high < 0:
            continue
        t = (clock.now << 12) + low
        match kind:
            case 0 | 1:
                row = content & 0x7FF if kind == 0 else -1
            case 2 if row >= 0:
                found.append((t, content & 0x7FF, row, content >> 11))
            case 3:
                base, polarity = content & 0x7FF, content >> 11
            case 4 | 5:
                size = 12 if kind == 4 else 8
                if row >= 0:
                    pixels = (base + bit for bit in range(size) if content >> bit & 1)
                    found += [(t, x, row, polarity) for x in pixels if x < 2048]
                base += size
            case 6:
                low = content
    return found


def evt2_word(kind: int, content: int) -> int:
    return kind << 28 | content


EVT2_WORDS = st.lists(
    st.one_of(
        st.builds(evt2_word, st.sampled_from([0, 1]), st.integers(0, 2**28 - 1)),
        st.builds(lambda high: evt2_word(8, high), st.sampled_from([0, 1, 2, 2**27, 2**28 - 2, 2**28 - 1])),
        st.integers(0, 2**32 - 1),
    ),
    max_size=60,
)
EVT21_WORDS = st.lists(
    st.builds(
        lambda head, mask: head << 32 | mask,
        st.one_of(
            st.builds(evt2_word, st.sampled_from([0, 1]), st.integers(1, 2**28 - 1)),
            st.builds(lambda high: evt2_word(8, high), st.sampled_from([0, 1, 2, 2**27, 2**28 - 2, 2**28 - 1])),
            st.integers(1, 2**32 - 1),
        ),
        st.integers(0, 2**32 - 1),
    ),
    max_size=40,
)
EVT3_WORDS = st.lists(
    st.one_of(
        st.builds(
            lambda kind, content: kind << 12 | content, st.sampled_from([0, 2, 3, 4, 5, 6]), st.integers(0, 4095)
        ),
        st.builds(lambda high: 8 << 12 | high, st.sampled_from([0, 1, 2, 5, 2048, 4094, 4095])),
        st.integers(0, 2**16 - 1),
    ),
    max_size=80,
)
STREAMS = st.one_of(
    st.tuples(st.just("evt2"), EVT2_WORDS),
    st.tuples(st.sampled_from(["evt2.1", "legacy"]), EVT21_WORDS),
    st.tuples(st.just("evt3"), EVT3_WORDS),
)


def expected(kind: str, words: list[int]) -> list[Event]:
    return slow_evt3(words) if kind == "evt3" else slow_evt2(words)


@given(stream=STREAMS, block=st.sampled_from([1, 2, 3, 7, 1 << 17]))
def test_any_block_size_gives_what_the_specification_says(tmp_path, stream: tuple[str, list[int]], block: int) -> None:
    kind, words = stream
    path = tmp_path / "a.raw"
    path.write_bytes(packed(kind, words))
    with raw.open_raw(path, block) as recording:
        assert rows_of(recording) == expected(kind, words)


@given(
    stream=STREAMS,
    block=st.sampled_from([1, 3, 16]),
    window=st.tuples(st.integers(0, 50_000), st.integers(1, 40_000_000)),
)
def test_windows_are_slices_of_the_whole(
    tmp_path: Path, stream: tuple[str, list[int]], block: int, window: tuple[int, int]
) -> None:
    start, length = window
    kind, words = stream
    path = tmp_path / "a.raw"
    path.write_bytes(packed(kind, words))
    whole = expected(kind, words)
    with raw.open_raw(path, block) as recording:
        assert rows(recording.read_time(start, start + length)) == [e for e in whole if start <= e[0] < start + length]
        info = recording.info
        assert info.t_min_us == min((event[0] for event in whole), default=None)
        assert info.t_max_us == max((event[0] for event in whole), default=None)
        if whole:
            assert rows(recording.read()) == whole


def sensor_like_evt3(seconds: float, seed: int = 3) -> list[int]:
    """As a sensor writes: the upper time said again each 2 ms, bursts of 32 pixels, single events, triggers."""
    chance = np.random.default_rng(seed)
    words: list[int] = []
    for t in range(0, int(seconds * 1e6), 2048):
        words.append(8 << 12 | (t >> 12) & 0xFFF)
        if chance.random() < 0.02:
            for low in (t & 0xFFF, (t & 0xFFF) + 7):
                words += [6 << 12 | low, int(chance.integers(0, 480)), 8 << 12 | (t >> 12) & 0xFFF]
                words.append(3 << 12 | int(chance.integers(0, 2)) << 11 | int(chance.integers(0, 19)) * 32)
                words += [4 << 12 | int(chance.integers(0, 4096)), 4 << 12 | int(chance.integers(0, 4096))]
                words += [5 << 12 | int(chance.integers(0, 256)), 10 << 12 | 0x101, 14 << 12 | 0x14, 7 << 12 | 5]
                words += [15 << 12 | 1, 2 << 12 | int(chance.integers(0, 640))]
    return words


def test_evt3_passes_many_roll_overs(tmp_path: Path) -> None:
    words = sensor_like_evt3(60)
    path = tmp_path / "long.raw"
    path.write_bytes(packed("evt3", words))
    events = read_events(path)
    assert rows(events) == slow_evt3(words)
    assert int(events.t_us.max()) > 3 * 2**24
    assert events.is_sorted
    with raw.open_raw(path, 1000) as recording:
        window = recording.read_time(2**24 - 30_000, 2**24 + 30_000)
        assert len(window) > 30
        assert rows(window) == [event for event in rows(events) if abs(event[0] - 2**24 + 0.5) <= 30_000]


@pytest.mark.parametrize("faery_version", ["evt2", "evt3"])
def test_what_faery_writes_reads_equal(tmp_path: Path, faery_version: str) -> None:
    import faery

    chance = np.random.default_rng(1)
    source = np.empty(50_000, faery.EVENTS_DTYPE)
    source["t"] = np.sort(chance.integers(0, 900_000, len(source)))
    source["x"], source["y"] = chance.integers(0, 640, len(source)), chance.integers(0, 480, len(source))
    source["p"] = chance.integers(0, 2, len(source))
    # Bursts, so that vectors are written.
    source["x"][:30_000] = np.arange(30_000) % 640
    source["y"][:30_000] = np.arange(30_000) // 640
    source["t"][:30_000] = source["t"][np.arange(30_000) // 640 * 640]
    source["p"][:30_000] = 1
    source["t"].sort()
    for name, is_zeroed in (("from_zero", True), ("as_is", False)):
        path = tmp_path / f"{name}.raw"
        faery.events_stream_from_array(source, (640, 480)).to_file(path, version=faery_version, zero_t0=is_zeroed)
        assert same(read_events(path), from_faery(source))
        with open_recording(path) as recording:
            assert (recording.info.format, recording.info.width, recording.info.height) == (faery_version, 640, 480)


EVT2 = [evt2_word(8, 5), evt2_word(1, 3 << 22 | 7 << 11 | 9), evt2_word(0, 4 << 22 | 8 << 11 | 10)]
EVT3 = [0x8001, 0x6010, 0x0009, 0x2807]


@pytest.mark.parametrize(
    ("header", "words", "form"),
    [
        (b"% evt 2.0\n", EVT2, "evt2"),
        (b"% Evt 2.0\r\n% geometry 640x480\r\n", EVT2, "evt2"),
        (b"% evt 3.0\n% format EVT2;width=640;height=480\n% end\n", EVT2, "evt2"),
        (b"% format EVT3;width=640;height=480\n% evt 9\n", EVT3, "evt3"),
        (b"% Date 2019-02-03\n% integrator_name Prophesee\n% system_ID 20\n", EVT2, "evt2"),
        (b"% integrator_name Prophesee\n% serial_number 00c80\n", EVT3 * 8, "evt3"),
        (b"% format EVT3\n% end\n", [0x8001, 0x6010, 0x0009, 0x2807], "evt3"),
    ],
)
def test_headers_of_all_ages(tmp_path: Path, header: bytes, words: list[int], form: str) -> None:
    path = tmp_path / "a.raw"
    path.write_bytes(header + packed(form, words)[len(HEADERS[form]) :])
    with open_recording(path) as recording:
        assert recording.info.format == form
        assert rows_of(recording) == expected(form, words)


def test_what_a_header_says_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a.raw"
    header = b"% camera_integrator_name Prophesee\n% sensor_name IMX636\n% geometry 1280x720\n% evt 3.0\n% end\n"
    path.write_bytes(header + packed("evt3", EVT3)[len(HEADERS["evt3"]) :])
    with open_recording(path) as recording:
        info = recording.info
    assert (info.width, info.height) == (1280, 720)
    assert info.details["sensor"] == "IMX636"
    assert info.problems == ()


def test_old_cameras_have_the_size_that_they_have(tmp_path: Path) -> None:
    path = tmp_path / "a.raw"
    lines = b"% integrator_name Prophesee\n% system_ID 21\n% evt 2.0\n"
    for header, size in ((lines, (640, 480)), (lines.replace(b"Prophesee", b"Others"), (None, None))):
        path.write_bytes(header + packed("evt2", EVT2)[len(HEADERS["evt2"]) :])
        with open_recording(path) as recording:
            assert (recording.info.width, recording.info.height) == size


def test_a_line_of_data_that_begins_like_a_header_is_data(tmp_path: Path) -> None:
    # 0x0A25 is row 0x225 with a newline in it; 0x2025 an event at column 37: "% " in bytes.
    words = [0x8001, 0x0025, 0x2025, 0x2025, 0x0A25]
    path = tmp_path / "a.raw"
    path.write_bytes(packed("evt3", [0x2025, *words]))
    with open_recording(path) as recording:
        assert rows_of(recording) == slow_evt3(words)


@pytest.mark.parametrize("is_legacy", [False, True])
def test_byte_order_that_the_header_leaves_open_is_seen(tmp_path: Path, is_legacy: bool) -> None:
    chance = np.random.default_rng(5)
    words = []
    for high in range(200):
        words.append(evt2_word(8, 77 + high) << 32)
        for _ in range(5):
            head = evt2_word(int(chance.integers(0, 2)), int(chance.integers(0, 64)) << 22 | 32 << 11 | 9)
            words.append(head << 32 | int(chance.integers(1, 2**32)))
    content = packed("legacy" if is_legacy else "evt2.1", words)
    path = tmp_path / "a.raw"
    path.write_bytes(b"% format EVT21;height=480;width=640\n% end\n" + content[content.index(b"% end\n") + 6 :])
    assert rows(read_events(path)) == slow_evt2(words)


def problem_of(path: Path) -> str:
    with open_recording(path) as recording:
        return " ".join(recording.info.problems)


def test_a_capture_cut_in_a_word_is_read_as_far_as_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "cut.raw"
    path.write_bytes(packed("evt2", EVT2)[:-1])
    assert rows(read_events(path)) == slow_evt2(EVT2[:-1])
    assert "in the middle of a word" in problem_of(path)


def test_events_before_any_time_are_left_out_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "a.raw"
    path.write_bytes(packed("evt2", [evt2_word(1, 5), evt2_word(0, 6), *EVT2]))
    assert len(read_events(path)) == 2
    assert problem_of(path).startswith("2 events come before")
    path.write_bytes(packed("evt3", [0x0001, 0x3010, 0x4FFF, 0x2001, *EVT3]))
    assert len(read_events(path)) == 1
    assert problem_of(path).startswith("13 events come before")


def test_events_outside_the_named_sensor_are_kept_and_told(tmp_path: Path) -> None:
    path = tmp_path / "a.raw"
    path.write_bytes(packed("evt2", [*EVT2, evt2_word(1, 700 << 11)]))
    assert int(read_events(path).x.max()) == 700
    assert "outside the 640x480" in problem_of(path)


@pytest.mark.parametrize("kind", sorted(HEADERS))
def test_a_file_without_events_has_a_sentence(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "a.raw"
    path.write_bytes(HEADERS[kind])
    with pytest.raises(UserError, match="holds no events"):
        read_events(path)
    with open_recording(path) as recording:
        assert recording.info.t_min_us is None
        assert len(recording.read_time(0, 10)) == 0


@pytest.mark.parametrize("line", [b"% format EVT4;width=640;height=480\n", b"% evt 4.0\n", b"% format HISTO3D\n"])
def test_encodings_that_are_not_read_are_named(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "a.raw"
    path.write_bytes(line + b"% end\n" + bytes(100))
    with pytest.raises(UserError, match=r"is RAW in '(EVT4|4\.0|HISTO3D)'"):
        read_events(path)
