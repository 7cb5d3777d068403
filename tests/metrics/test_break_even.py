"""Costs of rounds, the speed they predict, break-even acceptance, and measured speeds beside."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evprof.core.records import RoundRecord, SpanRecord, TokenRecord
from evprof.core.run_info import RunInfo
from evprof.core.run_log import RunLog
from evprof.metrics.estimates.estimates import Verdict
from evprof.metrics.speculation import break_even, payoff
from evprof.metrics.speculation.break_even import RoundCosts
from evprof.metrics.speculation.verdicts import speculation_sentence
from told import in_turns

MS = 1_000_000
MIXES = st.dictionaries(st.integers(0, 8), st.integers(1, 30), min_size=1, max_size=3)
COSTS = st.builds(
    lambda step, drafts, rests, once: RoundCosts(
        step, drafts, {key: value * step for key, value in rests.items()}, once
    ),
    st.floats(0.1, 100),
    st.dictionaries(st.integers(1, 8), st.floats(0.01, 50), min_size=1, max_size=4),
    st.dictionaries(st.integers(1, 8), st.floats(1, 4), min_size=1, max_size=4),
    st.floats(0, 20),
)


def simulated_tau(gamma: int, chances: Sequence[float], rounds: int = 20_000) -> float:
    """Rounds played out with a seeded coin per drafted token."""
    coin = random.Random(7)
    emitted = 0
    for _ in range(rounds):
        emitted += 1
        for place in range(gamma):
            if coin.random() >= chances[min(place, len(chances) - 1)]:
                break
            emitted += 1
    return emitted / rounds


@pytest.mark.parametrize("gamma", [1, 3, 8])
@pytest.mark.parametrize("chances", [[0.2], [0.8], [0.3, 0.6, 0.95]])
def test_tau_is_what_rounds_give_when_played_out(gamma: int, chances: list[float]) -> None:
    expected = break_even.tau(gamma, chances if len(chances) > 1 else chances[0])
    assert simulated_tau(gamma, chances) == pytest.approx(expected, rel=0.03)


def played_out_ms(costs: RoundCosts, mix: Mapping[int, float], chances: Sequence[float], tokens: int) -> np.ndarray:
    """Times of 4,000 answers that are played out in whole rounds, token by token, without preparation."""
    rng, answers = np.random.default_rng(7), 4000
    left, spent = np.full(answers, tokens - 1), np.full(answers, costs.once_ms)
    widths = np.array(list(mix))
    shares = np.array(list(mix.values())) / sum(mix.values())
    each = np.array([costs.drafting_ms(width) + costs.verifying_ms(width) for width in mix])
    while (left > 0).any():
        drawn = rng.choice(len(widths), answers, p=shares)
        stands, given_ = np.ones(answers, dtype=bool), np.ones(answers, dtype=int)
        for place in range(max(mix)):
            chance = chances[min(place, len(chances) - 1)]
            stands &= (place < widths[drawn]) & (rng.random(answers) < chance)
            given_ += stands
        spent += (left > 0) * each[drawn]
        left -= given_
    return spent


@settings(max_examples=25)
@given(COSTS, MIXES, st.lists(st.floats(0, 1), min_size=1, max_size=4), st.integers(2, 80))
def test_the_predicted_time_is_that_of_whole_rounds_played_out(costs, mix, chances, tokens: int) -> None:
    spent = played_out_ms(costs, mix, chances, tokens)
    error = 5 * spent.std() / len(spent) ** 0.5 + 0.005 * costs.round_ms(mix)  # rare events may not be drawn
    assert break_even.answer_ms(costs, mix, chances, tokens) == pytest.approx(spent.mean(), abs=error)


@given(COSTS, MIXES, st.integers(2, 500), st.floats(0, 100))
def test_break_even_is_where_the_answer_takes_as_long_as_plain(costs, mix, tokens, preparation) -> None:
    alpha = break_even.break_even_alpha(costs, mix, tokens, preparation)
    rate = break_even.break_even_rate(mix, alpha)
    drafted = sum(count * share for count, share in break_even.mix_of(mix))
    if alpha is None:
        assert break_even.answer_speedup(costs, mix, 1.0, tokens, preparation) <= 1 + 1e-9
        assert rate is None
    elif alpha == 0:
        assert break_even.answer_speedup(costs, mix, 0.0, tokens, preparation) >= 1 - 1e-9
        assert rate == (0 if drafted else None)
    else:
        assert break_even.answer_speedup(costs, mix, alpha, tokens, preparation) == pytest.approx(1, rel=1e-6)
        assert 1 + rate * drafted == pytest.approx(break_even.tau(mix, alpha), rel=1e-6)


def test_long_answers_go_on_at_the_mean_pace() -> None:
    """Beyond the tokens that are counted one by one; a damaged file's width takes no memory."""
    whole, half = (break_even.expected_rounds(tokens, 5, 0.6) for tokens in (2000, 1000))
    assert whole - half == pytest.approx(1000 / break_even.tau(5, 0.6))
    assert break_even.expected_rounds(10**9, 10**12, [0.5]) == pytest.approx(10**9 / 2, rel=1e-3)


def played_out_gain_ms(alpha: float, free: int, step: float, verify: float, contention: float, *, is_greedy) -> float:
    """What answers save by one block each, played out token by token."""
    rng, blocks, length = np.random.default_rng(7), 40_000, 2 * free + 4
    saved = 0.0
    for row in rng.random((blocks, free)) < alpha:
        accepted = free if row.all() else int(np.argmin(row))
        has_pass = not is_greedy or accepted > 0
        # The pass also gives the target's own token; without it the prefill's own begins the answer.
        tokens = accepted + 1 if has_pass else 1
        saved += (length - 1) * step - has_pass * verify - (length - tokens) * step - contention
    return saved / blocks


@pytest.mark.parametrize("is_greedy", [True, False])
@pytest.mark.parametrize(("free", "step", "verify", "contention"), [(6, 1.0, 1.2, 0.2), (12, 10.0, 20.0, 8.0)])
def test_hidden_break_even_is_where_blocks_played_out_gain_nothing(free, step, verify, contention, is_greedy) -> None:
    alpha = break_even.hidden_break_even_alpha(free, step, verify, contention, is_greedy=is_greedy)
    assert alpha is not None
    assert 0 < alpha < 1
    gains = [
        played_out_gain_ms(chance, free, step, verify, contention, is_greedy=is_greedy)
        for chance in (alpha - 0.05, alpha, alpha + 0.05)
    ]
    assert gains[0] < 0 < gains[2]
    assert gains[1] == pytest.approx(0, abs=0.05 * step)


def test_costs_between_and_beyond_what_was_measured() -> None:
    costs = RoundCosts(2.0, {4: 4.0}, {4: 6.0})
    assert costs.v(4) == 3
    assert costs.v(0) == 1  # a round without drafts is a plain step
    assert costs.v(2) == 2
    assert costs.v(8) == 5
    assert costs.c(1) == 0.5
    assert costs.c(0) is None
    falling = RoundCosts(2.0, {}, {4: 1.0})
    assert falling.v(8) == 0.5  # noise: no block gets cheaper the longer it is
    assert RoundCosts(2.0).drafting_ms(5) == 0
    assert [point.gamma for point in break_even.curve(costs, 0.8, 20)] == list(range(1, 13))


def speculative(
    rounds: Sequence[tuple[int, int, float, float]], *, gap: float = 0.0, prepare: float = 0.0, finish: float = 0.0
) -> RunLog:
    """(drafted, accepted, ms drafting, ms verifying) of each round, one after the other in decode."""
    run = RunLog(RunInfo(2, 2, 0, "target", "speculative", status="finished", start_ns=0))
    run.absorb(TokenRecord(2, "target", 0, 5, "target", -1, 0, ""))
    at = prepare
    for index, (drafted, accepted, draft, verify) in enumerate(rounds):
        row = (round(at * MS), round(draft * MS), round(verify * MS), 0, drafted, accepted, accepted + 1, "", 0)
        run.absorb(RoundRecord(2, index, *row))
        at += draft + verify + (gap if index < len(rounds) - 1 else 0)
        for _ in range(accepted + 1):
            run.absorb(TokenRecord(2, "target", len(run.tokens), 5, "bonus", index, round(at * MS), ""))
    run.absorb(SpanRecord(2, 1, -1, 2, "target", "decode", 0, round((at + finish) * MS)))
    run.info.end_ns = round((at + finish) * MS)
    return run


@given(
    st.lists(
        st.integers(0, 5).flatmap(
            lambda drafted: st.tuples(st.just(drafted), st.integers(0, drafted), st.floats(0, 9), st.floats(0.5, 9))
        ),
        min_size=3,
        max_size=12,
    ).map(lambda rounds: rounds * 10),
    st.floats(0, 2),
    st.floats(0, 3),
)
def test_costs_add_up_to_the_decode_stage(rounds, gap: float, once: float) -> None:
    run = speculative(rounds, gap=gap, prepare=once, finish=2 * once)
    costs = break_even.costs_of([run], 1.0)
    assert costs.once_ms == pytest.approx(3 * once, abs=1e-4)
    decode = run.stage("decode", "target")
    assert decode is not None
    assert costs.rounds == {width: count for width, count in break_even.widths_of([run]).items() if count >= 10}
    assert sum(costs.rounds.values()) + costs.left_out == len(rounds)
    if not costs.left_out and all(count or draft == 0 for count, _, draft, _ in rounds):
        spent = costs.once_ms + len(rounds) * costs.round_ms(costs.rounds)
        assert spent == pytest.approx((decode.duration_ns or 0) / MS, rel=1e-4, abs=1e-3)


def test_a_width_counts_from_ten_rounds() -> None:
    """Fewer rounds have no measured cost, and no line stands for them."""
    assert break_even.costs_of([speculative([(3, 1, 1, 2)] * 9)], 1.0) is None
    costs = break_even.costs_of([speculative([(3, 1, 1, 2)] * 10 + [(2, 1, 1, 9)] * 4)], 1.0)
    assert (costs.rounds, costs.rest_ms, costs.left_out) == ({3: 10}, {3: 2.0}, 4)


def test_no_costs_without_steady_rounds() -> None:
    run = speculative([(3, 1, 1, 2)] * 10)
    assert break_even.costs_of([run], 1.0) is not None
    run.rounds[:] = [entry._replace(hidden=1) for entry in run.rounds]
    assert break_even.costs_of([run], 1.0) is None
    assert not break_even.widths_of([run])


def paired(script: Callable, plain_writer: Callable, speculative_writer: Callable, repeats: int = 5) -> list[RunLog]:
    """Plain repeats with a step of 30 ms and more, and speculative ones of the same question."""
    plain = [plain_writer(script(number), scale=1 + number / 50) for number in range(1, repeats + 1)]
    drafted = [speculative_writer(script(number + 10, mode="speculative")) for number in range(repeats)]
    for runs, group in ((plain, 1), (drafted, 2)):
        for number, run in enumerate(runs):
            run.info.group_id, run.info.repeat = group, number
    in_turns([*plain, *drafted])
    return [*plain, *drafted]


def test_measured_speed_has_an_interval_over_repeats(script, plain_writer, speculative_writer) -> None:
    runs = paired(script, plain_writer, speculative_writer)
    found = measured(runs[-1], runs)
    assert set(found) == {"decode", "without-load", "end-to-end"}
    whole = found["end-to-end"]
    # Plain walls of 180 ms times 1.02 to 1.1 (90 of them scaled), speculative ones of 165 ms.
    assert whole.counts == (5, 5)
    assert whole.interval[0] <= whole.ratio <= whole.interval[1]
    assert found["decode"].ratio == pytest.approx(30 * 1.0 / (80 / 9), rel=0.1)
    for run in runs:
        run.info.settings = replace(run.info.settings, temperature=0.7)  # drawn, and of another length
    assert list(measured(runs[-1], runs)) == ["decode"]


def measured(run: RunLog, others: Sequence[RunLog]) -> Mapping[str, Verdict]:
    found = payoff.payoff_of(run, others)
    return found.measured if found else {}


def test_a_prediction_joins_costs_acceptance_and_measurement(script, plain_writer, speculative_writer) -> None:
    runs = paired(script, plain_writer, speculative_writer)
    found = payoff.prediction_of(runs[-1], runs)
    step = found.costs.step_ms
    assert step == pytest.approx(30, rel=0.1)
    assert found.gamma == {3: 20}
    assert (found.mean_gamma, found.c, found.v) == (3, pytest.approx(5 / 3 / step), pytest.approx(15 / step))
    assert found.alpha == 6 / 8
    # Judged 4, 3 and once (the last round was clipped after its second token).
    assert found.by_place == (3 / 4, 2 / 3, 1.0)
    assert found.tau == pytest.approx(1 + 3 / 4 + 1 / 2 + 1 / 2)
    rounds = break_even.expected_rounds(9, 3, found.by_place)
    assert found.predicted == pytest.approx(9 * step / (found.costs.once_ms + 20 * rounds))
    assert found.break_even_rate == 0
    assert found.ceiling is None  # two rejections, in every repeat the same
    assert set(found.measured) == set(payoff.MEASURED_BASES)
    assert payoff.prediction_of(runs[0], runs) is None


def plain_of(step_ms: float, tokens: int) -> RunLog:
    run = RunLog(RunInfo(1, 1, 0, "target", "target", status="finished", start_ns=0))
    for place in range(tokens):
        run.absorb(TokenRecord(1, "target", place, 5, "target", -1, round(place * step_ms * MS), ""))
    run.absorb(SpanRecord(1, 1, -1, 2, "target", "decode", 0, round(step_ms * (tokens - 1) * MS)))
    run.info.end_ns = round(step_ms * (tokens - 1) * MS)
    return run


@pytest.mark.parametrize(
    ("rounds", "step", "words"),
    [
        ([(4, 4, 1.0, 2.0)] * 8, 2.0, "It pays above 13 % of the drafted tokens"),
        ([(4, 0, 1.0, 4.0)] * 8, 2.0, "It pays above 49 % of the drafted tokens"),
        ([(4, 1, 8.0, 3.0)] * 8, 2.0, "It never pays here, even if every draft is right"),
        ([(4, 1, 6.0, 2.0)], 2.0, "10 rounds that draft as many tokens; measured: 5 of 4 tokens"),
    ],
)
def test_the_sentence_says_what_acceptance_it_takes(plain_run, rounds, step: float, words: str) -> None:
    runs = []
    for number in (1, 2, 3, 4, 5):
        run = speculative(rounds)
        plain = plain_of(step * (1 + (number % 3 - 1) / 10_000), len(run.tokens))
        plain.info.run_id, run.info.run_id = number, 10 + number
        run.info.models = plain.info.models = {"target": plain_run.info.models["target"]}
        runs += [plain, run]
    in_turns(runs)
    said = speculation_sentence(runs[-1], runs)
    assert words in said
    assert ("saves" if "13 %" in words else "costs") in said
    assert "runs 1, 2, 3, 4, 5" in said
