"""Token figures against numbers worked out by hand."""

from __future__ import annotations

import pytest

from evprof.core.run_info import LengthFacts
from evprof.metrics.figures import decoding, kv_cache


def test_figures_of_a_plain_run(plain_run) -> None:
    assert decoding.token_times_ms(plain_run) == [85, 115, 145, 175]
    assert decoding.token_gaps_ms(plain_run) == [30, 30, 30]
    assert decoding.time_to_first_token_ms(plain_run) == 85
    assert decoding.time_to_first_token_ms(plain_run, "without-load") == 75
    assert decoding.time_to_first_token_ms(plain_run, "model-only") == 55
    assert decoding.inter_token_latency_ms(plain_run) == 30
    assert decoding.prefill_throughput_tok_s(plain_run) == pytest.approx(20 / 0.025)
    assert decoding.decode_throughput_tok_s(plain_run) == pytest.approx(3 / 0.090)
    assert decoding.decode_ms_per_token(plain_run) == 30
    assert decoding.answer_text(plain_run) == "t7 t8 t9"


def test_one_token_has_a_first_but_no_gap(script) -> None:
    run = script().begin()
    run.span("prefill", 0, 10)
    run.token(7, 10)
    log = run.end(11)
    assert decoding.time_to_first_token_ms(log) == 10
    assert decoding.inter_token_latency_ms(log) is None
    assert decoding.decode_throughput_tok_s(log) is None


def test_nothing_measured_is_none(script) -> None:
    log = script().begin(lengths={}).log()
    for figure in (
        decoding.time_to_first_token_ms,
        decoding.inter_token_latency_ms,
        decoding.prefill_throughput_tok_s,
        decoding.decode_throughput_tok_s,
        decoding.input_length,
        decoding.output_length,
        decoding.visual_tokens,
        kv_cache.formula_bytes,
        kv_cache.measured_bytes,
        kv_cache.live_bytes,
    ):
        assert figure(log) is None, figure.__name__


def test_text_of_a_run_without_one_is_put_together_from_pieces(script) -> None:
    run = script().begin()
    run.token(1, 1, piece=" A")
    run.token(99, 2, "rejected", piece=" wrong")
    run.token(2, 2, piece=" car")
    assert decoding.answer_text(run.log()) == "A car"


def test_cache_formula_and_origins(plain_run) -> None:
    each = 2 * 3 * 2 * 8 * 4
    assert kv_cache.formula_bytes(plain_run) == each * (20 + 4 - 1) == kv_cache.measured_bytes(plain_run)
    origins = kv_cache.bytes_by_origin(plain_run)
    assert origins == {
        "system": 5 * each,
        "text": 7 * each,
        "visual": 8 * each,
        "generated": 3 * each,
        "draft_accepted": 0,
        "draft_rolled_back": 0,
    }
    assert kv_cache.visual_bytes_per_frame(plain_run) == []


def test_cache_of_the_draft_uses_its_own_shape_and_prompt(speculative_run) -> None:
    answer = len(speculative_run.tokens)
    assert kv_cache.formula_bytes(speculative_run, "draft") == 2 * 1 * 2 * 8 * 4 * (12 + answer - 1)
    assert kv_cache.bytes_by_origin(speculative_run)["draft_rolled_back"] == 5 * 2 * 3 * 2 * 8 * 4


def test_cache_of_accepted_drafts(speculative_run) -> None:
    """Six were accepted; the last of them ends the answer and never enters a cache."""
    assert speculative_run.tokens[-1].origin == "accepted"
    assert kv_cache.bytes_by_origin(speculative_run)["draft_accepted"] == 5 * 2 * 3 * 2 * 8 * 4
    assert kv_cache.bytes_by_origin(speculative_run, "draft")["draft_accepted"] == 5 * 2 * 1 * 2 * 8 * 4


def test_cache_of_each_frame(script) -> None:
    """Three frames with two positions each of their own, and four that they share."""
    log = script().begin(lengths={"target": LengthFacts(20, 5, 5, 10, [2, 2, 2])}).log()
    each = 2 * 3 * 2 * 8 * 4
    assert kv_cache.visual_bytes_per_frame(log) == [2 * each] * 3
    assert kv_cache.bytes_by_origin(log)["visual"] == 10 * each
    assert kv_cache.visual_bytes_per_frame(log, "draft") is None
