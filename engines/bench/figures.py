"""Rows of the benchmarks of models: measured turns, ceilings and the arithmetic of a shape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from engines.bench.ceilings import Ceilings, wait
from engines.bench.contenders import HF_EAGER, OURS
from engines.bench.turns import (
    ContenderTurns,
    agreement,
    decode_ns,
    paired_ratios,
    prefill_ns,
    spread_of,
)
from engines.bench.workload import Workload
from evprof.core.protocols import monotonic_ns
from evprof.core.units import NS_PER_MS, percent_text
from evprof.core.vocabulary.families import TextShape
from evprof.metrics.limits import workload

VISION = "vision"


@dataclass(frozen=True)
class Needs:
    """What a shape needs by arithmetic: bytes a decode step reads, operations of a prefill and of the vision pass."""

    weight_bytes: float
    kv_bytes: float
    prefill_flops: float
    vision_flops: float | None

    @property
    def token_bytes(self) -> float:
        return self.weight_bytes + self.kv_bytes


def needs_of(text: TextShape, prompt: int, steps: int, element_bytes: int, vision_flops: float | None) -> Needs:
    context = workload.mean_context(prompt, steps)
    return Needs(
        weight_bytes=workload.weight_bytes_per_token(text, element_bytes),
        kv_bytes=context * workload.kv_bytes_per_position(text, element_bytes),
        prefill_flops=workload.prefill_flops(text, prompt),
        vision_flops=vision_flops,
    )


@dataclass(frozen=True)
class Limit:
    """The memory's ceiling for decoding, or why there is none: what stays in a cache is not read from memory."""

    bandwidth_bytes_s: float | None
    reason: str | None = None


def memory_limit(needs: Needs, ceilings: Ceilings) -> Limit:
    """The measured bandwidth, unless a step's bytes fit the last-level cache."""
    cache = ceilings.cache_bytes
    if cache is not None and needs.token_bytes <= cache:
        return Limit(
            None,
            f"a step's {needs.token_bytes / 1e6:.1f} MB stay in the last-level cache of {cache / 1e6:.0f} MB, "
            "so memory bandwidth is no limit to it",
        )
    return Limit(ceilings.bandwidth_bytes_s)


def decode_row(series: ContenderTurns, reference: ContenderTurns, needs: Needs, limit: Limit) -> dict[str, Any]:
    row = _row(series, "decode", series.token_ms(), paired_ratios(reference, series, decode_ns))
    row["agreement"] = agreement(series, reference)
    if row["ms"] is not None:
        row["tok_s"] = 1000 / row["ms"]
        if limit.bandwidth_bytes_s is not None:
            row["mbu"] = workload.bandwidth_share(needs.token_bytes, row["ms"] / 1000, limit.bandwidth_bytes_s)
    return row


def prefill_row(
    series: ContenderTurns, reference: ContenderTurns, needs: Needs, ceilings: Ceilings, prompt: int
) -> dict[str, Any]:
    row = _row(series, "prefill", series.prefill_ms(), paired_ratios(reference, series, prefill_ns))
    if row["ms"] is not None:
        row["tok_s"] = 1000 * prompt / row["ms"]
        row["mfu"] = workload.compute_share(needs.prefill_flops, row["ms"] / 1000, ceilings.matmul_flops_s)
    return row


def vision_row(times_ms: list[float], reason: str | None, flops: float, ceilings: Ceilings) -> dict[str, Any]:
    """Times of tower, projector and what follows. `reason`: why the tower was not captured."""
    row = _row(ContenderTurns(OURS, reason=reason), VISION, times_ms) | {"turns": len(times_ms)}
    if row["ms"] is not None:
        row["mfu"] = workload.compute_share(flops, row["ms"] / 1000, ceilings.matmul_flops_s)
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


def problems_of(rows: list[dict[str, Any]], series: Mapping[str, ContenderTurns], dtype: str) -> list[str]:
    found = []
    for row in rows:
        name, share = row["contender"], row["agreement"]
        if share is not None and share < 1 and dtype == "float32":
            found.append(
                f"{name} chose other tokens than {HF_EAGER} at {percent_text(1 - share)} of the positions, in float32."
            )
        for key, what in (("mbu", "measured bandwidth"), ("mfu", "measured matrix products")):
            if row[key] is not None and row[key] > 1:
                found.append(
                    f"{name} reached {percent_text(row[key])} of the {what} in {row['phase']}: the ceiling was "
                    "measured too low or caches helped, so trust neither figure."
                )
    found += [f"{each.name} was left out: {each.reason}." for each in series.values() if each.reason]
    return found


VisionTimes = tuple[list[float], str | None]

MOST_UNREST = 0.25


def time_vision(workload: Workload, repeats: int, limit_s: float) -> VisionTimes:
    """Times passes from pixels to visual embeddings after a warm-up; none without a tower. A GPU captures the tower, as
    in a run."""
    network, pixels = workload.network, workload.pixels
    if network is None or pixels is None:
        return [], None
    if workload.device.type == "cuda":
        network.tower.capture_for({len(pixels)}, workload.decoder)
    times: list[float] = []
    began_ns = monotonic_ns()
    with torch.inference_mode():
        while len(times) <= repeats and (monotonic_ns() - began_ns) / 1e9 < limit_s:
            wait(workload.device)
            pass_ns = monotonic_ns()
            network.encode_frames(pixels)
            wait(workload.device)
            times.append((monotonic_ns() - pass_ns) / NS_PER_MS)
    return times[1:] or times, network.tower.problem


def unrest_problems(before: Ceilings, after: Ceilings) -> list[str]:
    unrest = before.unrest(after)
    if unrest <= MOST_UNREST:
        return []
    return [
        f"The machine was not at rest: its own ceilings differ by {percent_text(unrest)} between start and end, so the "
        "shares of them are rough."
    ]
