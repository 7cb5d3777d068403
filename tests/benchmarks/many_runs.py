"""Sessions of any number of runs, as a long suite leaves them, for measuring what opening and reading them takes.

Configurations × samples × repeats of two scripted runs, one plain and one with rounds of speculation, each at a pace of
its own. Written through the session's own writer, many runs a commit.
"""

from __future__ import annotations

import itertools
import math
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from evprof.core.recording import RecordLog
from evprof.core.records import TARGET, MemoryRecord, column_kinds
from evprof.core.request import RunRequest
from evprof.core.run_info import FAILED, FINISHED, LengthFacts, MemoryFacts, RunInfo
from evprof.core.run_log import RunBook
from evprof.core.sample import Sample
from evprof.core.vocabulary.generation import GenerationSettings, ModelChoice
from evprof.core.vocabulary.speculation import SpeculationSettings
from evprof.run.places.place import Arrival
from evprof.run.session_target import kept_figures, runs_of
from evprof.session.store import Commit, SessionFile
from scripted_engine import ScriptedEngine

CONFIGURATIONS, REPEATS = 50, 2
"""Of a session; its samples are as many as its runs need."""

_OF_COMMIT = 50
"""Runs written at once."""

_RUN_NS = 640_000_000
_TOKENS = 40
_SPECULATES = 5
"""Every so manieth configuration drafts."""

_MOMENTS = ("t_ns", "start_ns", "end_ns")


@dataclass(frozen=True)
class ManyRuns:
    """What a session holds: `runs` in all, in CONFIGURATIONS of as many samples as that takes."""

    runs: int
    configurations: int = CONFIGURATIONS
    repeats: int = REPEATS

    @property
    def samples(self) -> int:
        return max(1, math.ceil(self.runs / (self.configurations * self.repeats)))


class _Script:
    """A run that was played once, without its pictures, to be repeated at any time and pace."""

    def __init__(self, mode: str) -> None:
        played = RecordLog()
        settings = GenerationSettings(max_new_tokens=_TOKENS)
        request = RunRequest(mode, Sample("e.npy", "v.mp4"), ModelChoice("d"), ModelChoice("t"), settings)
        ScriptedEngine(speed=500.0, is_warm=True).run(request, played, threading.Event())
        book = RunBook(played)
        book.update()
        self.info = book.runs[1].info
        self._columns = {name: columns for name, columns in Arrival.of(played).streams.items() if name != "frames"}
        self._zero_ns = self.info.start_ns or 0
        self._pace = _RUN_NS / ((self.info.end_ns or 0) - self._zero_ns)

    def repeat_as(self, info: RunInfo, pace: float, recording: RecordLog) -> RunInfo:
        """Adds the run's rows under the number and at the time of `info`, which then says when it ended."""
        start_ns, pace = info.start_ns or 0, pace * self._pace
        for name, columns in self._columns.items():
            moved = [np.full_like(columns[0], info.run_id)]
            for column, values in itertools.islice(zip(column_kinds(name), columns, strict=True), 1, None):
                if column in _MOMENTS:
                    later = start_ns + ((values - self._zero_ns) * pace).astype(np.int64)
                    moved.append(np.where(values < 0, values, later))
                else:
                    moved.append((values * pace).astype(np.int64) if column.endswith("_ns") else values)
            recording.streams[name].extend_columns(moved)
        recording.append(MemoryRecord(info.run_id, start_ns, 6_000_000_000, 40_000_000_000))
        info.end_ns = start_ns + int(((self.info.end_ns or 0) - self._zero_ns) * pace)
        return info


def write_many_runs(path: Path, plan: ManyRuns, note: Callable[[str], object] = lambda _: None) -> None:
    """Writes the session. Raises UserError where it cannot be written."""
    chance, count = random.Random(20_260_601), 0
    scripts = {mode: _Script(mode) for mode in (TARGET, "speculative")}
    runs = _infos(plan, scripts)
    with closing(SessionFile(path)) as file:
        while listed := list(itertools.islice(runs, _OF_COMMIT)):
            recording = RecordLog()
            for info in listed:
                pace = (1 + 0.02 * (info.settings.frames or 1)) * chance.lognormvariate(0, 0.03)
                scripts[info.mode].repeat_as(info, pace, recording)
            file.commit(recording.streams, _commit(recording, listed))
            count += len(listed)
            if count % 10_000 == 0:
                note(f"{count:,} of {plan.runs:,} runs written")


def _commit(recording: RecordLog, infos: list[RunInfo]) -> Commit:
    ranges = {name: (0, len(stream)) for name, stream in recording.streams.items() if len(stream)}
    begun = frozenset(info.run_id for info in infos)
    return Commit(ranges, infos, begun, figures=kept_figures(runs_of(recording, infos)))


def _infos(plan: ManyRuns, scripts: dict[str, _Script]) -> Iterator[RunInfo]:
    """Every run as it ended, in the order of a suite: sample by sample, each configuration in turn."""
    began = datetime(2026, 6, 1, tzinfo=UTC)
    kinds = [_kind(place, scripts) for place in range(plan.configurations)]
    order = itertools.product(range(plan.repeats), range(plan.samples), kinds)
    for number, (repeat, sample, kind) in enumerate(itertools.islice(order, plan.runs), start=1):
        scene, clip = divmod(sample, 4)
        has_failed = number % 997 == 0
        yield replace(
            kind,
            run_id=number,
            group_id=number,
            repeat=repeat,
            sample=Sample(
                events_path=f"/data/scenes/{scene:04}/events.h5",
                video_path=f"/data/scenes/{scene:04}/video.mp4",
                start_us=clip * 500_000,
                duration_us=500_000,
                prompt="What are the key elements in this scene?",
                events_hash=f"blake2b:{scene:032x}",
                video_hash=f"blake2b:{scene:032x}",
                name=f"scene {scene:04} clip {clip}",
            ),
            started_at=(began + timedelta(seconds=0.8 * number)).isoformat(timespec="milliseconds"),
            start_ns=number * 700_000_000,
            status=FAILED if has_failed else FINISHED,
            error="The device ran out of memory in stage prefill." if has_failed else None,
            warnings=[],
            environment={**_ENVIRONMENT, "engine_session": f"{number // 2000:08x}"},
            memory=MemoryFacts(28_253_709_088, 31_000_000_000 + number, None, 6_100_000_000 + number),
        )


def _kind(place: int, scripts: dict[str, _Script]) -> RunInfo:
    """The facts that all runs of a configuration share."""
    drafts = place % _SPECULATES == _SPECULATES - 1
    script = scripts["speculative" if drafts else TARGET]
    frames, gamma = 1 + place // 2 % 16, 3 + place % 4
    visual = 257 * frames
    return replace(
        script.info,
        settings=GenerationSettings(
            max_new_tokens=_TOKENS, frames=frames, speculation=SpeculationSettings(gamma=gamma)
        ),
        cell=f"{frames} frames, {f'γ {gamma}' if drafts else 'plain'}, variant {place}",
        lengths={role: LengthFacts(visual + 30, 1, 29, visual, [257] * frames) for role in script.info.models},
    )


_ENVIRONMENT: dict[str, Any] = {
    "evprof": "0.2.0",
    "device": "NVIDIA H100 80GB HBM3",
    "processor": "Intel Xeon Platinum 8480+",
    "torch": "2.13.0+cu128",
    "transformers": "5.23.0",
    "python": "3.11.7",
    "system": "Linux 6.8.0 x86_64",
    "threads": 8,
    "gpu_id": "GPU-5f5c2d1e",
    "compute_capability": "9.0",
}
