"""Parallel prefill: both windows, what was hidden, contention against plain runs, net gain; and its sentence."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from evprof.core.run_info import SpeculationFacts
from evprof.core.run_log import RunLog
from evprof.metrics.speculation.parallel_prefill import window_of
from evprof.metrics.speculation.payoff import payoff_of
from evprof.metrics.speculation.verdicts import speculation_sentence
from told import in_turns, told

TOKENS = 10
STEP = 10.0


def plain(make: Callable, run_id: int, *, stretch: float = 0.0, tokens: int = TOKENS) -> RunLog:
    """load 20, preprocess 10, vision 10, prefill 60, then tokens with a step of 10: of ten of them 190 in all."""
    run = make(run_id).begin(group_id=1, repeat=run_id)
    at = 0.0
    for name, length in (("load", 20), ("preprocess", 10), ("vision", 10), ("prefill", 60)):
        run.span(name, at, at + length)
        at += length
    run.token(0, at)
    run.span("decode", at, at + STEP * (tokens - 1) + stretch)
    for place in range(1, tokens):
        run.token(place, at + STEP * place)
    return run.end(at + STEP * (tokens - 1) + stretch)


def hidden(
    make: Callable,
    run_id: int,
    *,
    accepted: int = 4,
    drafted: int = 6,
    verify: float = 15.0,
    first: bool = True,
    prefill: float = 70.0,
    has_draft: bool = True,
) -> RunLog:
    """The draft beside the target: load 5, prefill to 60, drafting to 100; the target's prefill takes 70, not 60."""
    run = make(run_id, mode="parallel-prefill").begin(
        group_id=2,
        repeat=run_id,
        speculation=SpeculationFacts("drafter", "model", transfer_bytes=48, transfer_ms=0.2),
        **told({"max_new_tokens": 16, "temperature": 0.0, "gamma": 3}),
    )
    for name, start, end in (
        ("load", 0, 20),
        ("preprocess", 20, 30),
        ("vision", 30, 40),
        ("prefill", 40, 40 + prefill),
    ):
        run.span(name, start, end)
    for name, start, end in (("load", 0, 5), ("prefill", 5, 60), ("decode", 60, 100)) if has_draft else ():
        run.span(name, start, end, role="draft")
    emitted = accepted + 1
    run.round(60, 40, verify, drafted=drafted, accepted=accepted, emitted=emitted, hidden=1)
    ready = 40 + prefill
    decode = ready + verify + STEP * (TOKENS - emitted)
    run.span("decode", ready, decode)
    for place in range(TOKENS):
        run.token(place, ready + verify + STEP * max(0, place - accepted), "accepted" if place < accepted else "target")
    log = run.end(decode)
    index = 0 if first else -1
    log.tokens[:] = [
        token._replace(round_index=index if place < emitted else -1) for place, token in enumerate(log.tokens)
    ]
    return log


NUMBERS = (1, 2, 3, 4, 5)


@pytest.fixture
def runs(script: Callable) -> list[RunLog]:
    listed = [
        *(plain(script, n, stretch=(n - 3) / 100) for n in NUMBERS),
        *(hidden(script, 10 + n) for n in NUMBERS),
    ]
    in_turns(listed)
    return listed


def test_the_window_is_told_twice(runs: list[RunLog]) -> None:
    found = window_of(runs[-1], runs)
    assert found.prefill_ms == 70
    assert found.with_load_ms == 110
    assert found.draft_ready_ms == 60
    assert found.left_ms == 50  # from the draft's 60 to the prefill's end at 110
    assert found.overlap_ms == 100  # all the draft's work: [0, 100] within [0, 110]
    assert (found.drafted, found.accepted, found.draft_ms) == (6, 4, 40)
    assert (found.transfer_bytes, found.transfer_ms) == (48, 0.2)


def test_gain_is_saved_steps_less_verification_and_contention(runs: list[RunLog]) -> None:
    found = window_of(runs[-1], runs)
    assert found.contention_ms == 10
    assert found.stage_contention.delta == 10
    document = found.to_json()
    assert (document["contention_ms"], document["contention_ci95"]) == (10, None)  # all runs took the same
    assert found.draft_contention_ms is None  # the draft was not run alone
    # Five tokens came with the block, the first of which the prefill gives anyway.
    assert found.saved_steps == 4
    assert found.predicted_gain_ms == pytest.approx(4 * STEP - 15 - 10)
    # 190 against 110 + 15 + 50.
    assert found.net_gain_ms == pytest.approx(15)
    assert found.net_without_load_ms == pytest.approx(15)
    assert found.ceiling is None  # one rejection would only repeat the four that were accepted
    assert found.baseline_ids == NUMBERS


def test_break_even_of_the_block(runs: list[RunLog]) -> None:
    found = window_of(runs[-1], runs)
    alpha = found.break_even_alpha
    assert alpha is not None
    accepted = alpha * (1 - alpha**6) / (1 - alpha)
    # The pass of 15 ms is made where the first draft stands.
    assert accepted * STEP == pytest.approx(alpha * 15 + 10)


def test_a_block_that_cannot_pay(script: Callable) -> None:
    """One draft saves one step of 10 ms and costs 15 + 10."""
    blocks = [hidden(script, 10 + number, accepted=1, drafted=1) for number in NUMBERS]
    listed = [*(plain(script, number, stretch=number / 100) for number in NUMBERS), *blocks]
    in_turns(listed)
    found = window_of(listed[-1], listed)
    assert found.break_even_alpha is None
    assert found.net_gain_ms is not None
    assert found.net_gain_ms < 0
    said = speculation_sentence(listed[-1], listed)
    assert "costs" in said
    assert "It never pays here, even if every draft is right." in said


def test_the_first_token_may_not_be_the_blocks(script: Callable) -> None:
    run = hidden(script, 11, first=False)
    found = window_of(run, [run])
    assert found.saved_steps == 5
    assert (found.net_gain_ms, found.contention_ms, found.predicted_gain_ms) == (None, None, None)
    assert "No run of the target alone" in speculation_sentence(run, [run])


def test_the_sentence(runs: list[RunLog]) -> None:
    said = speculation_sentence(runs[-1], runs)
    assert said.startswith(
        "1.09× [1.09, 1.09]: speculation saves 15.0 ms an answer. 5 runs against baseline runs 1, 2, 3, 4, 5. "
        "4 of 6 hidden tokens were accepted (67 %). It pays above"
    )


@pytest.mark.parametrize(
    ("has_draft", "words"),
    [
        (True, "Beside the draft, the prefill took 1.22× [1.14, 1.30] as long (13.0 ms more) as in the baseline runs."),
        (False, "From preprocessing to the end of prefill it took 1.16× [1.10, 1.23] as long (13.0 ms more)"),
    ],
)
def test_a_longer_prefill_is_said_with_its_interval(script: Callable, words: str, *, has_draft: bool) -> None:
    """Of the draft only where something ran beside the prefill; without an interval nothing is said."""
    drafted = [hidden(script, number, prefill=60.0 + number, has_draft=has_draft) for number in range(11, 16)]
    listed = [*(plain(script, number, stretch=number / 100) for number in NUMBERS), *drafted]
    in_turns(listed)
    assert words in speculation_sentence(listed[-1], listed)


def test_more_saved_than_accepted_tokens_can_save_is_something_else(script: Callable) -> None:
    drafted = [hidden(script, number, accepted=1) for number in range(11, 16)]
    listed = [*(plain(script, number, stretch=60 + number / 100) for number in NUMBERS), *drafted]
    in_turns(listed)
    said = speculation_sentence(listed[-1], listed)
    assert "but 1 accepted token saves 16.7 ms an answer at most: something else changed." in said
    payoff = payoff_of(listed[-1], listed)
    assert not payoff.is_clear


def test_no_window_means_no_drafts(script: Callable) -> None:
    listed = [plain(script, 1), hidden(script, 11)]
    listed[1].rounds.clear()
    found = window_of(listed[1], listed)
    assert (found.drafted, found.ceiling, found.break_even_alpha) == (0, None, None)
    assert "Nothing was drafted" in speculation_sentence(listed[1], listed)
    assert window_of(listed[0], listed) is None
