"""The answer as marks: rejected tokens in place, byte pieces joined, growth equal to a fresh build."""

from __future__ import annotations

import random
import threading
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evprof.core.records import TokenRecord
from evprof.core.request import RunRequest
from evprof.core.run_info import RunInfo
from evprof.core.run_log import RunLog
from evprof.core.sample import Sample
from evprof.core.texts import join_pieces
from evprof.core.vocabulary.generation import GenerationSettings, ModelChoice
from evprof.core.vocabulary.speculation import SpeculationSettings
from scripted_engine import ScriptedEngine
from scripted_pair import Script
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


class _Take:
    """A sink that keeps what a run says of tokens."""

    def __init__(self) -> None:
        self.tokens: list[TokenRecord] = []

    def append(self, record: object) -> None:
        if isinstance(record, TokenRecord):
            self.tokens.append(record)

    def post(self, message: object) -> None:
        """Nothing is listened to."""


@cache
def recorded(mode: str, accepted: tuple[int, ...], gamma: int, hidden: tuple[int, int]) -> tuple[TokenRecord, ...]:
    """The tokens of a scripted run."""
    sink = _Take()
    request = RunRequest(
        sample=Sample(prompt="What?"),
        mode=mode,
        draft=ModelChoice("d"),
        target=ModelChoice("t"),
        settings=GenerationSettings(speculation=SpeculationSettings(gamma=gamma)),
    )
    script = Script(accepted=accepted, hidden=hidden)
    ScriptedEngine(script, speed=1e9, is_warm=True).run(request, sink, threading.Event())
    return tuple(sink.tokens)


def tree_of(chance: random.Random) -> list[TokenRecord]:
    """Rounds of trees in the engine's order: what stands, then every branch that fell, siblings of what stands too."""
    pieces = [" word", "ing", "<0xE2>", "<0x82>", "<0xAC>", "\n", " é"]
    records = [token(0, chance.choice(pieces))]
    for number in range(chance.randint(1, 12)):
        start = len([one for one in records if one.origin != "rejected"])
        accepted, is_cut = chance.randint(0, 3), chance.random() < 0.2
        standing = [token(start + depth, chance.choice(pieces), "accepted", number) for depth in range(accepted)]
        if not is_cut:
            standing.append(token(start + accepted, chance.choice(pieces), "bonus", number))
        fallen = [
            token(start + depth, chance.choice(pieces), "rejected", number)
            for depth in range(4)
            for _ in range(chance.randint(0, 2))
        ]
        records += standing + fallen
    return records


sessions = st.one_of(
    st.builds(
        lambda mode, accepted, gamma, hidden: list(recorded(mode, tuple(accepted), gamma, hidden)),
        st.sampled_from(("speculative", "parallel-prefill")),
        st.lists(st.integers(0, 5), min_size=1, max_size=4),
        st.integers(1, 6),
        st.sampled_from(((8, 5), (0, 0), (3, 0), (4, 4))),
    ),
    st.integers(0, 10_000).map(lambda seed: tree_of(random.Random(seed))),
    st.integers(0, 10).map(lambda seed: first_token_only(random.Random(seed))),
)


def first_token_only(chance: random.Random) -> list[TokenRecord]:
    """A hidden block whose first token the target had said already, and plain decoding after it."""
    fallen = [token(place, " no", "rejected", 0) for place in range(chance.randint(1, 5))]
    return [token(0, " A"), *fallen, *(token(place, f" {place}") for place in range(1, 6))]


@given(records=sessions, sizes=st.lists(st.integers(1, 9), min_size=1, max_size=12), proposals=st.booleans())
def test_a_live_text_is_the_reopened_one(records: list[TokenRecord], sizes: list[int], proposals: bool) -> None:
    run = empty_run()
    live = AnswerFlow(run, proposals_only=proposals)
    start, turn = 0, 0
    while start < len(records):
        stop = start + sizes[turn % len(sizes)]
        before = list(live.marks)
        feed(run, *records[start:stop])
        changed = live.update()
        assert changed is None or before[:changed] == live.marks[:changed]
        start, turn = stop, turn + 1
    reopened = AnswerFlow(run, proposals_only=proposals)
    reopened.update()
    assert live.marks == reopened.marks
    assert len([mark for mark in live.marks if mark.is_rejected]) == len(run.rejected)
    shown_tokens = [one for mark in live.marks if not mark.is_rejected for one in mark.tokens]
    assert shown_tokens == [one for one in run.tokens if not proposals or one.origin == "accepted"]
