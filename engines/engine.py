"""The engine: takes requests, keeps models warm, and makes the runs of a mode one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from engines.fit.verdict import make_room
from engines.hardware.device import choose_device
from engines.hardware.environment import describe_environment
from engines.loading.warm_models import Loader, WarmModels
from engines.loading.weights import load_model
from engines.modes.measured_run import MeasuredRun, RunTools, way_of
from engines.modes.strategies import RunPlan
from evprof.core.errors import EngineLost
from evprof.core.protocols import RequestEnded, Sink, StopFlag
from evprof.core.request import RunRequest
from evprof.core.run_info import CANCELLED, FAILED
from evprof.core.vocabulary.modes import mode_of
from evprof.run.requests import run_order

TRACE, RANGES = "trace", "ranges"
"""Kinds of profiled runs: a torch trace, NVTX ranges."""


class LocalEngine:
    def __init__(
        self,
        *,
        loader: Loader = load_model,
        make_room: Callable[[RunRequest, tuple[str, ...], WarmModels], None] = make_room,
        import_ms: float | None = None,
    ) -> None:
        self._tools = RunTools(WarmModels(loader, import_ms), make_room)

    def describe(self) -> dict[str, Any]:
        return describe_environment()

    def run(self, request: RunRequest, sink: Sink, stop: StopFlag) -> None:
        """Carries out a request. Raises UserError for an invalid one, EngineLost after a run whose GPU failed."""
        request.validate(has_cuda=has_cuda(request))
        self._tools.warm.import_libraries()
        failed: set[str] = set()
        for plan in plan_runs(request, lambda role: self._is_warm(request, role)):
            if plan.role in failed:
                continue  # the same again would fail the same way
            run = MeasuredRun(request, plan, self._tools_for(request, plan), sink, stop=stop)
            status = run.perform()
            if run.lost_gpu is not None:
                raise EngineLost(run.lost_gpu)
            if status == CANCELLED:
                break
            if status == FAILED:
                failed.add(plan.role)
        sink.post(RequestEnded(request.first_run_id))

    def _is_warm(self, request: RunRequest, answering: str) -> bool:
        """Whether every model that a run of this role takes is loaded and, on a GPU, was run like this before."""
        roles = request.roles if mode_of(request.mode).is_paired else (answering,)
        choices = ((request.choice_of(role), role) for role in roles)
        way, warm = way_of(request.mode, answering, request.settings), self._tools.warm
        return all(choice is None or warm.is_warm_for(choice, role, way) for choice, role in choices)

    def _tools_for(self, request: RunRequest, plan: RunPlan) -> RunTools:
        if plan.extra == TRACE and request.trace is not None:
            from engines.measuring.profiling import TorchTrace, trace_folder

            trace = TorchTrace(trace_folder(request.trace.folder, plan.run_id, f"{request.mode}-{plan.role}"))
            return replace(self._tools, make_clock=trace.make_clock, wrap=trace, end_facts=trace.facts)
        if plan.extra == RANGES:
            from engines.measuring.profiling import RangedClock

            return replace(self._tools, make_clock=RangedClock)
        return self._tools

    def close(self) -> None:
        self._tools.draft_worker.shutdown()
        self._tools.warm.clear()
        self._tools.pools.clear()


def plan_runs(request: RunRequest, is_warm: Callable[[str], bool]) -> Iterator[RunPlan]:
    run_id = request.first_run_id
    for role, repeat, turn in run_order(request, is_warm):
        number = repeat if repeat < 0 else request.first_repeat + repeat
        yield RunPlan(run_id, role, number, request.settings, turn=turn)
        run_id += 1
    extras = {RANGES: request.settings} if request.nvtx else {}
    if request.trace is not None:
        # Decode covers tokens 2…n: so many decode steps are one token more.
        count = min(request.settings.max_new_tokens, request.trace.tokens + 1)
        extras[TRACE] = replace(request.settings, max_new_tokens=count)
    for extra, settings in extras.items():
        for role in mode_of(request.mode).answering:
            yield RunPlan(run_id, role, 0, settings, extra)
            run_id += 1


def has_cuda(request: RunRequest) -> bool:
    devices = {choice.device for choice in map(request.choice_of, request.roles) if choice is not None}
    is_named = any(device.startswith("cuda") for device in devices)
    return is_named or ("auto" in devices and choose_device("auto").type == "cuda")
