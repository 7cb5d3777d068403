"""Definitions of acceptance with their counts, acceptance by place and per round, and which figures may be compared."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evprof.core.records import JudgementRecord, RoundRecord, TokenRecord
from evprof.core.run_info import RunInfo, SpeculationFacts
from evprof.core.run_log import RunLog
from evprof.core.sample import Sample
from evprof.metrics.speculation import clinic
from evprof.metrics.speculation.outcome import acceptance, draft_depth
from scripted_pair import SCRIPTED_DRAFT, SCRIPTED_TARGET

ROUNDS = st.lists(
    st.integers(0, 6).flatmap(
        lambda drafted: st.tuples(st.just(drafted), st.integers(0, drafted), st.booleans(), st.booleans())
    ),
    min_size=1,
    max_size=20,
)


def run_of(rounds: list[tuple[int, int, bool, bool]], tree: str = "") -> RunLog:
    """(drafted, accepted, ends with its last accepted token, hidden) of each round."""
    log = RunLog(RunInfo(1, 1, 0, "target", "speculative"))
    log.info.speculation = SpeculationFacts("drafter", "eagle", tree=tree)
    for index, (drafted, accepted, ends, hidden) in enumerate(rounds):
        emitted = accepted if ends and accepted else accepted + 1
        log.absorb(RoundRecord(1, index, 0, 10, 10, 0, drafted, accepted, emitted, "", int(hidden)))
    return log


def judge(run: RunLog, round_index: int, place: int, overlap: float, *, accepted: bool = True) -> None:
    ppm = round(overlap * 1e6)
    run.absorb(JudgementRecord(1, round_index, place, 0, 1, 1, int(accepted), 500_000, 400_000, 600_000, ppm, "", ""))


def by_name(found: list[clinic.Definition]) -> dict[str, clinic.Definition]:
    return {entry.name: entry for entry in found}


@given(ROUNDS)
def test_values_are_the_quotients_of_their_counts_and_agree_with_acceptance(rounds) -> None:
    run = run_of(rounds)
    counts = acceptance(run)
    found = by_name(clinic.definitions(run))
    assert found[clinic.DRAFT_RATE].value == counts.draft_acceptance_rate
    assert found[clinic.TOKEN_RATE].value == counts.token_acceptance_rate
    assert found[clinic.LENGTH].value == pytest.approx(counts.mean_acceptance_length)
    assert found[clinic.EFFICIENCY].value == (counts.emitted / counts.rounds if counts.rounds else None)
    without, whole = found[clinic.LENGTH_WITHOUT].value, found[clinic.LENGTH].value
    assert without is not None
    assert whole == pytest.approx(without + 1)
    for entry in found.values():
        if entry.value is not None and entry.unit == clinic.SHARE:
            assert 0 <= entry.value <= 1
    if clinic.HIDDEN in found:
        parts = [found[name] for name in (clinic.HIDDEN, clinic.STEADY)]
        assert sum(entry.numerator or 0 for entry in parts) == counts.accepted
        assert sum(entry.denominator or 0 for entry in parts) == counts.drafted


@given(ROUNDS)
def test_places_add_up(rounds) -> None:
    run = run_of(rounds)
    counts = acceptance(run)
    places = clinic.per_position(run)
    assert sum(entry.accepted for entry in places) == counts.accepted
    assert sum(entry.drafted for entry in places) == counts.drafted
    assert sum(entry.judged for entry in places) == counts.accepted + counts.rejected_rounds
    for before, after in pairwise(places):
        assert after.judged <= before.accepted
    for entry in places:
        assert entry.accepted <= entry.judged <= entry.drafted
        assert (entry.conditional or 0) >= (entry.unconditional or 0)
    histogram = clinic.round_histogram(run)
    assert sum(histogram.values()) == len(rounds)
    assert sum(accepted * count for accepted, count in histogram.items()) == counts.accepted
    assert list(histogram) == list(range(max(histogram) + 1))


def test_hidden_blocks_may_be_left_out_of_places() -> None:
    run = run_of([(4, 1, False, True), (2, 2, False, False)])
    judge(run, 0, 0, 0.2)
    judge(run, 1, 0, 0.8)
    assert [entry.accepted for entry in clinic.per_position(run)] == [2, 1, 0, 0]
    steady = clinic.per_position(run, steady_only=True)
    assert [(entry.drafted, entry.accepted) for entry in steady] == [(1, 1), (1, 1)]
    assert steady[0].overlap == pytest.approx(0.8)
    assert clinic.per_position(run)[0].overlap == pytest.approx(0.5)
    assert clinic.round_histogram(RunLog(run.info)) == {}


def test_alpha_is_the_mean_overlap_of_what_was_judged() -> None:
    run = run_of([(3, 2, False, False)])
    for place, overlap in enumerate((0.9, 0.6, 0.3)):
        judge(run, 0, place, overlap, accepted=place < 2)
    run.absorb(JudgementRecord(1, 0, 3, 0, 1, 1, 0, -1, 1, 1, -1, "", ""))
    alpha = by_name(clinic.definitions(run))[clinic.ALPHA]
    assert (alpha.numerator, alpha.denominator) == (pytest.approx(1.8), 3)


def test_a_tree_has_levels() -> None:
    """Children 3, 2, 1: nodes 3 + 6 + 6. A path through all levels is no rejection."""
    run = run_of([(15, 3, False, False), (9, 1, False, False), (3, 0, False, False)], tree="3,2,1")
    assert [draft_depth(run, entry) for entry in run.rounds] == [3, 2, 1]
    counts = acceptance(run)
    assert counts.rejected_rounds == 2
    assert [(entry.drafted, entry.judged, entry.accepted) for entry in clinic.per_position(run)] == [
        (3, 3, 2),
        (2, 2, 1),
        (1, 1, 1),
    ]
    found = by_name(clinic.definitions(run))
    assert clinic.DRAFT_RATE not in found  # not beside the rate of a chain
    assert (found[clinic.NODE_RATE].numerator, found[clinic.NODE_RATE].denominator) == (4, 27)


def answer(role: str, mode: str, ids: list[int], run_id: int = 1) -> RunLog:
    sample = Sample("a.npy", "a.mp4", "What?")
    log = RunLog(RunInfo(run_id, run_id, 0, role, mode, sample=sample, status="finished"))
    log.info.models = {"draft": SCRIPTED_DRAFT.facts, "target": SCRIPTED_TARGET.facts}
    for place, token_id in enumerate(ids):
        log.absorb(TokenRecord(run_id, role, place, token_id, "target", -1, 0, ""))
    return log


def test_token_match_counts_the_same_id_at_the_same_position() -> None:
    run, draft = answer("target", "speculative", [5, 6, 7, 8], 2), answer("draft", "draft", [5, 9, 7], 1)
    run.absorb(RoundRecord(2, 0, 0, 1, 1, 0, 3, 1, 2, "", 0))
    match = by_name(clinic.definitions(run, draft))[clinic.MATCH]
    assert (match.numerator, match.denominator) == (2, 3)
    assert "own answer (run 1) against the target's (run 2)" in match.note
    assert clinic.plain_answer(run, [run, draft]) is draft
    assert clinic.plain_answer(run, [answer("target", "target", [5], 3)]) is None
    asked_else = answer("draft", "draft", [5], 4)
    asked_else.info.sample = replace(asked_else.info.sample, prompt="Why?")
    assert clinic.plain_answer(run, [asked_else]) is None
    del run.info.models["draft"]  # a head on the target's states gives no answer of its own
    assert clinic.plain_answer(run, [run, draft]) is None
    run.info.speculation = SpeculationFacts("drafter", "model", alignment="re-encoded")
    assert by_name(clinic.definitions(run, draft))[clinic.MATCH].value is None


def test_a_lossy_answer_is_held_against_the_targets() -> None:
    run, plain = answer("target", "kv-adapted", [5, 6, 7], 2), answer("target", "target", [5, 6, 1, 1], 1)
    agreed = by_name(clinic.definitions(run, plain))[clinic.AGREEMENT]
    assert (agreed.numerator, agreed.denominator) == (2, 3)


def test_a_tree_that_grew_freely_says_how_deep_it_was_and_what_was_judged() -> None:
    """Of ways that stand 2, 1 and 2 tokens deep in trees of 3, 3 and 2 levels the second ended at a leaf."""
    run = run_of([], tree="dynamic:9:3")
    for index, (accepted, depth, judged) in enumerate([(2, 3, 3), (1, 3, 1), (2, 2, 2)]):
        run.absorb(RoundRecord(1, index, 0, 10, 10, 0, 9, accepted, accepted + 1, "", 0, depth, judged))
    counts = acceptance(run)
    assert (counts.rejected_rounds, counts.token_acceptance_rate) == (1, 5 / 6)
    assert [(entry.drafted, entry.judged, entry.accepted) for entry in clinic.per_position(run)] == [
        (3, 3, 3),
        (3, 2, 2),
        (2, 1, 0),
    ]
