"""Runs in the words and figures of the window: names, statuses, paths, counters; it knows no widget."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from evprof.core.records import STAGES
from evprof.core.rows.answer_rows import NO_ANSWER
from evprof.core.rows.span import Span
from evprof.core.run_info import CANCELLED, FAILED, FINISHED, ModelFacts
from evprof.core.run_log import RunLog
from evprof.core.units import NS_PER_S
from evprof.core.vocabulary.families import family_title
from evprof.core.vocabulary.modes import mode_of
from evprof.view.columns import ShownModel
from evprof.view.labels import SHORT_DTYPES, is_drafting


def input_name(path: str) -> str:
    """The part of a path people go by."""
    return Path(path).name or path


def chips(model: ModelFacts | None) -> str:
    """Family, arithmetic and device: `EventGPT · bf16 · cuda:0`; empty without a model, and where nothing is told."""
    parts = () if model is None else (family_title(model.family), short_chips(model))
    return " · ".join(part for part in parts if part)


def short_chips(model: ModelFacts | None) -> str:
    """Arithmetic and device: `bf16 · cuda:0`."""
    if model is None:
        return ""
    parts = (model.quantization or SHORT_DTYPES.get(model.dtype, model.dtype), model.device)
    return " · ".join(part for part in parts if part)


def mode_name(mode: str) -> str:
    """A mode in words."""
    return mode_of(mode).title


def role_name(role: str) -> str:
    """`Event model (draft)`: what a role's model is called."""
    return f"{mode_name(role)} ({role})"


def run_title(run: RunLog) -> str:
    """`3 · Speculative γ=5`: number, somebody's name for it or its mode, and what sets it apart."""
    marks = ["torch trace" if mark == "profiled" else mark for mark in run.info.marks]
    return " · ".join([str(run.run_id), run.info.name or mode_words(run), *marks])


def mode_words(run: RunLog) -> str:
    """`Speculative γ=5`: the mode, and how much it drafts."""
    return mode_name(run.info.mode) + (_drafting(run) if mode_of(run.info.mode).drafts else "")


def _drafting(run: RunLog) -> str:
    """` γ=5`: how much is drafted per round, where rounds have one number for it; who drafts, the run's label says."""
    asked, gamma = run.info.settings.speculation, run.info.given_settings.get("gamma")
    has_rounds = not mode_of(run.info.mode).is_parallel or asked.afterwards == "rounds"
    return f" γ={gamma}" if gamma and has_rounds and not asked.tree else ""


def drafter_kind(run: RunLog) -> str:
    """One of DRAFTERS, or KV: who drafted in a run, or was asked to."""
    facts = run.info.speculation
    return facts.kind if facts is not None else run.info.settings.speculation.drafter


def stage_now(run: RunLog, role: str) -> str:
    """What one model of a run is doing: a stage, "waiting", or how the run ended."""
    if run.info.status == FAILED:
        return "failed"
    if run.info.status == CANCELLED:
        return "cancelled"
    if run.info.status == FINISHED:
        return "imported" if run.info.imported is not None else "finished"
    running = open_stage(run, role)
    if running is not None:
        return "drafting" if is_drafting(run, role, running.name) else running.name
    if role != run.info.role and any(span.role == role for span in run.stages()):
        decoding = open_stage(run, run.info.role)
        return "drafting" if decoding is not None and decoding.name == "decode" else "waiting"
    return "waiting" if run.has_spans() else "loading weights"


def open_stage(run: RunLog, role: str) -> Span | None:
    """The stage one model is in, None between stages and after the end."""
    return run.open_stage(role)


def stages_in_order(run: RunLog, role: str) -> list[Span]:
    """Stages of one model, in the order of STAGES; an interval that covers several stands where its first would."""
    return sorted(run.stages(role), key=lambda span: STAGES.index(span.covers[0]))


@dataclass(frozen=True)
class Counters:
    """What a column counts while it runs. None where there is nothing to count yet."""

    tokens: int
    tokens_per_s: float | None
    first_token_ns: int | None
    kv_bytes: int | None


def counters(column: ShownModel) -> Counters:
    """Counts of one model of a run: its answer's tokens, or those it drafted."""
    from evprof.metrics.figures.decoding import decode_throughput_tok_s
    from evprof.metrics.figures.kv_cache import live_bytes

    run, role = column
    if not column.is_answer:
        drafted = sum(entry.drafted for entry in run.rounds)
        return Counters(drafted, None, None, live_bytes(run, role))
    # The records of most imported runs' tokens have no times of their own.
    answer = run.answer_extent if run.info.has_token_times else NO_ANSWER
    zero, passed_ns = run.info.start_ns, answer.passed_ns
    # Until decode is over: tokens 2…n by the host's clock.
    so_far = (answer.length - 1) * NS_PER_S / passed_ns if passed_ns else None
    return Counters(
        tokens=answer.length,
        tokens_per_s=decode_throughput_tok_s(run) or so_far,
        first_token_ns=None if answer.first_ns is None or zero is None else answer.first_ns - zero,
        kv_bytes=live_bytes(run, role),
    )
