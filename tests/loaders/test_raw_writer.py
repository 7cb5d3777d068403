"""RAW and DAT files that we write: equal when we read them, and when faery does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evprof.core.errors import UserError
from evprof.core.events import EventArray
from evprof.loaders.events.opening import open_recording, read_events
from evprof.loaders.writers.raw import write_dat, write_evt2, write_evt3
from made_events import from_faery, same

Writer = Callable[..., int]
WRITERS: dict[str, Writer] = {"evt2.raw": write_evt2, "evt3.raw": write_evt3, "a.dat": write_dat}


def made(rows: list[tuple[int, int, int, int]]) -> EventArray:
    """Events of (t, x, y, p)."""
    t, x, y, p = zip(*rows, strict=True) if rows else ((), (), (), ())
    return EventArray.from_columns(np.array(x, np.int64), np.array(y, np.int64), np.array(t, np.int64), np.array(p))


def faery_reads(path: Path) -> EventArray:
    import faery

    return from_faery(faery.events_stream_from_file(path).to_array())


EVENTS = st.lists(
    st.tuples(
        st.one_of(st.integers(0, 3), st.integers(0, 5000), st.sampled_from([2**24 - 1, 2**24, 2**23, 40_000_000])),
        st.one_of(st.integers(0, 40), st.integers(0, 2047)),
        st.integers(0, 3),
        st.integers(0, 1),
    ),
    min_size=1,
    max_size=80,
)


@given(
    rows=EVENTS, name=st.sampled_from(sorted(WRITERS)), piece=st.integers(1, 40), width=st.sampled_from([None, 2048])
)
def test_any_events_in_time_order_come_back(
    tmp_path: Path, rows: list[tuple[int, int, int, int]], name: str, piece: int, width: int | None
) -> None:
    steps, *rest = zip(*rows, strict=True)
    times = np.cumsum(steps).tolist()
    events = made([(t, *others) for t, *others in zip(times, *rest, strict=True)])
    path = tmp_path / name
    pieces = [events.slice_count(start, start + piece) for start in range(0, len(events), piece)]
    WRITERS[name](path, pieces, width=width, height=None)
    assert same(read_events(path), events)
    assert same(faery_reads(path), events)
    with open_recording(path) as recording:
        assert recording.info.width == (width or events.width)


@pytest.mark.parametrize(
    ("name", "t_us"),
    [("evt2.raw", 2**34 + 5), ("evt2.raw", 3 * 2**34), ("evt3.raw", 3_600_000_000), ("a.dat", 2**32 + 9)],
)
def test_long_recordings_roll_over(tmp_path: Path, name: str, t_us: int) -> None:
    events = made([(t, t % 640, 3, 1) for t in (0, 10, 2**31 + 10, t_us, t_us + 1)])
    path = tmp_path / name
    WRITERS[name](path, [events], width=640, height=480)
    assert same(read_events(path), events)
    assert same(faery_reads(path), events)


@pytest.mark.parametrize("name", sorted(WRITERS))
@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ([(5, 1, 1, 1), (4, 1, 1, 1)], "backwards at event 1"),
        ([(-5, 1, 1, 1)], "no negative times"),
        ([(0, 1, 1, 1), (2**60, 1, 1, 1)], "too long"),
        ([], "no events to write"),
    ],
)
def test_what_cannot_be_said_is_refused(
    tmp_path: Path, name: str, rows: list[tuple[int, int, int, int]], sentence: str
) -> None:
    path = tmp_path / name
    path.write_bytes(b"what was there")
    with pytest.raises(UserError, match=sentence):
        WRITERS[name](path, [made(rows)], width=None, height=None)
    assert path.read_bytes() == b"what was there"
    assert [each.name for each in tmp_path.iterdir()] == [name]
