"""The same request in several fresh engine processes: how much they differ, and how much the runs of one do."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Any

from evprof.core.errors import UsageError, UserError
from evprof.core.recording import RecordLog
from evprof.core.request import RunRequest
from evprof.core.run_book import RunBook
from evprof.core.run_info import CANCELLED, FINISHED
from evprof.core.run_log import RunLog
from evprof.metrics.configurations.baselines import engine_session
from evprof.metrics.figures.stages import wall_ms
from evprof.run.processes.runner import ProcessRunner


@dataclass(frozen=True)
class RepeatabilityPlan:
    """`request` is measured `repeat` times in each of so many processes, after a warm-up in each.

    `argv` starts an engine process. `in_turn`: all processes stay alive and take turns; else one after the other.
    """

    request: RunRequest
    argv: Sequence[str]
    sessions: int = 5
    repeat: int = 5
    in_turn: bool = True

    def validate(self) -> None:
        """Raises UserError (exit code 2) for numbers that mean nothing."""
        if self.sessions < 2 or self.repeat < 1:
            raise UsageError("--sessions must be at least 2 and --repeat at least 1.")


def measure_repeatability(plan: RepeatabilityPlan, note: Callable[[str], None]) -> dict[str, Any]:
    """Environment, a row per process and the summary.

    Ctrl-C stops it and keeps the runs so far. Raises UserError when a run fails.
    """
    plan.validate()
    with ExitStack() as stack:
        processes = [_Process(plan) for _ in range(plan.sessions)]
        for process in processes:
            stack.callback(process.close)
        is_complete = (_take_turns if plan.in_turn else _one_by_one)(processes, plan, note)
    measured = [process for process in processes if process.totals_ms]
    if not measured:
        raise UserError("The measurement was stopped before its first run had ended.")
    found = components(process.totals_ms for process in measured)
    info = measured[0].runs[0].info
    return {
        "environment": {key: value for key, value in info.environment.items() if key != "engine_session"},
        "rows": [process.row() for process in measured],
        "summary": _summary(found, is_complete=is_complete),
    }


def _take_turns(processes: Sequence[_Process], plan: RepeatabilityPlan, note: Callable[[str], None]) -> bool:
    for repeat in range(plan.repeat):
        note(f"round {repeat + 1} of {plan.repeat}")
        # Every other round backwards: no process always comes first.
        for process in processes if repeat % 2 == 0 else reversed(processes):
            if not process.measure(1, warmup=int(repeat == 0)):
                return False
    return True


def _one_by_one(processes: Sequence[_Process], plan: RepeatabilityPlan, note: Callable[[str], None]) -> bool:
    for number, process in enumerate(processes):
        note(f"session {number + 1} of {plan.sessions}")
        if not process.measure(plan.repeat, warmup=1):
            return False
        process.close()
    return True


@dataclass
class _Process:
    plan: RepeatabilityPlan
    runs: list[RunLog] = field(default_factory=list)
    totals_ms: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        recording = RecordLog()
        self._book = RunBook(recording)
        self._runner = ProcessRunner(self.plan.argv, recording)

    def measure(self, repeat: int, warmup: int) -> bool:
        before = set(self._book.runs)
        first = max(before, default=0) + 1
        self._runner.run(replace(self.plan.request, warmup=warmup, repeat=repeat, first_run_id=first))
        self._book.update()
        for run in (run for run_id, run in self._book.runs.items() if run_id not in before):
            if run.info.status not in (FINISHED, CANCELLED):
                raise UserError(run.info.error or "A run failed for no reason that was given.")
            total = wall_ms(run)
            if run.info.status == FINISHED and not run.info.warmup and total is not None:
                self.runs.append(run)
                self.totals_ms.append(total)
        return not self._runner.is_stopping

    def row(self) -> dict[str, Any]:
        own = components([self.totals_ms])
        return {
            "engine_session": engine_session(self.runs[0].info),
            "runs": len(self.runs),
            "mean_ms": None if own is None else own.mean,
            "sd_pct": None if own is None or own.within is None else 100 * own.within,
        }

    def close(self) -> None:
        self._runner.close()


def _summary(found: Components | None, *, is_complete: bool) -> dict[str, Any]:
    between, within = (None, None) if found is None else (found.between, found.within)
    return {
        "between_processes_pct": None if between is None else 100 * between,
        "within_process_pct": None if within is None else 100 * within,
        "is_complete": is_complete,
    }


@dataclass(frozen=True)
class Components:
    """Standard deviations of process levels, and of runs around the level of theirs, as parts of the mean.

    None where there are too few: two processes, and two runs of one.
    """

    mean: float
    between: float | None
    within: float | None


def components(groups: Iterable[Sequence[float]]) -> Components | None:
    """One-way analysis of variance with random effects over the values of each process (Searle, Casella & McCulloch,
    Variance Components, 1992, chapter 3); None over nothing, or where their mean is not positive."""
    listed = [list(group) for group in groups if group]
    everything = [value for group in listed for value in group]
    if not everything or (mean := fmean(everything)) <= 0:
        return None
    count, processes = len(everything), len(listed)
    spread = sum((value - fmean(group)) ** 2 for group in listed for value in group)
    within = spread / (count - processes) if count > processes else None
    between = None
    if processes > 1:
        square = sum(len(group) * (fmean(group) - mean) ** 2 for group in listed) / (processes - 1)
        typical = (count - sum(len(group) ** 2 for group in listed) / count) / (processes - 1)
        # Without repeats the two cannot be told apart, and all of it counts as between.
        between = math.sqrt(max(0.0, square - (within or 0.0)) / typical) / mean
    return Components(mean, between, None if within is None else math.sqrt(within) / mean)
