"""The answer as marks: rejected tokens in place, byte pieces joined, growth equal to a fresh build."""

from __future__ import annotations

import random

import pytest

from evprof.core.records import TokenRecord
from evprof.core.run_info import RunInfo
from evprof.core.run_log import RunLog
from evprof.core.text import join_pieces
from ui.columns.answer import AnswerFlow


def empty_run() -> RunLog:
    return RunLog(RunInfo(1, 1, 0, "target", "speculative"))


def token(position: int, piece: str, origin: str = "target", round_index: int = -1) -> TokenRecord:
    return TokenRecord(1, "target", position, 7, origin, round_index, 1000 * position, piece)


def feed(run: RunLog, *tokens: TokenRecord) -> None:
    for one in tokens:
        run.absorb(one)


def shown(flow: AnswerFlow) -> str:
    return "".join(f"~{mark.text}~" if mark.is_rejected else mark.text for mark in flow.marks)


def test_rejected_tokens_stand_before_the_token_that_replaced_them() -> None:
    run = empty_run()
    feed(
        run,
        token(0, " A"),
        token(1, " red", "accepted", 0),
        token(2, " bus", "bonus", 0),
        token(2, " car", "rejected", 0),
        token(3, " near", "rejected", 0),
        token(3, " stops", "bonus", 1),
    )
    flow = AnswerFlow(run)
    assert flow.update() == 0
    assert shown(flow) == "A red~ car~~ near~ bus stops"
    assert flow.plain_text() == "A red bus stops"
    assert flow.update() is None


def test_a_characters_bytes_are_one_mark_even_across_updates() -> None:
    run = empty_run()
    flow = AnswerFlow(run)
    feed(run, token(0, " 5"), token(1, "<0xE2>"), token(2, "<0x82>"))
    flow.update()
    feed(run, token(3, "<0xAC>"), token(4, " left"))
    assert flow.update() == 1
    assert [mark.text for mark in flow.marks] == ["5", "€", " left"]
    assert [record.position for record in flow.marks[1].tokens] == [1, 2, 3]


def test_a_character_is_not_torn_by_a_rejection_between_its_bytes() -> None:
    run = empty_run()
    feed(
        run,
        token(0, " x"),
        token(1, "<0xC3>", "accepted", 0),
        token(2, "<0xAB>", "rejected", 0),
        token(2, "<0xA9>", "bonus", 0),
    )
    flow = AnswerFlow(run)
    flow.update()
    assert flow.plain_text() == "xé"
    assert [mark.is_rejected for mark in flow.marks] == [False, False, True]


def test_a_draft_column_shows_proposals_only() -> None:
    run = empty_run()
    feed(
        run,
        token(0, " A"),
        token(1, " red", "accepted", 0),
        token(2, " bus", "bonus", 0),
        token(2, " car", "rejected", 0),
        token(3, " car", "rejected", 1),
        token(3, " stops", "bonus", 1),
    )
    flow = AnswerFlow(run, proposals_only=True)
    flow.update()
    assert shown(flow) == "red~ car~~ car~"
    del run.tokens[:2], run.rejected[1:]
    other = AnswerFlow(run, proposals_only=True)
    other.update()
    assert shown(other) == "~car~"


def test_control_pieces_are_marks_but_no_text() -> None:
    run = empty_run()
    feed(run, token(0, " Yes"), token(1, "</s>"))
    flow = AnswerFlow(run)
    flow.update()
    assert flow.plain_text() == "Yes"
    assert flow.marks[1].is_control


@pytest.mark.parametrize("seed", range(12))
def test_growing_in_any_portions_equals_a_fresh_build(seed: int) -> None:
    chance = random.Random(seed)
    pieces = [" word", "ing", "<0xE2>", "<0x82>", "<0xAC>", "\n", " é"]
    records = [token(0, " Start")]
    position = 1
    for number in range(40):
        drafted, accepted = 4, chance.randint(0, 4)
        for offset in range(accepted):
            records.append(token(position + offset, chance.choice(pieces), "accepted", number))
        for offset in range(accepted, drafted):
            records.append(token(position + offset, chance.choice(pieces), "rejected", number))
        records.append(token(position + accepted, chance.choice(pieces), "bonus", number))
        position += accepted + 1
    run = empty_run()
    flow = AnswerFlow(run)
    start = 0
    while start < len(records):
        stop = start + chance.randint(1, 9)
        before = list(flow.marks)
        feed(run, *records[start:stop])
        changed = flow.update()
        assert changed is None or before[:changed] == flow.marks[:changed]
        start = stop
    fresh = AnswerFlow(run)
    fresh.update()
    assert flow.marks == fresh.marks
    assert flow.plain_text() == join_pieces(record.piece for record in run.tokens)
    rejected = [mark for mark in flow.marks if mark.is_rejected]
    assert len(rejected) == len(run.rejected)
