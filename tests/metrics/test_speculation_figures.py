"""Acceptance arithmetic and the verdict on speculation."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evprof.core.records import RoundRecord
from evprof.core.run_info import RunInfo, SetupFacts
from evprof.core.run_log import RunLog
from evprof.core.sample import Sample
from evprof.core.vocabulary.settings import settings_from_json
from evprof.metrics.configurations.baselines import baseline_of, candidates_for
from evprof.metrics.facts import speedup_fact
from evprof.metrics.speculation import outcome as speculation
from evprof.metrics.speculation.payoff import payoff_of
from evprof.metrics.speculation.verdicts import speculation_sentence
from told import in_turns

ROUNDS = st.lists(
    st.integers(0, 8).flatmap(
        lambda drafted: st.tuples(st.just(drafted), st.integers(0, drafted), st.booleans(), st.booleans())
    ),
    min_size=1,
    max_size=20,
)


def run_of(rounds: list[tuple[int, int, bool, bool]]) -> RunLog:
    log = RunLog(RunInfo(1, 1, 0, "target", "speculative"))
    for index, (drafted, accepted, clipped, hidden) in enumerate(rounds):
        last = index == len(rounds) - 1
        emitted = accepted if clipped and last and accepted else accepted + 1
        log.absorb(RoundRecord(1, index, 0, 10, 10, 0, drafted, accepted, emitted, "", int(hidden)))
    return log


@given(ROUNDS)
def test_acceptance_arithmetic(rounds: list[tuple[int, int, bool, bool]]) -> None:
    counts = speculation.acceptance(run_of(rounds))
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


def test_counts_of_a_run(speculative_run) -> None:
    counts = speculation.acceptance(speculative_run)
    assert (counts.rounds, counts.drafted, counts.accepted, counts.emitted, counts.bonus) == (4, 12, 6, 9, 3)
    assert counts.per_position == (3, 2, 1)
    assert counts.draft_acceptance_rate == 0.5
    assert counts.mean_acceptance_length == 2.5
    assert counts.token_acceptance_rate == 6 / 8
    assert len(speculative_run.tokens) == 1 + counts.emitted
    assert len(speculative_run.rejected) == 2


def test_a_plain_run_has_no_acceptance_and_a_new_one_no_rates(plain_run, script) -> None:
    assert speculation.acceptance(plain_run) is None
    counts = speculation.acceptance(script(mode="speculative").begin().log())
    assert counts.rounds == 0
    assert counts.draft_acceptance_rate is counts.mean_acceptance_length is counts.token_acceptance_rate is None


def test_a_ceiling_needs_rejections_and_knows_how_sure_it_is() -> None:
    assert speculation.ceiling_of([run_of([(20, 19, False, False)])]) is None  # it would only repeat the 19
    found = speculation.ceiling_of([run_of([(3, 2, False, False)] * 10)])
    assert (found.value, found.rejections) == (2, 10)
    low, high = found.interval
    assert high is not None
    # Wilson's interval of 20 of 30, as a / (1 - a).
    assert (low, high) == (pytest.approx(0.4878 / 0.5122, rel=1e-3), pytest.approx(0.8077 / 0.1923, rel=1e-3))


def test_repeats_of_one_greedy_answer_are_one_observation() -> None:
    repeats = [run_of([(3, 2, False, False)] * 3) for _ in range(3)]
    assert len(speculation.distinct_answers(repeats)) == 1
    assert speculation.ceiling_of(repeats) is None  # three rejections, however often they were timed
    other = run_of([(3, 1, False, False)] * 3)
    other.info.sample = Sample(name="another scene")
    assert len(speculation.distinct_answers([*repeats, other])) == 2
    shorter = run_of([(2, 2, False, False)] * 3)  # a shorter window for the same answer adds nothing
    assert speculation.distinct_answers([shorter, *repeats]) == repeats[:1]
    assert speculation.distinct_answers([run_of([]), *repeats]) == repeats[:1]  # nor does one in which nothing fitted


def answers(script, writer, numbers, *, mode: str = "target", **changes) -> list[RunLog]:
    """Runs of one configuration, each a request of its own, as a suite numbers them."""
    return [writer(script(number, mode=mode), **changes) for number in numbers]


def test_sentences(script, plain_writer, speculative_writer) -> None:
    plain = [
        plain_writer(script(number), scale=scale)
        for number, scale in ((1, 0.99), (2, 1.0), (3, 1.01), (7, 0.99), (8, 1.01))
    ]
    drafted = answers(script, speculative_writer, (4, 5, 6, 9, 10), mode="speculative")
    runs = [*plain, *drafted]
    in_turns(runs)
    # Plain walls of 180 ms, speculative ones of 165.
    assert speculation_sentence(drafted[-1], runs) == (
        "1.09× [1.08, 1.10]: speculation saves 15.0 ms an answer. 5 runs against baseline runs 1, 2, 3, 7, 8. "
        "50 % of 12 drafted tokens were accepted. A drafted token costs 0.06 baseline steps, checking a round 0.50 "
        "(a step is 30.0 ms), over 20 rounds. It pays even if every draft is wrong."
    )
    called, single = (payoff_of(drafted[-1], known) for known in (runs, [plain[0], drafted[-1]]))
    assert called is not None
    assert single is not None
    assert [fact and fact.text for fact in map(speedup_fact, (called, single))] == ["1.09×", ""]  # the list's figure
    assert "alone" in speculation_sentence(drafted[0], drafted)
    assert "does not speculate" in speculation_sentence(plain[0], runs)


def test_a_chosen_baseline_goes_before_every_other(script, plain_writer, speculative_writer) -> None:
    """One repeat tells it for all; what was chosen and is gone or does not count lets the rule choose again."""
    plain = answers(script, plain_writer, (1, 2, 3))
    drafted = answers(script, speculative_writer, (4, 5, 6), mode="speculative")
    later = answers(script, plain_writer, (7, 8), scale=0.5)
    drafted[1].info.chosen_baseline = [7]
    known = [*plain, *drafted, *later]
    assert [run_ids(run, known) for run in drafted] == [(7,)] * 3
    assert [run.run_id for run in candidates_for(drafted[0], known)] == [1, 2, 3, 7, 8]
    later[0].info.is_deleted = True
    assert run_ids(drafted[0], known) == (1, 2, 3, 8)
    assert [run.run_id for run in candidates_for(drafted[0], known)] == [1, 2, 3, 8]


def test_a_baseline_is_of_the_same_engine_first_and_never_cold(script, plain_writer, speculative_writer) -> None:
    plain = answers(script, plain_writer, (1, 2, 3))
    [run] = answers(script, speculative_writer, (4,), mode="speculative")
    for entry, name in zip((*plain, run), ("a", "b", "b", "b"), strict=True):
        entry.info.environment = {"engine_session": name}
    assert run_ids(run, plain) == (2, 3)
    run.info.environment = {"engine_session": "c"}
    assert run_ids(run, plain) == (1, 2, 3)
    plain[1].info.setup = {"target": SetupFacts(weights_ms=12.0)}
    assert plain[1].info.is_cold
    assert run_ids(run, plain) == (1, 3)


def run_ids(run: RunLog, others: list[RunLog]) -> tuple[int, ...]:
    """Of the runs that `run` is weighed against."""
    found = baseline_of(run, others)
    return found.run_ids if found else ()


@pytest.mark.parametrize("change", [{"warmup": True}, {"profiled": True}, {"status": "failed"}])
def test_the_baseline_is_a_measured_plain_run(script, plain_writer, speculative_writer, change) -> None:
    plain = plain_writer(script(1))
    run = speculative_writer(script(2, mode="speculative"))
    assert run_ids(run, [plain]) == (1,)
    for name, value in change.items():
        setattr(plain.info, name, value)
    assert run_ids(run, [plain]) == ()


@pytest.mark.parametrize(
    ("settings", "is_same"),
    [
        ({"gamma": 9}, True),
        ({"max_new_tokens": 7}, False),
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
    plain.info.settings = settings_from_json(run.info.settings.to_json() | settings)[0]
    assert run_ids(run, [plain]) == ((1,) if is_same else ())
