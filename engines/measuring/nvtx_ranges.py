"""Stages, rounds and tokens as NVTX ranges, for Nsight Systems and its like; only with CUDA builds of PyTorch."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import torch

from engines.measuring.device_timer import DeviceTimer
from engines.measuring.stepped_clock import SteppedClock
from engines.measuring.timing import StageClock
from evprof.core.protocols import Sink


def _range(name: str) -> AbstractContextManager[Any]:
    made: AbstractContextManager[Any] = torch.cuda.nvtx.range(name)
    return made


class RangedClock(SteppedClock):
    """A clock whose spans and steps are ranges of the thread that opens them."""

    def __init__(self, sink: Sink, run_id: int, *, timers: dict[str, DeviceTimer] | None = None, **named: Any) -> None:
        super().__init__(sink, run_id, timers=timers, annotation=_range, **named)

    def another(self, sink: Sink, timers: dict[str, DeviceTimer] | None) -> StageClock:
        """Its ranges are its own thread's."""
        return RangedClock(sink, self.run_id, timers=timers, now=self.now, ids=self.ids)
