"""The same request in several fresh engine processes: how much they differ, and how much the runs of one do."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from evprof.core.errors import UsageError, UserError
from evprof.core.recording import RecordLog
from evprof.core.request import RunRequest
from evprof.core.run_info import CANCELLED, FINISHED
from evprof.core.run_log import RunBook, RunLog
from evprof.metrics.configurations.baselines import engine_session
from evprof.metrics.figures.stages import wall_ms
from evprof.run.processes.runner import ProcessRunner


@dataclass(frozen=True)
class RepeatabilityPlan:
    """`request` is measured `repeat` times in each of so many processes, after a warm-up in each.

    `argv` starts an engine process; they follow one another.
    """

    request: RunRequest
    argv: Sequence[str]
    processes: int = 5
    repeat: int = 5

    def validate(self) -> None:
        """Raises UserError (exit code 2) for numbers that mean nothing."""
        if self.processes < 2 or self.repeat < 1:
            raise UsageError("--processes must be at least 2 and --repeat at least 1.")


def measure_repeatability(plan: RepeatabilityPlan, note: Callable[[str], None]) -> dict[str, Any]:
    """Environment, a row per process and the summary.

    Ctrl-C stops it and keeps the runs so far. Raises UserError when a run fails.
    """
    plan.validate()
    processes: list[list[RunLog]] = []
    is_complete = True
    for number in range(plan.processes):
        note(f"process {number + 1} of {plan.processes}")
        runs, is_complete = _measured(plan)
        processes += [runs] if runs else []
        if not is_complete:
            break
    if not processes:
        raise UserError("The measurement was stopped before its first run had ended.")
    found = components(map(_totals_ms, processes))
    environment = processes[0][0].info.environment
    return {
        "environment": {key: value for key, value in environment.items() if key != "engine_session"},
        "rows": [_row(runs) for runs in processes],
        "summary": {
            "between_processes_pct": _percent(None if found is None else found.between),
            "within_process_pct": _percent(None if found is None else found.within),
            "is_complete": is_complete,
        },
    }


def _measured(plan: RepeatabilityPlan) -> tuple[list[RunLog], bool]:
    """The finished runs of one process, and whether it was not stopped."""
    recording = RecordLog()
    runner = ProcessRunner(plan.argv, recording)
    try:
        runner.run(replace(plan.request, warmup=1, repeat=plan.repeat, first_run_id=1))
        is_whole = not runner.is_stopping
    finally:
        runner.close()
    book = RunBook(recording)
    book.update()
    for run in book.runs.values():
        if run.info.status not in (FINISHED, CANCELLED):
            raise UserError(run.info.error or "A run failed for no reason that was given.")
    runs = [run for run in book.runs.values() if run.info.status == FINISHED and not run.info.warmup]
    return [run for run in runs if wall_ms(run) is not None], is_whole


def _totals_ms(runs: Sequence[RunLog]) -> list[float]:
    return [total for run in runs if (total := wall_ms(run)) is not None]


def _row(runs: Sequence[RunLog]) -> dict[str, Any]:
    own = components([_totals_ms(runs)])
    return {
        "engine_session": engine_session(runs[0].info),
        "runs": len(runs),
        "mean_ms": None if own is None else own.mean,
        "sd_pct": _percent(None if own is None else own.within),
    }


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share


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
