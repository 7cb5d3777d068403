"""DAT files: by hand-packed records, by faery, and damaged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evprof.core.errors import UserError
from evprof.loaders.events.opening import open_recording, read_events
from evprof.loaders.events.prophesee import raw
from made_events import from_faery, same

HEADER = b"% Data file containing CD events.\n% Version 2\n% Height 480\n% Width 640\n"
Record = tuple[int, int, int, int]


def packed(records: list[Record], header: bytes = HEADER + b"\x0c\x08") -> bytes:
    """A file of (t modulo 2^32, x, y, p)."""
    content = [(t % 2**32) | (x | y << 14 | p << 28) << 32 for t, x, y, p in records]
    return header + np.array(content, "<u8").tobytes()


def unwrapped(records: list[Record]) -> list[Record]:
    """By the rule: a fall of half the range or more is a roll-over."""
    found, last, loops = [], 0, 0
    for t, x, y, p in records:
        loops += last - t >= 2**31
        last = t
        found.append((t + (loops << 32), x, y, p))
    return found


RECORDS = st.lists(
    st.tuples(
        st.one_of(st.integers(0, 2**32 - 1), st.sampled_from([0, 1, 2**32 - 1, 2**31])),
        st.integers(0, 639),
        st.integers(0, 479),
        st.integers(0, 1),
    ),
    max_size=40,
)


@given(
    records=RECORDS,
    block=st.sampled_from([1, 2, 5, 1000]),
    start=st.integers(0, 2**33),
)
def test_records_and_windows(tmp_path: Path, records: list[Record], block: int, start: int) -> None:
    path = tmp_path / "a.dat"
    path.write_bytes(packed(records))
    expected = unwrapped(records)
    with raw.open_dat(path, block) as recording:
        found = [
            row
            for each in recording.chunks()
            for row in zip(each.t_us.tolist(), each.x.tolist(), each.y.tolist(), each.p.tolist(), strict=True)
        ]
        assert found == expected
        window = recording.read_time(start, start + 2**31)
        assert window.t_us.tolist() == [row[0] for row in expected if start <= row[0] < start + 2**31]
        info = recording.info
        assert info.t_min_us == min((row[0] for row in expected), default=None)
        assert info.t_max_us == max((row[0] for row in expected), default=None)


@pytest.mark.parametrize("version", ["dat1", "dat2"])
@pytest.mark.parametrize("is_zeroed", [True, False])
def test_what_faery_writes_reads_equal(tmp_path: Path, version: Any, is_zeroed: bool) -> None:
    import faery

    chance = np.random.default_rng(2)
    source = np.empty(20_000, faery.EVENTS_DTYPE)
    source["t"] = np.sort(chance.integers(5_000, 2**33, len(source)))
    source["x"], source["y"] = chance.integers(0, 300, len(source)), chance.integers(0, 240, len(source))
    source["p"] = chance.integers(0, 2, len(source))
    if not is_zeroed:
        source["t"] -= source["t"][0]
    path = tmp_path / "a.dat"
    faery.events_stream_from_array(source, (304, 240)).to_file(path, version=version, zero_t0=is_zeroed)
    assert same(read_events(path), from_faery(source))
    with open_recording(path) as recording:
        info = recording.info
        assert (info.format, info.width, info.height, info.problems) == ("dat", 304, 240, ())


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (HEADER + b"\x0e\x08" + bytes(80), "triggers"),
        (HEADER + b"\x0c\x08", "no events"),
        (HEADER, "ends within its header"),
        (HEADER.replace(b"Version 2", b"Version 7") + b"\x0c\x08" + bytes(80), "version '7'"),
    ],
)
def test_what_is_no_recording_is_refused(tmp_path: Path, content: bytes, sentence: str) -> None:
    path = tmp_path / "a.dat"
    path.write_bytes(content)
    with pytest.raises(UserError, match=sentence):
        read_events(path)


def test_a_record_cut_short_is_left_out_and_told(tmp_path: Path) -> None:
    path = tmp_path / "a.dat"
    path.write_bytes(packed([(1, 2, 3, 1), (4, 5, 6, 0)])[:-3])
    assert len(read_events(path)) == 1
    with open_recording(path) as recording:
        assert "in the middle of a word" in recording.info.problems[0]
