"""What a figure of one run is compared by: its value, its sample and scene, and where and when it was measured."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable
from datetime import datetime
from pathlib import PurePath
from typing import NamedTuple

from evprof.core.run_log import RunLog
from evprof.metrics.configurations.baselines import engine_session
from evprof.metrics.configurations.gathering import machine_of, sample_key
from evprof.metrics.figures.stages import Rate

IMPORTED = "imported"
"""Stands for the engine process of imported runs."""

Read = Callable[[RunLog], float | None]


class Observation(NamedTuple):
    """One value of the run with this number: of which `sample` and `scene`, in which engine process on which `machine`,
    when in seconds, in which `turn`, on which `mode`. `weight` is the divisor of a rate.

    A value that no process and no time decides has no `process` and begins at 0.
    """

    value: float
    sample: Hashable = ""
    scene: Hashable = ""
    process: str = ""
    began_s: float = 0.0
    machine: str = ""
    turn: Hashable = None
    run: int = 0
    mode: str = ""
    weight: float = 1.0


def observe(runs: Iterable[RunLog], read: Read, file: str = "") -> list[Observation]:
    """The figure of every run that has it. `file` stands for the engine process of runs that do not name theirs."""
    return [
        facts_of(run, file)._replace(value=value, weight=(read.over(run) if isinstance(read, Rate) else None) or 1.0)
        for run in runs
        if (value := read(run)) is not None
    ]


def facts_of(run: RunLog, file: str = "") -> Observation:
    """An observation of a run without its value. All imported runs count as one process."""
    info, is_imported = run.info, run.info.imported is not None
    return Observation(
        math.nan,
        question_of(run),
        scene_of(run),
        IMPORTED if is_imported else engine_session(info) or file,
        0.0 if is_imported else _began_s(run),
        machine_of(info),
        None if info.turn is None else (info.turn.series, info.turn.number),
        run.run_id,
        info.mode,
    )


def question_of(run: RunLog) -> Hashable:
    """What distinguishes samples: name and prompt, and without a name the recording."""
    return sample_key(run) if run.info.sample.name else (scene_of(run), sample_key(run))


def scene_of(run: RunLog) -> Hashable:
    """The recording of a run; pictures of one folder are one recording."""
    sample = run.info.sample
    path = sample.events_path or sample.video_path
    if path and run.info.imported is None:
        return str(PurePath(path).parent) if "*" in PurePath(path).name else path
    return sample.name or sample_key(run)


def _began_s(run: RunLog) -> float:
    if run.info.start_ns is not None:
        return run.info.start_ns / 1e9
    try:
        return datetime.fromisoformat(run.info.started_at).timestamp()
    except (ValueError, OverflowError, OSError):
        return 0.0
