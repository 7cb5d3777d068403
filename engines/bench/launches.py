"""What a decoded token asks of the device: operators called, launches made and kernels run, counted in a trace."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from engines.bench.turns import DECODE_BEGINS, Runner
from evprof.core.errors import UserError

_LAUNCH = re.compile(r"cu(da)?(Graph)?Launch")
"""How the driver's and the runtime's calls begin that start a kernel or a graph."""

_NO_KERNEL = ("Memcpy", "Memset")


@dataclass(frozen=True)
class TokenCounts:
    """Per decoded token. Kernels and launches are None without a GPU; a graph is one launch of many kernels."""

    operators_per_token: float
    kernels_per_token: float | None = None
    launches_per_token: float | None = None

    def to_json(self) -> dict[str, Any]:
        """For a row."""
        return asdict(self)


def count_launches(runner: Runner, device: torch.device) -> TokenCounts:
    """Counts in one turn what follows its prefill. The profiler slows the turn down: its times are not to be used.

    Raises UserError where the trace holds no such turn, UnavailableError as the runner does.
    """
    activities = [ProfilerActivity.CPU]
    if device.type == "cuda":
        activities.append(ProfilerActivity.CUDA)
    with profile(activities=activities, acc_events=True) as profiler:
        taken = runner()
    events = profiler.events()
    steps = len(taken.ids) - 1
    if events is None or steps < 1:
        raise UserError("The trace of a turn holds no decode step.")
    return counts_of(events, steps, is_cuda=device.type == "cuda")


def counts_of(events: Iterable[Any], steps: int, *, is_cuda: bool) -> TokenCounts:
    """Of a profiler's events (times in µs), those after the mark between prefill and decode, over `steps` steps."""
    listed = list(events)
    began = next((event.time_range.start for event in listed if event.name == DECODE_BEGINS), None)
    if began is None:
        raise UserError("The trace does not say where decoding begins.")
    after = [event for event in listed if event.time_range.start > began and event.name != DECODE_BEGINS]
    operators = sum(_is_operator(event) and not _is_operator(event.cpu_parent) for event in after)
    if not is_cuda:
        return TokenCounts(operators / steps)
    kernels = sum(_is_kernel(event) for event in after)
    launches = sum(_place(event) == "CPU" and bool(_LAUNCH.match(event.name)) for event in after)
    return TokenCounts(operators / steps, kernels / steps, launches / steps)


def _place(event: Any) -> str:
    """Where it ran: "CPU" or "CUDA"."""
    return str(event.device_type.name)


def _is_operator(event: Any) -> bool:
    return event is not None and _place(event) == "CPU" and event.name.startswith("aten::")


def _is_kernel(event: Any) -> bool:
    on_device = _place(event) == "CUDA"
    return on_device and not event.is_user_annotation and not event.name.startswith(_NO_KERNEL)
