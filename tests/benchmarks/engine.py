"""How near to this machine's ceilings our engine decodes, beside transformers' own ways."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from engines.bench.ceilings import Ceilings, measure_ceilings
from engines.bench.contenders import CONTENDERS, OURS, OURS_COMPILED, EngineContender, contenders_on
from engines.bench.language_steps import VISION, Needs, StepsPlan, measure_steps, needs_of
from engines.bench.workload import check_room, make_workload
from engines.hardware.device import SMALL_PARAMETERS, choose_device, choose_dtype, dtype_name, free_bytes
from engines.hardware.environment import describe_environment, gpu_state, gpu_warnings
from engines.loading.shapes import bench_shape, text_shape, vision_shape
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
    check_room(shape, context + bench.tokens, len(contenders), device, dtype, free=free_bytes(device))
    before = torch.get_num_threads()
    if device.type == "cpu" and text_shape(shape.text).parameters < SMALL_PARAMETERS:
        torch.set_num_threads(1)
    try:
        environment = describe_environment(device)
        note("engine: measuring the machine's ceilings")
        ceilings = measure_ceilings(device, dtype, scale=bench.scale)
        note(f"engine: drawing the weights of {shape.name}")
        workload = make_workload(shape, context, bench.tokens, device, dtype)
        emitted: list[dict[str, Any]] = []
        plan = StepsPlan(shape, (context,), bench.repeats, ceilings, contenders, least_left_s=0.0)
        measure_steps(plan, workload, emitted.append, note, lambda: bench.limit_s)
    finally:
        torch.set_num_threads(before)
    rows = [row for row in emitted if "phase" in row]
    problems = [row["problem"] for row in emitted if set(row) == {"problem"}]
    text = text_shape(shape.text)
    needs = needs_of(text, workload.prompt, workload.step_count, dtype.itemsize, ceilings)
    summary = {
        "shape": shape.name,
        "device": str(device),
        "dtype": dtype_name(dtype),
        "context": workload.prompt,
        "tokens": workload.tokens,
        **summarise(rows, needs, ceilings),
        "vision_flops": None if shape.network is None else vision_flops(vision_shape(shape.network)),
        "problems": problems,
    }
    state = gpu_state(device)
    summary["problems"] += gpu_warnings(environment["gpu"], state)
    return {"environment": environment | {"gpu_end": state}, "rows": rows, "summary": summary}


def summarise(rows: list[dict[str, Any]], needs: Needs, ceilings: Ceilings) -> dict[str, Any]:
    """The promised keys, and the ceilings they are held against. What was not measured is None."""
    found = {(row["contender"], row["phase"]): row for row in rows}

    def value(contender: str, phase: str, key: str) -> Any:
        return found.get((contender, phase), {}).get(key)

    shares = [row["mbu"] for row in rows if row["contender"].startswith(OURS) and row["mbu"] is not None]
    speeds = [row["tok_s"] for row in rows if row["phase"] == "decode" and row["contender"].startswith(OURS)]
    bandwidth = needs.bandwidth_bytes_s
    return {
        "ours_vs_hf_eager": value(OURS, "decode", "vs_hf_eager"),
        "ours_compiled_vs_hf_eager": value(OURS_COMPILED, "decode", "vs_hf_eager"),
        "decode_mbu": max(shares, default=None),
        "decode_mbu_reason": needs.reason,
        "prefill_mfu": value(OURS, "prefill", "mfu"),
        "vision_mfu": value(OURS, VISION, "mfu"),
        "decode_tok_s": max((speed for speed in speeds if speed is not None), default=None),
        "decode_ceiling_tok_s": bandwidth / needs.token_bytes if bandwidth else None,
        "weight_bytes_per_token": needs.weight_bytes,
        "kv_bytes_per_token": needs.kv_bytes,
        "prefill_flops": needs.prefill_flops,
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
