"""Two answers beside each other in words, with the moment each was said."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evprof.core.records import ORIGIN_TARGET, TARGET, TokenRecord
from evprof.core.run_info import FINISHED, RUNNING, RunInfo
from evprof.core.run_log import RunLog
from evprof.core.texts import join_pieces
from evprof.metrics.comparison.answers import (
    CHANGED,
    MOST_WORDS,
    ONLY_A,
    ONLY_B,
    SAME,
    SaidWord,
    diff_of,
    said_words,
    spans_of,
)
from evprof.metrics.figures.scores import words

MS = 1_000_000
ZERO = 5 * MS


def _run(pieces: list[str], *, step_ms: int = 10, run_id: int = 1) -> RunLog:
    """A run that says one piece every `step_ms` from its zero on."""
    run = RunLog(RunInfo(run_id, run_id, 0, TARGET, "target", start_ns=ZERO))
    for place, piece in enumerate(pieces):
        t_ns = ZERO + (place + 1) * step_ms * MS
        run.absorb(TokenRecord(run_id, TARGET, place, place, ORIGIN_TARGET, -1, t_ns, piece))
    run.info.status = FINISHED
    return run


pieces = st.lists(
    st.one_of(
        st.sampled_from([" a", " car", "s", " bus", ".", ",", " the", "道", "</s>", "\n", " "]),
        st.sampled_from([f"<0x{byte:02X}>" for byte in "é €".encode()]),
        st.text(max_size=4),
    ),
    max_size=40,
)


@given(pieces)
def test_words_are_those_of_the_text_and_come_in_order(listed: list[str]) -> None:
    said = said_words(_run(listed))
    text = join_pieces(["x", *(piece for piece in listed if piece != "</s>")])[1:]
    if "</s>" not in listed:
        assert [word.text for word in said] == words(text)
    times = [word.t_ns for word in said]
    assert times == sorted(times)
    assert all(0 < t_ns <= len(listed) * 10 * MS for t_ns in times)


said = st.lists(st.sampled_from(["red", "Red", "car,", "car", "bus", "—", "!"]), max_size=30).map(
    lambda texts: [SaidWord(text, place, place) for place, text in enumerate(texts)]
)


@given(said, said)
def test_every_word_of_both_stands_in_one_span(a: list[SaidWord], b: list[SaidWord]) -> None:
    spans = spans_of(a, b)
    assert [word for span in spans for word in span.a] == a
    assert [word for span in spans for word in span.b] == b
    for span in spans:
        sizes = bool(span.a), bool(span.b)
        wanted = {SAME: (True, True), CHANGED: (True, True), ONLY_A: (True, False), ONLY_B: (False, True)}
        assert sizes == wanted[span.kind]
        if span.kind == SAME:
            assert [word.text.strip(",").lower() for word in span.a] == [
                word.text.strip(",").lower() for word in span.b
            ]
    assert all(one.kind != SAME or other.kind != SAME for one, other in pairwise(spans))


def test_it_tells_where_answers_part_and_who_was_earlier() -> None:
    a = _run([" The", " red", " car", " st", "ops", ".", "</s>"], step_ms=10)
    b = _run(["The", " RED", " car", " drives", " on", ".", "</s>"], step_ms=30, run_id=2)
    found = diff_of(a, b)
    same, differing = found.spans
    assert [word.text for word in same.a] == ["The", "red", "car"]
    assert same.lead_ns == 60 * MS
    assert found.first_difference is differing
    assert (found.common_words, differing.kind) == (3, CHANGED)
    told = found.to_json()["first_difference"]
    # "stops." is said with its full stop, the sixth token.
    assert told["a"] == {"text": "stops.", "start_ms": 60.0, "end_ms": 60.0}
    assert told["b"] == {"text": "drives on.", "start_ms": 120.0, "end_ms": 180.0}
    assert told["a_lead_ms"] is None


@given(pieces, st.integers(0, 40))
def test_an_answer_that_goes_on_parts_only_where_its_end_will(listed: list[str], said_so_far: int) -> None:
    whole = [f" {piece.strip()}" if place % 2 else piece for place, piece in enumerate(listed)]
    begun, other = _run(whole[:said_so_far], run_id=2), _run(whole)
    begun.info.status = RUNNING
    spelled = any(piece.startswith("<") for piece in whole)
    assert spelled or diff_of(other, begun).first_difference is None


def test_where_one_slips_a_word_in_both_are_told_from_there_on() -> None:
    a, b = _run(["A", " car", " drives"]), _run(["A", " red", " car", " drives"], run_id=2)
    found = diff_of(a, b)
    assert found.first_difference.kind == ONLY_B
    assert [[word.text for word in side] for side in found.parting] == [["car", "drives"], ["red", "car", "drives"]]
    told = found.to_json()["parting"]
    assert (told["a"]["start_ms"], told["b"]["start_ms"]) == (20.0, 20.0)


@pytest.mark.parametrize("words_of", ["ab", "a b c d e f g h"])
def test_very_long_answers_are_cut(words_of: str) -> None:
    listed = [f" {letter}" for letter in words_of.split()] * (2 * MOST_WORDS)
    found = diff_of(_run(listed), _run(listed[1:], run_id=2))
    assert found.is_cut
    assert sum(len(span.a) for span in found.spans) == MOST_WORDS


def test_without_times_there_is_a_diff_and_no_lead() -> None:
    a, b = (RunLog(RunInfo(number, number, 0, TARGET, "target", text="one two")) for number in (1, 2))
    assert [span.to_json()["a_lead_ms"] for span in diff_of(a, b).spans] == [None]


@given(st.lists(st.sampled_from([" a", " car", " bus", "s", " red"]), max_size=30), st.data())
def test_what_differs_is_told_by_the_places_of_its_tokens(listed: list[str], data: st.DataObject) -> None:
    """Tokens outside of the stretches are those of words that both say; all others lie in one."""
    changed = data.draw(st.lists(st.sampled_from([" a", " car", " bus", "s", " red"]), max_size=30))
    runs = _run(["one", *listed]), _run(["one", *changed], run_id=2)
    diff = diff_of(*runs)
    for side in (0, 1):
        stretches = diff.differing(side)
        same = {word.position for span in diff.spans if span.kind == SAME for word in (span.a, span.b)[side]}
        other = {word.position for span in diff.spans if span.kind != SAME for word in (span.a, span.b)[side]}
        inside = {
            place
            for place in range(len(runs[side].tokens))
            if any(first <= place and (stop is None or place < stop) for first, stop in stretches)
        }
        assert not same & inside
        assert other <= inside
        assert all(before[1] is not None and before[1] < after[0] for before, after in pairwise(stretches))


def test_what_one_has_not_said_yet_is_no_difference() -> None:
    behind = _run([" a", " red"], run_id=2)
    behind.info.status = RUNNING
    diff = diff_of(_run([" a", " red", " bus"]), behind)
    assert (diff.differing(0), diff.differing(1)) == ([], [])
