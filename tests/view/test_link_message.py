"""What linked windows tell each other, and what of a stranger's words is taken."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evprof.view.link_message import MOST_BYTES, LinkMessage, link_message

moments = st.integers(-(10**15), 10**15)
views = st.none() | st.tuples(moments, moments).filter(lambda ends: ends[0] < ends[1])


@given(st.none() | moments, views)
def test_a_message_arrives_as_it_was_sent(cursor: int | None, view: tuple[int, int] | None) -> None:
    sent = LinkMessage(cursor, view)
    assert len(sent.encoded()) <= MOST_BYTES
    assert sent.encoded().count(b"\n") == 1
    assert link_message(sent.encoded()) == sent


@given(st.binary(max_size=400))
def test_bytes_of_a_stranger_break_nothing(line: bytes) -> None:
    assert link_message(line) is None


@pytest.mark.parametrize(
    "value",
    [
        [],
        {"v": 1},
        {"v": 1, "cursor": 1.5, "view": None},
        {"v": 1, "cursor": True, "view": None},
        {"v": 1, "cursor": 10**16, "view": None},
        {"v": 1, "cursor": None, "view": [5, 5]},
        {"v": 1, "cursor": None, "view": [1, 2, 3]},
        {"v": 1, "cursor": None, "view": ["1", "2"]},
        {"v": 2, "cursor": None, "view": None},
        {"v": 1, "cursor": None, "view": None, "more": 1},
    ],
)
def test_what_is_no_moment_or_view_is_refused(value: object) -> None:
    assert link_message(json.dumps(value).encode()) is None
