"""How often a difference is called between two sides that are the same: the bundled pair against itself, in turns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from evprof.cli.run.recorded_session import make_engine
from evprof.core.errors import Cancelled
from evprof.core.protocols import Engine, StopFlag
from evprof.core.request import RunRequest
from evprof.core.run_log import RunLog
from evprof.metrics.estimates.estimates import Verdict, marked, verdict
from evprof.metrics.estimates.observations import observe
from evprof.metrics.figures.stages import wall_ms
from evprof.run.processes.runner import finished_run
from evprof.run.requests import demo_requests
from evprof.run.turns import TurnSchedule

TURNS = range(5, 11)


def measure_same_twice(comparisons: int, note: Callable[[str], None], stop: StopFlag) -> dict[str, Any]:
    """Environment, a row for each comparison of whole runs of 5 to 10 turns, and how many were called, alone and as
    rows of one table."""
    engine, (pair, drafted) = make_engine(), demo_requests()
    requests = [replace(request, warmup=0, keeps_frames=False) for request in (pair, drafted)]
    requests = [replace(requests[0], mode="draft"), replace(requests[0], mode="target"), requests[1]]
    rows: list[dict[str, Any]] = []
    verdicts: list[Verdict | None] = []
    environment: dict[str, Any] = {}
    try:
        for request in requests:
            environment = finished_run(engine, request, stop).info.environment
        for number in range(comparisons):
            request, turns = requests[number % len(requests)], TURNS[number % len(TURNS)]
            verdicts.append(_compared(engine, request, turns, stop))
            rows.append({"mode": request.mode, "turns": turns} | _told(verdicts[-1]))
            note(f"{number + 1} of {comparisons}: {rows[-1]}")
    except Cancelled:
        note("stopped; the comparisons so far are kept")
    finally:
        engine.close()
    counts = {"called": sum(row["called"] for row in rows), "marked": sum(marked(verdicts))}
    return {"environment": environment, "rows": rows, "summary": {"comparisons": len(rows), **counts}}


def _compared(engine: Engine, request: RunRequest, turns: int, stop: StopFlag) -> Verdict | None:
    schedule = TurnSchedule()
    sides: tuple[list[RunLog], list[RunLog]] = ([], [])
    for _ in range(turns):
        for turn, side in schedule.draw((0, 1)):
            sides[side].append(finished_run(engine, replace(request, turn=turn), stop))
    return verdict(*(observe(runs, wall_ms) for runs in sides))


def _told(found: Verdict | None) -> dict[str, Any]:
    low, high = (found and found.interval) or (None, None)
    return {"ratio": found and found.ratio, "low": low, "high": high, "called": bool(found and found.is_clear)}
