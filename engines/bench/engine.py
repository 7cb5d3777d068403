"""`evprof bench engine`: how near to this machine's ceilings our engine decodes, beside transformers' own ways."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from engines.bench.ceilings import Ceilings, measure_ceilings, wait
from engines.bench.contenders import HF_EAGER, EngineContender, contenders_on
from engines.bench.figures import (
    decode_row,
    memory_limit,
    needs_of,
    prefill_row,
    problems_of,
    summarise,
    vision_row,
)
from engines.bench.turns import ContenderTurns, take_turns
from engines.bench.workload import Workload, check_room, make_workload, workload_need
from engines.hardware.device import choose_device, choose_dtype, dtype_name
from engines.hardware.environment import describe_environment
from engines.hardware.gpu_state import gpu_state, gpu_warnings
from engines.hardware.memory import free_bytes
from engines.hardware.threads import SMALL_PARAMETERS
from engines.loading.shapes import SEED, BenchShape, bench_shape, text_shape, vision_shape
from evprof.core.clock import monotonic_ns
from evprof.core.errors import USAGE, UserError
from evprof.core.units import NS_PER_MS, percent_text
from evprof.metrics.limits.roofline import vision_flops

Note = Callable[[str], None]

VisionTimes = tuple[list[float], str | None]
"""Milliseconds of each pass, and why the vision tower was not captured."""

MOST_UNREST = 0.25
"""By how much the ceilings may differ between start and end before it is told."""


@dataclass(frozen=True)
class EngineBench:
    """What to measure. `context` positions of prompt (None: the family's own prompt), `tokens` after it, `repeats`
    rounds; a contender stops after `limit_s` seconds. `contenders`
    None: all that suit the device. `scale` shrinks what measures the ceilings."""

    shape: str = "dispatch-32"
    context: int | None = None
    tokens: int = 64
    repeats: int = 15
    device: str = "auto"
    dtype: str = "auto"
    limit_s: float = 300.0
    contenders: Sequence[EngineContender] | None = None
    scale: float = 1.0

    def validate(self) -> None:
        """Raises UserError (exit code 2) for values that mean nothing."""
        for option, value, least in (
            ("--context", self.context, 1),
            ("--tokens", self.tokens, 2),
            ("--repeat", self.repeats, 1),
            ("--limit", self.limit_s, 1),
        ):
            if value is not None and value < least:
                raise UserError(f"{option} must be at least {least}, not {value:g}.", exit_code=USAGE)


def measure_engine(bench: EngineBench, note: Note = lambda _: None) -> dict[str, Any]:
    """`environment`, `rows` and `summary`. Raises UserError for wrong words and for what does not fit in memory."""
    bench.validate()
    shape = bench_shape(bench.shape)
    device = choose_device(bench.device)
    dtype = choose_dtype(bench.dtype, device)
    context = bench.context or shape.prompt
    contenders = bench.contenders or contenders_on(device.type)
    need = workload_need(shape, context + bench.tokens, len(contenders), dtype)
    check_room(shape.name, need, device, dtype, free_bytes(device))
    before = torch.get_num_threads()
    if device.type == "cpu" and text_shape(shape.text).parameters < SMALL_PARAMETERS:
        torch.set_num_threads(1)
    try:
        environment = describe_environment(device)
        note("engine: measuring the machine's ceilings")
        ceilings = measure_ceilings(device, dtype, scale=bench.scale)
        note(f"engine: drawing the weights of {shape.name}")
        workload = make_workload(shape, context, bench.tokens, device, dtype)
        vision = time_vision(workload, bench.repeats, bench.limit_s)
        series = take_turns(
            {contender.name: partial(contender.make, workload) for contender in contenders},
            bench.repeats,
            limit_s=bench.limit_s,
            seed=SEED,
            note=note,
        )
        # Once more: on a busy machine one of the two measurements may have had a bad moment.
        again = measure_ceilings(device, dtype, scale=bench.scale)
    finally:
        torch.set_num_threads(before)
    rows, summary = _figures(shape, workload, ceilings.higher(again), series, vision)
    summary["problems"] += unrest_problems(ceilings, again)
    state = gpu_state(device)
    summary["problems"] += gpu_warnings(environment["gpu"], state)
    return {"environment": environment | {"gpu_end": state}, "rows": rows, "summary": summary}


def _figures(
    shape: BenchShape, workload: Workload, ceilings: Ceilings, series: dict[str, ContenderTurns], vision: VisionTimes
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    pictures = vision_flops(vision_shape(shape.network)) if shape.network is not None else None
    needs = needs_of(text_shape(shape.text), workload.prompt, workload.step_count, workload.dtype.itemsize, pictures)
    limit = memory_limit(needs, ceilings)
    reference = series.get(HF_EAGER, ContenderTurns(HF_EAGER))
    rows = [decode_row(each, reference, needs, limit) for each in series.values()]
    rows += [prefill_row(each, reference, needs, ceilings, workload.prompt) for each in series.values()]
    if pictures is not None:
        rows.append(vision_row(*vision, pictures, ceilings))
    dtype = dtype_name(workload.dtype)
    summary = {
        "shape": shape.name,
        "device": str(workload.device),
        "dtype": dtype,
        "context": workload.prompt,
        "tokens": workload.tokens,
        **summarise(rows, needs, ceilings, limit),
        "problems": problems_of(rows, series, dtype),
    }
    return rows, summary


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
