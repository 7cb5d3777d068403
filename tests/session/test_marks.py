"""Marks in a session's facts: what was written is read, and what is no mark is left out."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evprof.session.facts import LONGEST_NOTE, MARKS, MOST_MARKS, Mark, marks_of

MOMENTS = st.integers(-(1 << 60), 1 << 60)
SET = st.builds(
    lambda run_id, ends, note: Mark(run_id, min(ends), max(ends), note),
    st.integers(0, 1 << 40),
    st.tuples(MOMENTS, MOMENTS),
    st.text("abc ünd.", max_size=40).map(lambda text: " ".join(text.split())),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["run_id", "start_ns", "end_ns", "note", "x"]), inner, max_size=5)
    ),
    max_leaves=30,
)


@given(marks=st.lists(SET, max_size=20))
def test_what_was_set_is_read(marks: list[Mark]) -> None:
    found = marks_of({MARKS: [mark.to_json() for mark in marks]})
    assert sorted(map(repr, found)) == sorted(map(repr, marks))
    assert [(mark.run_id, mark.start_ns) for mark in found] == sorted((mark.run_id, mark.start_ns) for mark in marks)


@given(value=JSON)
def test_whatever_else_stands_there_is_no_mark_or_a_possible_one(value: Any) -> None:
    for mark in marks_of({MARKS: value}):
        assert mark.run_id >= 0
        assert mark.start_ns <= mark.end_ns
        assert mark.note.isprintable()


@pytest.mark.parametrize(
    "wrong",
    [
        {"run_id": 1, "start_ns": 5, "end_ns": 4},
        {"run_id": -1, "start_ns": 4, "end_ns": 5},
        {"run_id": True, "start_ns": 4, "end_ns": 5},
        {"run_id": 1, "start_ns": 0, "end_ns": 1 << 62},
        {"run_id": 1, "start_ns": 4},
    ],
)
def test_impossible_marks_are_left_out(wrong: dict[str, Any]) -> None:
    good = {"run_id": 1, "start_ns": 4, "end_ns": 5, "note": "here"}
    assert marks_of({MARKS: [wrong, good]}) == [Mark(1, 4, 5, "here")]


def test_notes_hide_nothing_and_neither_they_nor_marks_go_on_for_ever() -> None:
    entry = {"run_id": 1, "start_ns": 4, "end_ns": 5, "note": "a\u202eb\n" + "x" * 100_000}
    found = marks_of({MARKS: [entry] * (MOST_MARKS + 500)})
    assert len(found) == MOST_MARKS
    assert found[0].note.startswith("a⟨U+202E⟩b x")
    assert len(found[0].note) < LONGEST_NOTE + 20
