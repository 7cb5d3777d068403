"""How near to this machine's ceilings our engine decodes, beside transformers' own ways."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from engines.bench.ceilings import Ceilings, measure_ceilings
from engines.bench.contenders import CONTENDERS, HF_EAGER, OURS, OURS_COMPILED, EngineContender, contenders_on
from engines.bench.figures import (
    VISION,
    Limit,
    Needs,
    VisionTimes,
    decode_row,
    memory_limit,
    needs_of,
    prefill_row,
    problems_of,
    time_vision,
    unrest_problems,
    vision_row,
)
from engines.bench.turns import ContenderTurns, take_turns
from engines.bench.workload import Workload, check_room, make_workload, workload_need
from engines.hardware.device import SMALL_PARAMETERS, choose_device, choose_dtype, dtype_name, free_bytes
from engines.hardware.environment import describe_environment
from engines.hardware.gpu_state import gpu_state, gpu_warnings
from engines.loading.shapes import SEED, BenchShape, bench_shape, text_shape, vision_shape
from evprof.core.errors import USAGE, UserError
from evprof.core.texts import guess_among
from evprof.metrics.limits.workload import vision_flops

Note = Callable[[str], None]


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


def summarise(rows: list[dict[str, Any]], needs: Needs, ceilings: Ceilings, limit: Limit) -> dict[str, Any]:
    """The promised keys, and the ceilings they are held against. What was not measured is None."""
    found = {(row["contender"], row["phase"]): row for row in rows}

    def value(contender: str, phase: str, key: str) -> Any:
        return found.get((contender, phase), {}).get(key)

    shares = [row["mbu"] for row in rows if row["contender"].startswith(OURS) and row["mbu"] is not None]
    speeds = [row["tok_s"] for row in rows if row["phase"] == "decode" and row["contender"].startswith(OURS)]
    bandwidth = limit.bandwidth_bytes_s
    return {
        "ours_vs_hf_eager": value(OURS, "decode", "vs_hf_eager"),
        "ours_compiled_vs_hf_eager": value(OURS_COMPILED, "decode", "vs_hf_eager"),
        "decode_mbu": max(shares, default=None),
        "decode_mbu_reason": limit.reason,
        "prefill_mfu": value(OURS, "prefill", "mfu"),
        "vision_mfu": value(OURS, VISION, "mfu"),
        "decode_tok_s": max((speed for speed in speeds if speed is not None), default=None),
        "decode_ceiling_tok_s": bandwidth / needs.token_bytes if bandwidth else None,
        "weight_bytes_per_token": needs.weight_bytes,
        "kv_bytes_per_token": needs.kv_bytes,
        "prefill_flops": needs.prefill_flops,
        "vision_flops": needs.vision_flops,
        "copy_bytes_s": ceilings.copy_bytes_s,
        "read_bytes_s": ceilings.read_bytes_s,
        "matmul_flops_s": ceilings.matmul_flops_s,
        "cache_bytes": ceilings.cache_bytes,
    }


def choose_contenders(names: str) -> tuple[EngineContender, ...]:
    """Those of a list of names with commas. Raises UserError (exit code 2) for an unknown one."""
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    known = {contender.name: contender for contender in CONTENDERS}
    for name in wanted:
        if name not in known:
            raise UserError(f"Unknown contender '{name}'{guess_among(name, known)}", exit_code=USAGE)
    if not wanted:
        raise UserError(f"--contenders names nobody; choose among {', '.join(known)}.", exit_code=USAGE)
    return tuple(contender for contender in CONTENDERS if contender.name in wanted)
