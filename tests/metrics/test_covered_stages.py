"""Intervals that hold several stages at once, as other programs measured them."""

from __future__ import annotations

import pytest

from evprof.core.run_info import ImportedFacts
from evprof.metrics.figures import decoding, kv_cache, stages

FACTS = ImportedFacts("rows.json", "rows", 0, output_tokens=6, decode_steps=5, figures={"kv_cache_bytes": 100.0})


@pytest.fixture
def three_stages(script):
    """Load, preprocess, and everything the model does in one piece."""
    run = script().begin(imported=FACTS, end_ns=None)
    run.span("load", 0, 10)
    run.span("preprocess", 10, 15)
    run.span("vision+prefill+decode", 15, 115)
    return run.log()


@pytest.fixture
def vision_twice(script):
    """Vision was measured, thrown away, and done again inside prefill; load was not measured."""
    run = script().begin(imported=FACTS, end_ns=None)
    run.span("preprocess", 0, 75)
    run.span("vision", 75, 105)
    run.span("vision+prefill", 105, 605)
    run.span("decode", 605, 705)
    return run.log()


def test_one_piece_is_never_split(three_stages):
    assert [span.covers for span in three_stages.stages()][-1] == ("vision", "prefill", "decode")
    assert all(stages.stage_ms(three_stages, name) is None for name in stages.MODEL_STAGES)
    assert stages.stage_total_ms(three_stages, "decode") is None
    assert stages.is_separable(three_stages, stages.MODEL_STAGES)
    assert not stages.is_separable(three_stages, ("decode",))


def test_what_was_measured_apart_is_not_accounted_for_twice(vision_twice):
    assert stages.stage_ms(vision_twice, "vision") == 30
    assert stages.stage_ms(vision_twice, "prefill") == 500
    assert vision_twice.accounts_for(vision_twice.stages()[2]) == ("prefill",)


@pytest.mark.parametrize(
    ("run", "end_to_end", "without_load", "model_only"),
    [("three_stages", 115, 105, 100), ("vision_twice", None, 705, 630)],
)
def test_totals_are_of_what_the_file_measured(request, run, end_to_end, without_load, model_only):
    log = request.getfixturevalue(run)
    found = [stages.total_ms(log, basis) for basis in stages.BASES]
    assert found == [end_to_end, without_load, model_only]
    assert stages.wall_ms(log) is None
    assert stages.unattributed_ms(log) is None


def test_a_total_that_the_intervals_do_not_tell_is_not_given(script):
    run = script().begin(imported=FACTS, end_ns=None)
    run.span("load+preprocess+vision", 0, 50)
    run.span("prefill", 50, 60)
    run.span("decode", 60, 70)
    log = run.log()
    assert [stages.total_ms(log, basis) for basis in stages.BASES] == [70, None, None]


def test_counts_of_the_file_stand_in_for_tokens(vision_twice, three_stages):
    assert decoding.output_length(vision_twice) == 6
    assert decoding.decode_throughput_tok_s(vision_twice) == pytest.approx(50)
    assert decoding.decode_ms_per_token(three_stages) is None
    assert kv_cache.measured_bytes(vision_twice) == 100


def test_token_ids_of_a_file_have_no_times(script):
    run = script().begin(imported=FACTS, end_ns=None)
    run.span("prefill", 0, 10)
    run.span("decode", 10, 60)
    for token_id in range(3):
        run.token(token_id, 60)
    log = run.log()
    assert decoding.token_times_ms(log) == []
    assert decoding.token_gaps_ms(log) == []
    assert decoding.time_to_first_token_ms(log) is None
    assert decoding.inter_token_latency_ms(log) is None
    assert decoding.output_length(log) == 3
    assert decoding.decode_ms_per_token(log) == 10
