"""Runs under a profiler: torch traces and NVTX ranges.

Such a run is a run of its own, because the profiler slows it down. A trace has the layout of TensorBoard's profiler
plugin.
"""

from __future__ import annotations

import re
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import torch
from torch.profiler import ProfilerActivity, profile, record_function, tensorboard_trace_handler

from engines.measuring.device_timer import DeviceTimer
from engines.measuring.timing import OpenSpan, StageClock
from evprof.core.errors import UserError
from evprof.core.protocols import Sink


class SteppedClock(StageClock):
    """Wraps every span by its name, and every step as `step_name` calls it, in a context that `annotation` makes."""

    _steps = 0
    _step: AbstractContextManager[Any] | None = None

    def step_name(self, kind: str) -> str:
        """What the next step is called; `kind` is "token" or "round"."""
        return f"{kind} {self._steps}"

    def begin_step(self, kind: str = "token") -> None:
        if self.annotation is not None:
            self._step = self.annotation(self.step_name(kind))
            self._step.__enter__()
        self._steps += 1

    def end_step(self) -> None:
        self.end_mark()
        super().end_step()

    def finish(self) -> int:
        self.end_mark()
        return super().finish()

    def end_mark(self) -> None:
        step, self._step = self._step, None
        if step is not None:
            step.__exit__(None, None, None)


def _range(name: str) -> AbstractContextManager[Any]:
    made: AbstractContextManager[Any] = torch.cuda.nvtx.range(name)
    return made


class RangedClock(SteppedClock):
    """A clock whose spans and steps are ranges of the thread that opens them."""

    def __init__(self, sink: Sink, run_id: int, *, timers: dict[str, DeviceTimer] | None = None, **named: Any) -> None:
        super().__init__(sink, run_id, timers=timers, annotation=_range, **named)

    def another(self, sink: Sink, timers: dict[str, DeviceTimer] | None) -> StageClock:
        return RangedClock(sink, self.run_id, timers=timers, now=self.now, ids=self.ids)


class TracedClock(SteppedClock):
    """Spans and steps show in the trace. ProfilerStep#0 is everything before decode; each token or round is a step."""

    def __init__(self, sink: Sink, run_id: int, *, timers: dict[str, DeviceTimer] | None = None) -> None:
        super().__init__(sink, run_id, timers=timers, annotation=record_function)

    def step_name(self, kind: str) -> str:
        return f"ProfilerStep#{self._steps}"

    def open(self, span: OpenSpan) -> None:
        is_stage = not self.is_inside
        if is_stage and span.name == "decode":
            self.end_mark()
        elif is_stage and self._steps == 0:
            self.begin_step()
        super().open(span)


class TorchTrace:
    """A context: profiles what happens inside and writes `{host}_{pid}.{ns}.pt.trace.json.gz` into `folder`."""

    make_clock = TracedClock

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._profile: profile | None = None

    def __enter__(self) -> Self:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(
                f"The trace folder {self.folder} cannot be made ({error.strerror}); name another --torch-trace."
            ) from None
        activities = [ProfilerActivity.CPU]
        if torch.cuda.is_available():
            activities.append(ProfilerActivity.CUDA)
        self._profile = profile(
            activities=activities,
            record_shapes=True,
            profile_memory=True,
            on_trace_ready=tensorboard_trace_handler(str(self.folder), use_gzip=True),
            acc_events=True,
        )
        self._profile.__enter__()
        # What reads a folder of traces of several machines asks each for its rank; here there is one.
        self._profile.add_metadata_json("distributedInfo", '{"rank": 0, "world_size": 1}')
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        profiler, self._profile = self._profile, None
        if profiler is not None:
            profiler.__exit__(kind, error, trace)

    def facts(self) -> dict[str, Any]:
        files = sorted(self.folder.glob("*.pt.trace.json.gz")) if self.folder.is_dir() else []
        return {"trace_path": str(files[-1])} if files else {}


def trace_folder(log_folder: str, run_id: int, label: str) -> Path:
    """A sub-folder of its own for a run; TensorBoard shows its name as the run's."""
    when = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    return Path(log_folder) / re.sub(r"[^\w.-]+", "-", f"run{run_id}-{label}-{when}")
