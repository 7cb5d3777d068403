"""What would make a traced run faster or smaller: sentences that follow from its numbers, each with evprof's switch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from evprof.core.units import memory_text, ms_text, percent_text
from evprof.metrics.traces.launches import graph_launches

if TYPE_CHECKING:
    from evprof.metrics.traces.analysis import TraceAnalysis

IDLE_SHARE = 0.5
"""A device that is idle for longer waits for its host."""

NOTED_SHARE = 0.1
"""What takes less of the time is not worth a sentence."""

STAGE_SHARE = 0.3
FULL_SHARE = 0.9


@dataclass(frozen=True)
class TraceAdvice:
    """A sentence, the switch it is about (`step`), the value to try (`graphs`), and the share 0…1 that it follows from.

    `option` is how the command line writes it; values are as `evprof run` takes them.
    """

    sentence: str
    switch: str
    value: str
    share: float

    @property
    def option(self) -> str:
        """`--step graphs`."""
        return f"--{self.switch.replace('_', '-')} {self.value}"


def advice(analysis: TraceAnalysis) -> tuple[TraceAdvice, ...]:
    """All that holds for a trace, the largest share first."""
    found = [one for rule in _RULES for one in rule(analysis)]
    return tuple(sorted(found, key=lambda one: -one.share))


def _idle_device(analysis: TraceAnalysis) -> Iterator[TraceAdvice]:
    seen = analysis.overview
    if seen is None or not seen.wall_ns:
        return
    shares = {category.name: category.share or 0.0 for category in seen.categories}
    busy_host = shares["Runtime"] + shares["CPU exec"]
    for device in seen.devices:
        idle = 1 - device.busy
        if idle <= IDLE_SHARE or busy_host < NOTED_SHARE:
            continue
        replays = len(graph_launches(analysis.trace)) > 0
        value, how = ("fused", "does a layer in few kernels") if replays else ("graphs", "launches a step as one")
        yield TraceAdvice(
            f"GPU {device.device} is idle {percent_text(idle)} of the time, and the host alone takes "
            f"{percent_text(busy_host)} to launch {device.kernels / len(seen.steps):,.0f} kernels a step: --step "
            f"{value} {how}.",
            "step",
            value,
            idle,
        )


def _tensor_cores(analysis: TraceAnalysis) -> Iterator[TraceAdvice]:
    total = sum(row.total_ns for row in analysis.kernels)
    if not total or any(row.uses_tensor_cores for row in analysis.kernels):
        return
    if any(device.compute is not None and device.compute[0] < 7 for device in analysis.trace.head.devices):
        return
    could = sum(row.device_self_ns for row in analysis.operators if row.is_eligible) / total
    if could >= NOTED_SHARE:
        yield TraceAdvice(
            f"No kernel uses tensor cores, though operators that can take {percent_text(could)} of the kernels' time: "
            "--dtype bfloat16 lets them.",
            "dtype",
            "bfloat16",
            could,
        )


def _growing_cache(analysis: TraceAnalysis) -> Iterator[TraceAdvice]:
    share = _share_of(analysis, lambda name: name == "aten::cat")
    if share >= NOTED_SHARE:
        yield TraceAdvice(
            f"Joining tensors (aten::cat) takes {percent_text(share)} of the operators' time, as a cache does that "
            "grows: --cache static is written in place.",
            "cache",
            "static",
            share,
        )


def _plain_attention(analysis: TraceAnalysis) -> Iterator[TraceAdvice]:
    share = _share_of(analysis, lambda name: name == "aten::_scaled_dot_product_attention_math", is_total=True)
    if share >= NOTED_SHARE:
        yield TraceAdvice(
            f"Attention takes its plain path for {percent_text(share)} of the operators' time: --attention flash is "
            "one kernel.",
            "attention",
            "flash",
            share,
        )


def _full_device(analysis: TraceAnalysis) -> Iterator[TraceAdvice]:
    rooms = {f"GPU {device.number}": device.memory_bytes for device in analysis.trace.head.devices}
    for curve in analysis.memory.curves:
        room = rooms.get(curve.device)
        if room and curve.peak_bytes > FULL_SHARE * room:
            share = curve.peak_bytes / room
            held = f"{memory_text(curve.peak_bytes)} of {memory_text(room)}"
            yield TraceAdvice(
                f"{curve.device} held {held} at its peak ({percent_text(share)}): "
                "--prefill-chunk 1024 takes less for a long prompt's pass.",
                "prefill_chunk",
                "1024",
                share,
            )


def _long_stages(analysis: TraceAnalysis) -> Iterator[TraceAdvice]:
    """Stages before the language model that a cache would spare the next run on the same input."""
    stages = analysis.stages
    if not stages:
        return
    whole = max(stage.end_ns for stage in stages) - min(stage.start_ns for stage in stages)
    for name, switch, value, how in (
        ("load", "prefetch", "warm", "has the files in memory before the run"),
        ("vision", "vision_cache", "memory", "keeps the embeddings for the next run on the same input"),
    ):
        taken = sum(stage.end_ns - stage.start_ns for stage in stages if stage.name == name)
        share = taken / whole if whole else 0.0
        if share >= STAGE_SHARE:
            option = switch.replace("_", "-")
            yield TraceAdvice(
                f"Stage {name} takes {ms_text(taken / 1e6)}, {percent_text(share)} of the run: --{option} {value} "
                f"{how}.",
                switch,
                value,
                share,
            )


_RULES: tuple[Callable[[TraceAnalysis], Iterator[TraceAdvice]], ...] = (
    _idle_device,
    _tensor_cores,
    _growing_cache,
    _plain_attention,
    _full_device,
    _long_stages,
)


def _share_of(analysis: TraceAnalysis, chosen: Callable[[str], bool], *, is_total: bool = False) -> float:
    """The share of some operators in all operators' time alone: on devices where there is any, else on the host."""
    rows = analysis.operators
    has_device = any(row.device_self_ns for row in rows)
    whole = sum(row.device_self_ns if has_device else row.host_self_ns for row in rows)
    mine = [row for row in rows if chosen(row.name)]
    if is_total:
        part = sum(row.device_total_ns if has_device else row.host_total_ns for row in mine)
    else:
        part = sum(row.device_self_ns if has_device else row.host_self_ns for row in mine)
    return part / whole if whole else 0.0
