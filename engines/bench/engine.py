"""What benchmarks of models share: the time of the vision pass, and whether the machine was at rest."""

from __future__ import annotations

import torch

from engines.bench.ceilings import Ceilings, wait
from engines.bench.workload import Workload
from evprof.core.clock import monotonic_ns
from evprof.core.units import NS_PER_MS, percent_text

VisionTimes = tuple[list[float], str | None]
"""Milliseconds of each pass, and why the vision tower was not captured."""

MOST_UNREST = 0.25
"""By how much the ceilings may differ between start and end before it is told."""


def time_vision(workload: Workload, repeats: int, limit_s: float) -> VisionTimes:
    """Times passes from pixels to visual embeddings, after one uncounted; none without a tower. On a GPU the tower is
    captured, as in a run."""
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
    """Whether the machine did something else meanwhile: its own ceilings then differ from start to end."""
    unrest = before.unrest(after)
    if unrest <= MOST_UNREST:
        return []
    return [
        f"The machine was not at rest: its own ceilings differ by {percent_text(unrest)} between start and end, so the "
        "shares of them are rough."
    ]
