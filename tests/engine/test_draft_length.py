"""How many tokens a round drafts: always as many, by the last round, or by what was measured."""

from __future__ import annotations

import random
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.decoder.decoding import Limits
from engines.speculation.draft_length import MOST_DRAFTED, Budgeted, Heuristic, draft_length
from evprof.core.records import RoundRecord
from evprof.core.vocabulary.settings import choices_of

MS = 1_000_000

ROUNDS = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20), st.integers(0, 50 * MS), st.integers(1, 50 * MS)))


def play(length: Any, rounds: int, rate: float, draft_ms: float, verify_ms: Any) -> list[int]:
    """Rounds in which each token is right with a chance of `rate`; returns what was asked for."""
    dice, asked = random.Random(3), []
    for _ in range(rounds):
        count = length.next()
        asked.append(count)
        accepted = 0
        while accepted < count and dice.random() < rate:
            accepted += 1
        length.learn(count, accepted, round(count * draft_ms * MS), round(verify_ms(count) * MS))
    return asked


def best(rate: float, draft_ms: float, verify_ms: Any, most: int = 16) -> tuple[int, float]:
    """The number of most tokens per time when everything is known, and that pace."""
    paces = {
        count: sum(rate**place for place in range(count + 1)) / (count * draft_ms + verify_ms(count))
        for count in range(1, most + 1)
    }
    count = max(paces, key=lambda one: paces[one])
    return count, paces[count]


@given(st.sampled_from(choices_of("length")), st.integers(1, 40), ROUNDS)
def test_any_policy_asks_for_a_possible_number(kind: str, gamma: int, rounds: list[tuple[int, ...]]) -> None:
    """Whatever rounds were like: fewer drafted than asked, nothing drafted, no time measurable."""
    length = draft_length(kind, gamma)
    assert length.next() == gamma
    for drafted, accepted, draft_ns, verify_ns in rounds:
        length.learn(drafted, min(accepted, drafted), draft_ns, verify_ns)
        assert 1 <= length.next() <= length.most <= max(gamma, MOST_DRAFTED)
        assert kind != "fixed" or length.next() == gamma


def test_the_heuristic_goes_up_by_two_and_down_by_one_within_its_bounds() -> None:
    length = Heuristic(3, 6)
    steps = [(3, 3, 5), (5, 4, 4), (4, 4, 6), (6, 6, 6), (6, 0, 5), (0, 0, 5), (2, 2, 6)]
    for drafted, accepted, expected in steps:
        length.learn(drafted, accepted, 1, 1)
        assert length.next() == expected
    for _ in range(9):
        length.learn(4, 1, 1, 1)
    assert length.next() == 1


def test_the_budget_finds_the_best_length_for_costs_and_acceptance() -> None:
    """Against the length that would be best if everything were known: at most a tenth slower."""

    def flat(_: int) -> float:
        return 10.0

    def growing(count: int) -> float:
        return 1.0 + 0.2 * count

    for rate, draft_ms, verify_ms in (
        (0.9, 0.1, flat),
        (0.9, 3.0, flat),
        (0.5, 3.0, flat),
        (0.2, 5.0, flat),
        (0.95, 0.0, growing),
        (0.6, 0.05, growing),
        (0.3, 0.4, growing),
    ):
        asked = play(Budgeted(5, 16), 400, rate, draft_ms, verify_ms)
        _, pace = best(rate, draft_ms, verify_ms)
        settled = asked[100:]
        reached = [
            sum(rate**place for place in range(count + 1)) / (count * draft_ms + verify_ms(count)) for count in settled
        ]
        assert sum(reached) / len(reached) >= 0.9 * pace, (rate, draft_ms, asked[-20:])


@pytest.mark.usefixtures("without_gradients")
@pytest.mark.parametrize("kind", choices_of("length"))
def test_the_length_is_not_the_answer(
    make_llama: Any, sink: Any, played_rounds: ModuleType, scripted_drafters: ModuleType, kind: str
) -> None:
    target, prompt = make_llama(6, vocabulary=500), played_rounds.prompt_of(6)
    expected = played_rounds.plain(target, prompt, Limits(60), sink)
    for hits in ([True], [True, True, False], [False]):
        sink.records.clear()
        drafter = scripted_drafters.hit_and_miss(expected, hits, 500)
        played = played_rounds.play(target, drafter, prompt, Limits(60), sink, length=draft_length(kind, 3))
        assert played.ids == expected
        rounds = sink.of(RoundRecord)
        assert sum(one.emitted for one in rounds) == 59
        drafted = [one.drafted for one in rounds]
        if kind == "heuristic" and hits == [True]:
            assert drafted[:6] == [3, 5, 7, 9, 11, 13]
        if kind == "heuristic" and hits == [False]:
            assert drafted[:10] == [3, 2, *[1] * 8]
