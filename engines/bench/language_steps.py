"""Measures decode steps at several contexts with one model: times, shares of the ceilings, same tokens.

Rows are emitted as they are measured, so an interrupted run keeps them. Each position is compared with the eager step
after the same tokens.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from threading import Event
from typing import Any

import torch

from engines.bench.ceilings import Ceilings, wait
from engines.bench.contenders import CONTENDERS, HF_EAGER, OURS, EngineContender, OurTurns, ours_eager
from engines.bench.turns import (
    ContenderTurns,
    Runner,
    UnavailableError,
    agreement,
    decode_ns,
    paired_ratios,
    prefill_ns,
    spread_of,
    take_turns,
)
from engines.bench.workload import Workload
from engines.hardware.device import dtype_name
from engines.loading.shapes import SEED, BenchShape, text_shape, vision_shape
from engines.speculation.near_ties import NEAR_TIE_ULPS, gap_ulps
from evprof.core.protocols import monotonic_ns
from evprof.core.units import NS_PER_MS, percent_text
from evprof.core.vocabulary.families import TextShape
from evprof.metrics.limits import workload as arithmetic

Emit = Callable[[dict[str, Any]], None]

VISION = "vision"

_NEVER = Event()


@dataclass(frozen=True)
class StepsPlan:
    """A `shape` after prompts of `contexts` positions, by `contenders` in `rounds` rounds. `one_by_one`: each has its
    own turns with the reference. A contender starts only with `least_left_s` seconds left; `no_compiling` says why
    nothing is compiled."""

    shape: BenchShape
    contexts: Sequence[int]
    rounds: int
    ceilings: Ceilings
    contenders: Sequence[EngineContender]
    one_by_one: bool = False
    least_left_s: float = 20.0
    no_compiling: str | None = None


@dataclass(frozen=True)
class Needs:
    """What a shape needs by arithmetic: bytes that a decode step reads, operations of a prefill.

    `bandwidth_bytes_s` is the memory's ceiling, or None with the `reason`: what stays in a cache is not read from
    memory.
    """

    weight_bytes: float
    kv_bytes: float
    prefill_flops: float
    bandwidth_bytes_s: float | None
    reason: str | None

    @property
    def token_bytes(self) -> float:
        return self.weight_bytes + self.kv_bytes


def needs_of(text: TextShape, prompt: int, steps: int, element_bytes: int, ceilings: Ceilings) -> Needs:
    weights = arithmetic.weight_bytes_per_token(text, element_bytes)
    kv = arithmetic.mean_context(prompt, steps) * arithmetic.kv_bytes_per_position(text, element_bytes)
    bandwidth: float | None = ceilings.bandwidth_bytes_s
    reason, cache = None, ceilings.cache_bytes
    if cache is not None and weights + kv <= cache:
        bandwidth = None
        reason = (
            f"a step's {(weights + kv) / 1e6:.1f} MB stay in the last-level cache of {cache / 1e6:.0f} MB, so memory "
            "bandwidth is no limit to it"
        )
    return Needs(weights, kv, arithmetic.prefill_flops(text, prompt), bandwidth, reason)


def measure_steps(
    plan: StepsPlan, workload: Workload, emit: Emit, note: Callable[[str], None], left_s: Callable[[], float]
) -> None:
    """Emits a row for each contender, phase and context, and one of the tower where the shape has one."""
    if plan.shape.network is not None and not plan.one_by_one:
        flops = arithmetic.vision_flops(vision_shape(plan.shape.network))
        emit({"figure": "step", "context": None, **_vision_row(plan, workload, flops, left_s())})
    groups = [[contender] for contender in plan.contenders] if plan.one_by_one else [plan.contenders]
    for group in groups:
        for context in plan.contexts:
            _measure(plan, workload.with_context(context), group, emit=emit, note=note, left_s=left_s)


def _measure(
    plan: StepsPlan,
    workload: Workload,
    contenders: Sequence[EngineContender],
    *,
    emit: Emit,
    note: Callable[[str], None],
    left_s: Callable[[], float],
) -> None:
    reasons = {one.name: _reason_without(plan, one, workload.device.type, left_s()) for one in contenders}
    left_out = {name: ContenderTurns(name, reason=reason) for name, reason in reasons.items() if reason}
    if left_out:
        _emit_rows(plan, workload, left_out, {}, ContenderTurns(HF_EAGER), emit=emit)
    able = [contender for contender in contenders if contender.name not in left_out]
    if not able:
        return
    reference = [one for one in CONTENDERS if one.name == HF_EAGER and one not in able] if plan.one_by_one else []
    note(f"{workload.prompt:,} positions: {', '.join(contender.name for contender in able)}")
    made: dict[str, Runner] = {}

    def make(contender: EngineContender) -> Runner:
        made[contender.name] = contender.make(workload)
        return made[contender.name]

    starters = {contender.name: partial(make, contender) for contender in [*reference, *able]}
    series = take_turns(starters, plan.rounds, limit_s=left_s(), seed=SEED, note=note)
    measured = {contender.name: series[contender.name] for contender in able}
    _emit_rows(plan, workload, measured, made, series.get(HF_EAGER, ContenderTurns(HF_EAGER)), emit=emit)
    made.clear()
    if workload.device.type == "cuda":
        torch.cuda.empty_cache()


def _reason_without(plan: StepsPlan, contender: EngineContender, device_type: str, left_s: float) -> str | None:
    if contender.only_on not in (None, device_type):
        return f"it needs a {str(contender.only_on).upper()} device"
    if contender.is_compiled and plan.no_compiling:
        return plan.no_compiling
    return None if left_s >= plan.least_left_s else f"only {left_s:.0f} s of the section's time were left"


def _emit_rows(
    plan: StepsPlan,
    workload: Workload,
    series: Mapping[str, ContenderTurns],
    made: Mapping[str, Runner],
    reference: ContenderTurns,
    *,
    emit: Emit,
) -> None:
    text = text_shape(plan.shape.text)
    needs = needs_of(text, workload.prompt, workload.step_count, workload.dtype.itemsize, plan.ceilings)
    plain = _PlainAnswer(workload) if any(isinstance(runner, OurTurns) for runner in made.values()) else None
    for name, turns in series.items():
        runner = made.get(name) if turns.is_measured else None
        decoding = decode_row(turns, reference, needs) | {"mbu_reason": needs.reason}
        if plain is not None and isinstance(runner, OurTurns):
            decoding |= plain.same_as(runner)
        rows = [decoding, prefill_row(turns, reference, needs, plan.ceilings, workload.prompt)]
        for row in rows:
            emit({"figure": "step", "context": workload.prompt, **row})
        for sentence in problems_of(rows, dtype_name(workload.dtype)):
            emit({"problem": f"{sentence[:-1]} ({workload.prompt:,} positions)."})


def decode_row(series: ContenderTurns, reference: ContenderTurns, needs: Needs) -> dict[str, Any]:
    row = _row(series, "decode", series.token_ms(), paired_ratios(reference, series, decode_ns))
    row["agreement"] = agreement(series, reference)
    if row["ms"] is not None:
        row["tok_s"] = 1000 / row["ms"]
        if needs.bandwidth_bytes_s is not None:
            row["mbu"] = arithmetic.bandwidth_share(needs.token_bytes, row["ms"] / 1000, needs.bandwidth_bytes_s)
    return row


def prefill_row(
    series: ContenderTurns, reference: ContenderTurns, needs: Needs, ceilings: Ceilings, prompt: int
) -> dict[str, Any]:
    row = _row(series, "prefill", series.prefill_ms(), paired_ratios(reference, series, prefill_ns))
    if row["ms"] is not None:
        row["tok_s"] = 1000 * prompt / row["ms"]
        row["mfu"] = arithmetic.compute_share(needs.prefill_flops, row["ms"] / 1000, ceilings.matmul_flops_s)
    return row


def _vision_row(plan: StepsPlan, workload: Workload, flops: float, limit_s: float) -> dict[str, Any]:
    """Times of tower, projector and what follows, after a warm-up. A GPU captures the tower, as in a run."""
    network, pixels = workload.network, workload.pixels
    assert network is not None
    assert pixels is not None
    if workload.device.type == "cuda":
        network.tower.capture_for({len(pixels)}, workload.decoder)
    times: list[float] = []
    began_ns = monotonic_ns()
    with torch.inference_mode():
        while len(times) <= plan.rounds and (monotonic_ns() - began_ns) / 1e9 < limit_s:
            wait(workload.device)
            pass_ns = monotonic_ns()
            network.encode_frames(pixels)
            wait(workload.device)
            times.append((monotonic_ns() - pass_ns) / NS_PER_MS)
    times = times[1:] or times
    row = _row(ContenderTurns(OURS, reason=network.tower.problem), VISION, times) | {"turns": len(times)}
    if row["ms"] is not None:
        row["mfu"] = arithmetic.compute_share(flops, row["ms"] / 1000, plan.ceilings.matmul_flops_s)
    return row


def _row(series: ContenderTurns, phase: str, times_ms: Sequence[float], ratios: Sequence[float] = ()) -> dict[str, Any]:
    return {
        "contender": series.name,
        "phase": phase,
        "status": "measured" if times_ms else "skipped",
        "reason": series.reason,
        "turns": len(series.turns),
        **spread_of("ms", times_ms),
        "ms_least": min(times_ms, default=None),
        "ms_most": max(times_ms, default=None),
        "tok_s": None,
        **spread_of("vs_hf_eager", ratios),
        "agreement": None,
        "mbu": None,
        "mfu": None,
        "preparation_s": series.preparation_s or None,
    }


def problems_of(rows: Sequence[Mapping[str, Any]], dtype: str) -> list[str]:
    sentences = []
    for row in rows:
        name, share = row["contender"], row["agreement"]
        if share is not None and share < 1 and dtype == "float32":
            sentences.append(
                f"{name} chose other tokens than {HF_EAGER} at {percent_text(1 - share)} of the positions, in float32."
            )
        for key, what in (("mbu", "measured bandwidth"), ("mfu", "measured matrix products")):
            if row[key] is not None and row[key] > 1:
                sentences.append(
                    f"{name} reached {percent_text(row[key])} of the {what} in {row['phase']}: the ceiling was "
                    "measured too low or caches helped, so trust neither figure."
                )
    return sentences


class _PlainAnswer:
    """The eager step's answer, and the logits that each of its tokens is chosen from."""

    def __init__(self, workload: Workload) -> None:
        turns = ours_eager(workload)
        self._ids = turns().ids
        self._logits = forced_logits(turns, self._ids)

    def same_as(self, runner: OurTurns) -> dict[str, Any]:
        try:
            return same_when_forced(self._logits, forced_logits(runner, self._ids))
        except UnavailableError as error:
            return {"problem": str(error)}


def forced_logits(turns: OurTurns, ids: tuple[int, ...]) -> torch.Tensor:
    """Feeds an answer after the prompt, token by token: logits [len(ids), V] that each of its tokens is chosen from."""
    cached = turns.cached
    cached.opened.crop(0)
    with torch.inference_mode():
        fed = torch.tensor([ids], device=turns.workload.device)
        # Copies: what a captured step returns is overwritten by the next one.
        found = [cached.prefill(turns.workload.embeddings, _NEVER)[0].clone()]
        found += [cached.step(fed[:, at : at + 1])[0, -1].clone() for at in range(len(ids) - 1)]
        return torch.stack(found)


def same_when_forced(reference: torch.Tensor, logits: torch.Tensor) -> dict[str, Any]:
    """Two steps' logits [N, V] after the same tokens: how often both choose the same, and how near the others lie.

    The gap is from the reference's largest logit to the other token's, in units in the last place.
    """
    expected, chosen = reference.argmax(-1), logits.argmax(-1)
    places = torch.nonzero(expected != chosen).flatten().tolist()
    gaps = [gap_ulps(reference[place], int(chosen[place])) for place in places]
    widest = max(gaps, default=None)
    return {
        "compared_positions": len(reference),
        "same_positions": len(reference) - len(places),
        "same_tokens": 1 - len(places) / len(reference),
        "divergences": len(gaps),
        "near_ties": sum(gap <= NEAR_TIE_ULPS for gap in gaps),
        "widest_gap_ulps": widest if widest is not None and math.isfinite(widest) else None,
        "is_forced": True,
    }
