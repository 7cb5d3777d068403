"""Acceptance arithmetic and the verdict on speculation."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from evprof.core.recording import Recording
from evprof.core.records import SETTLED, RoundRecord, SpanRecord, TokenRecord
from evprof.core.run_info import RunInfo
from evprof.core.run_log import RunLog
from evprof.metrics import speculation
from evprof.metrics.speculation_text import speculation_sentence

ROUNDS = st.lists(
    st.integers(0, 8).flatmap(
        lambda drafted: st.tuples(st.just(drafted), st.integers(0, drafted), st.booleans(), st.booleans())
    ),
    min_size=1,
    max_size=20,
)


def run_of(rounds: list[tuple[int, int, bool, bool]]) -> RunLog:
    log = RunLog(RunInfo(1, 1, 0, "target", "speculative", {}, {}))
    for index, (drafted, accepted, clipped, hidden) in enumerate(rounds):
        last = index == len(rounds) - 1
        emitted = accepted if clipped and last and accepted else accepted + 1
        log.absorb(RoundRecord(1, index, 0, 10, 10, 0, drafted, accepted, emitted, "", int(hidden)))
    return log


@given(ROUNDS)
def test_acceptance_arithmetic(rounds: list[tuple[int, int, bool, bool]]) -> None:
    counts = speculation.acceptance(run_of(rounds))
    assert counts is not None
    assert 0 <= counts.accepted <= counts.drafted
    assert counts.emitted == counts.accepted + counts.bonus
    assert counts.bonus in (counts.rounds, counts.rounds - 1)
    assert sum(counts.per_position) == counts.accepted
    assert list(counts.per_position) == sorted(counts.per_position, reverse=True)
    assert counts.hidden_accepted <= counts.hidden_drafted <= counts.drafted
    assert counts.mean_acceptance_length == 1 + counts.accepted / len(rounds)
    if counts.drafted:
        assert counts.draft_acceptance_rate is not None
        assert counts.token_acceptance_rate is None or counts.token_acceptance_rate >= counts.draft_acceptance_rate


@given(st.floats(0, 1), st.integers(1, 12))
def test_expected_tokens_per_round_is_the_sum_of_the_chances(rate: float, gamma: int) -> None:
    direct = sum(rate**place for place in range(gamma + 1))
    assert speculation.expected_tokens_per_round(rate, gamma) == pytest.approx(direct, rel=1e-6)


@given(st.floats(0, 0.99))
def test_ceiling_bounds_what_any_number_of_drafts_gets_accepted(rate: float) -> None:
    ceiling = speculation.acceptance_ceiling(rate)
    assert ceiling is not None
    assert speculation.expected_tokens_per_round(rate, 4000) - 1 <= ceiling + 1e-9


def test_published_expectations() -> None:
    found = [round(speculation.expected_tokens_per_round(rate, 5), 2) for rate in (0.3, 0.5, 0.7, 0.8, 0.9)]
    assert found == [1.43, 1.97, 2.94, 3.69, 4.69]
    assert speculation.acceptance_ceiling(1.0) is None
    assert speculation.predicted_speedup(2.94, 5, 0.05, 1.0) == pytest.approx(2.352)


def test_counts_of_a_run(speculative_run) -> None:
    counts = speculation.acceptance(speculative_run)
    assert counts is not None
    assert (counts.rounds, counts.drafted, counts.accepted, counts.emitted, counts.bonus) == (4, 12, 6, 9, 3)
    assert counts.per_position == (3, 2, 1)
    assert counts.draft_acceptance_rate == 0.5
    assert counts.mean_acceptance_length == 2.5
    assert counts.tokens_per_round == 2.25
    assert counts.token_acceptance_rate == 6 / 8
    assert len(speculative_run.tokens) == 1 + counts.emitted
    assert len(speculative_run.rejected) == 2


def test_a_plain_run_has_no_acceptance_and_a_new_one_no_rates(plain_run, script) -> None:
    assert speculation.acceptance(plain_run) is None
    counts = speculation.acceptance(script(mode="speculative").begin().log())
    assert counts is not None
    assert counts.rounds == 0
    assert counts.draft_acceptance_rate is counts.mean_acceptance_length is counts.token_acceptance_rate is None


def test_verdict_when_it_costs(speculative_run) -> None:
    # Nine tokens decoded in 80 ms instead of 9 x 10 ms; the draft's own load and prefill took 40 ms.
    found = speculation.verdict(speculative_run, 10.0)
    assert found is not None
    assert found.decode_gain_ms == pytest.approx(10)
    assert found.preparation_ms == 40
    assert found.net_ms == pytest.approx(-30)
    assert not found.pays
    assert found.draft_cost == pytest.approx(20 / 12 / 10)
    assert found.verify_cost == pytest.approx(1.5)
    assert found.predicted_speedup == pytest.approx(90 / 80)
    assert found.measured_speedup == pytest.approx(90 / 80)
    # 20 ms a round over a budget of 90 - 40 = 50 ms: 9 tokens in 2.5 rounds, 3.6 tokens each, 2.6 of 3 accepted.
    assert found.break_even_rate == pytest.approx(2.6 / 3)


@given(st.floats(0.5, 500))
def test_break_even_separates_paying_from_costing(plain_step_ms: float) -> None:
    script_run = speculative_copy()
    found = speculation.verdict(script_run, plain_step_ms)
    assert found is not None
    assume(abs(found.net_ms) > 1e-6)
    reached = (found.tokens_per_round - 1) / found.gamma
    assert found.pays == (found.break_even_rate is not None and reached >= found.break_even_rate - 1e-12)


def speculative_copy() -> RunLog:
    """Four rounds of three in 80 ms after 40 ms of preparation, without a Recording (hypothesis asks often)."""
    log = run_of([(3, 3, False, False), (3, 1, False, False), (3, 0, False, False), (3, 2, False, False)])
    ms = 1_000_000
    log.absorb(SpanRecord(1, 0, -1, SETTLED, "draft", "prefill", 0, 40 * ms))
    log.absorb(SpanRecord(1, 1, -1, SETTLED, "target", "decode", 40 * ms, 120 * ms))
    for position in range(11):
        log.absorb(TokenRecord(1, "target", position, position, "target", 0, 40 * ms, ""))
    return log


def test_sentences(script, plain_writer, speculative_writer) -> None:
    book = Recording()
    plain = plain_writer(script(1, recording=book))
    run = speculative_writer(script(2, mode="speculative", recording=book))
    sentence = speculation_sentence(run, [plain, run])
    # The plain step is 30 ms: 9 x 30 - 80 - 40 = 150 ms saved.
    assert sentence.startswith(
        "Speculation saves 150 ms per answer here (50% of the drafted tokens were accepted): decoding 190 ms less, "
        "preparing the draft 40.0 ms; it pays at any acceptance."
    )
    assert sentence.endswith("the whole answer 1.09 times (1 and 1 runs).")
    assert "alone" in speculation_sentence(run, [run])
    assert "does not speculate" in speculation_sentence(plain, [plain, run])


@pytest.mark.parametrize("change", [{"warmup": True}, {"profiled": True}, {"status": "failed"}])
def test_the_baseline_is_a_measured_plain_run(script, plain_writer, speculative_writer, change) -> None:
    plain = plain_writer(script(1))
    run = speculative_writer(script(2, mode="speculative"))
    assert speculation.plain_baseline(run, [plain]) is plain
    for name, value in change.items():
        setattr(plain.info, name, value)
    assert speculation.plain_baseline(run, [plain]) is None


def test_another_question_is_no_baseline(script, plain_writer, speculative_writer) -> None:
    plain = plain_writer(script(1))
    run = speculative_writer(script(2, mode="speculative"))
    plain.info.sample["prompt"] = "Another?"
    assert speculation.plain_baseline(run, [plain]) is None


@pytest.mark.parametrize(
    ("settings", "is_same"),
    [
        ({"gamma": 9, "max_new_tokens": 7}, True),
        ({"event_frames": 3, "input": {"prompt_style": "training", "target_input": "video"}}, True),
        ({"switches": {"visual_keep": 0.5}}, False),
        ({"switches": {"early_exit": 2}}, False),
        ({"input": {"target_input": "events"}}, False),
        ({"frames": 4}, False),
        ({"temperature": 0.7}, False),
    ],
)
def test_a_run_with_other_settings_of_the_target_is_no_baseline(
    script, plain_writer, speculative_writer, settings, is_same
) -> None:
    plain = plain_writer(script(1))
    run = speculative_writer(script(2, mode="speculative"))
    plain.info.settings = run.info.settings | settings
    assert speculation.plain_baseline(run, [plain]) is (plain if is_same else None)


def test_the_plain_step_is_the_median_of_the_repeats(script, plain_writer, speculative_writer) -> None:
    repeats = [plain_writer(script(number), scale=scale) for number, scale in ((1, 1.0), (2, 5.0), (3, 1.2))]
    for number, repeat in enumerate(repeats):
        repeat.info.group_id, repeat.info.repeat = 1, number
    run = speculative_writer(script(4, mode="speculative"))
    assert speculation.plain_step_ms(run, [*repeats, run]) == pytest.approx(30 * 1.2)
    repeats[0].info.warmup = True
    assert speculation.plain_step_ms(run, [*repeats, run]) == pytest.approx(30 * (5 + 1.2) / 2)
