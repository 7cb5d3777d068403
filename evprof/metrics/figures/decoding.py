"""How fast text came: time to first token, inter-token latency and throughputs, by the field's definitions.

Names and definitions follow vLLM and AIPerf. A figure over nothing is None, never 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise

from evprof.core.records import NO_TOKEN_ID, TokenRecord
from evprof.core.run_log import RunLog
from evprof.core.texts import join_pieces
from evprof.core.units import ms_from_ns
from evprof.metrics.figures.kept import kept
from evprof.metrics.figures.stages import (
    BASES,
    END_TO_END,
    MODEL_ONLY,
    Rate,
    imported_ms,
    stage_ms,
    stage_total_ms,
    total_ms,
)


def token_times_ms(run: RunLog) -> list[float]:
    """When each token of the answer was known, in ms since the run's zero; empty while the zero is unknown, and for
    imported runs whose files give no such times."""
    zero = run.info.start_ns
    return [] if zero is None else [ms_from_ns(token.t_ns - zero) for token in timed_tokens(run)]


def timed_tokens(run: RunLog) -> list[TokenRecord]:
    """The tokens of the answer whose times were measured: of most imported runs those on their records are made up."""
    return run.tokens if run.info.has_token_times else []


def token_gaps_ms(run: RunLog) -> list[float]:
    """Time between consecutive tokens in ms: n - 1 values, 0 between tokens that arrived together in one round.

    None where they have no times of their own."""
    times = [token.t_ns for token in timed_tokens(run)]
    return [ms_from_ns(after - before) for before, after in pairwise(times)]


def time_to_first_token_ms(run: RunLog, basis: str = END_TO_END) -> float | None:
    """From the run's zero to the first token in ms, load included unless `basis` leaves it out; None before it.

    Of an imported run whose file measured it, by what that time covers."""
    return _time_to_first_token_ms(run, basis)


@kept(*((basis,) for basis in BASES))
def _time_to_first_token_ms(run: RunLog, basis: str) -> float | None:
    first = first_token_ns(run)
    return None if first is None else total_ms(run, basis, first)


def first_token_ns(run: RunLog) -> int | None:
    """When the first token was known, on the clock; None before it, and where an imported file does not tell it."""
    if run.info.imported is None or not run.info.imported.has_first_token_time:
        return run.answer_extent.first_ns if run.info.has_token_times else None
    prefill = next((span for span in run.stages(run.info.role) if span.stage_name == "prefill"), None)
    return None if prefill is None else prefill.end_ns


@kept()
def _after_first_token_ms(run: RunLog) -> float | None:
    """From the first token to the last in ms; of an imported run decode, where its file measured the first token."""
    if run.info.imported is not None:
        return stage_ms(run, "decode") if run.info.imported.has_first_token_time else None
    passed_ns = run.answer_extent.passed_ns
    return None if passed_ns is None else ms_from_ns(passed_ns)


def answer_ids(run: RunLog) -> tuple[int | None, ...]:
    """The ids of the answer's tokens, in order; None of one whose id is not known."""
    return tuple(_answer_ids(run))


@kept()
def _answer_ids(run: RunLog) -> list[int | None]:
    return [None if number == NO_TOKEN_ID else number for number in run.answer_column("token_id").tolist()]


@kept()
def answer_length(run: RunLog) -> int:
    return run.answer_extent.length


@kept()
def output_length(run: RunLog) -> int | None:
    """Tokens of the answer, end-of-sequence included when emitted; None while a run has produced none."""
    counted = run.info.imported.output_tokens if run.info.imported else None
    return run.answer_extent.length or counted or None


@kept()
def has_pieces(run: RunLog) -> bool:
    """Whether tokens of the answer have texts of their own; ids alone cannot be read."""
    return any(token.piece for token in run.tokens)


def decode_steps(run: RunLog) -> int | None:
    """Passes of the decode stage as tokens: 2…n, so n - 1, unless an imported file counted them; None below one."""
    counted = run.info.imported.decode_steps if run.info.imported else None
    return counted or max(0, (output_length(run) or 0) - 1) or None


def input_length(run: RunLog, role: str | None = None) -> int | None:
    """Positions of the prompt of `role` (the answering model's by default); None until known."""
    lengths = run.info.lengths.get(role or run.info.role)
    if lengths is None and run.info.imported is not None and role in (None, run.info.role):
        told = run.info.imported.figures.get("input_sequence_length")
        return None if told is None else round(told)
    return lengths.input if lengths else None


def visual_tokens(run: RunLog, role: str | None = None) -> int | None:
    """Positions of the prompt that carry pictures; None until known."""
    lengths = run.info.lengths.get(role or run.info.role)
    return lengths.visual if lengths else None


def text_tokens(run: RunLog, role: str | None = None) -> int | None:
    """Positions of the prompt that carry words: template and question; None until known."""
    lengths = run.info.lengths.get(role or run.info.role)
    return lengths.input - lengths.visual if lengths else None


def frames_shown(run: RunLog) -> int | None:
    """How many frames the answering model saw; None where nothing tells."""
    lengths = run.info.lengths.get(run.info.role)
    if lengths is not None and lengths.per_frame:
        return len(lengths.per_frame)
    return run.info.settings.event_frames if run.info.role == "draft" else run.info.settings.frames


def _prefill_ms(run: RunLog) -> float | None:
    """Time of the prefill stage in ms; None of an imported run whose time holds vision, too."""
    return stage_ms(run, "prefill") if run.info.imported is None else imported_ms(run).get("prefill")


def decode_ms(run: RunLog) -> float | None:
    """Time of the decode stage in ms. An imported speculative run's holds the draft's decoding, which its file timed
    apart; one measured here drafts inside the target's stage."""
    return stage_ms(run, "decode") if run.info.imported is None else stage_total_ms(run, "decode")


def _per_second(count: Callable[[RunLog], float | None], duration_ms: Callable[[RunLog], float | None]) -> Rate:
    def seconds(run: RunLog) -> float | None:
        spent = duration_ms(run)
        return None if spent is None else spent / 1000

    return Rate(lambda run: count(run) or None, seconds)


generation_throughput_tok_s = _per_second(output_length, lambda run: total_ms(run, MODEL_ONLY))
"""Tokens of the answer per second of vision, prefill and decode: what files that timed these in one piece give."""

inter_token_latency_ms = Rate(_after_first_token_ms, lambda run: max(0, (output_length(run) or 0) - 1))
"""(last token - first token) / (n - 1) in ms; None below two tokens."""

prefill_throughput_tok_s = _per_second(input_length, _prefill_ms)
"""Prompt positions per second of the prefill stage."""

decode_throughput_tok_s = _per_second(decode_steps, decode_ms)
"""Tokens 2…n per second of the decode stage: (n - 1) / decode time."""

decode_ms_per_token = Rate(lambda run: decode_ms(run) or None, decode_steps)
"""Decode time / (n - 1) in ms: what one more token costs, however it was found."""


def answer_text(run: RunLog) -> str:
    """The run's text as its model decoded it, or, until it says so, its tokens' pieces put together."""
    if run.info.text is not None:
        return run.info.text
    return join_pieces(token.piece for token in run.tokens)


def matching_ids(pairs: Iterable[tuple[RunLog, RunLog]]) -> tuple[int, int]:
    """The positions at which both answers of a pair have the same token id, and those at which both ids are known.

    Summed over all pairs, each over the shorter answer.
    """
    matches = [
        left == right
        for one, other in pairs
        for left, right in zip(answer_ids(one), answer_ids(other), strict=False)
        if left is not None and right is not None
    ]
    return sum(matches), len(matches)
