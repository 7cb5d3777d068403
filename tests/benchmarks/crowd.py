"""A recording as large as a timeline ever gets, for the benchmarks: made, not measured."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np

from benchmarks.synthetic_engine import SyntheticEngine
from evprof.core.protocols import RunEnded, RunStarted, monotonic_ns
from evprof.core.recording import RecordLog, Texts
from evprof.core.records import (
    BEGIN,
    DRAFT,
    END,
    ORIGIN_TARGET,
    SETTLED,
    STAGES,
    TARGET,
)
from evprof.core.request import RunRequest
from evprof.core.run_info import FINISHED, RunInfo
from evprof.core.sample import Sample
from evprof.core.vocabulary.generation import ModelChoice
from evprof.run.session_writer import SessionWriter

SPANS = 1_000_000
COUNTERS = 300_000
TOKENS = 2_000
"""Of each of two runs."""

RECORDS = 1_000_000
"""Of the session that is opened."""

_AT_ONCE = 1e9
"""Records a second: all are due at once."""

_STEP_NS = 200_000
_PARTS = ("attention", "feed forward", "head")


def crowded_recording(spans: int = SPANS, counters: int = COUNTERS) -> RecordLog:
    """Two runs side by side with half of the spans and counter points each: cache lengths, and samples of memory. The
    second still goes on, and all of it has happened until now."""
    recording, length_ns = RecordLog(), spans // 2 * _STEP_NS // len(_PARTS)
    start_ns = monotonic_ns() - length_ns
    for run_id, role in ((1, DRAFT), (2, TARGET)):
        recording.post(RunStarted(run_id, RunInfo(run_id, 1, 0, role, "side-by-side", start_ns=start_ns)))
        end_ns = _fill(recording, (run_id, role), spans // 2, counters // 2, start_ns)
        if run_id == 1:
            recording.post(RunEnded(run_id, FINISHED, facts={"end_ns": end_ns, "text": None}))
    return recording


def write_session(path: Path, records: int = RECORDS) -> None:
    """A session as the window leaves it after so many records of one run."""
    log = RecordLog()
    request = RunRequest("target", Sample(video_path="synthetic"), None, ModelChoice("synthetic"))
    with SessionWriter(log, path):
        SyntheticEngine(_AT_ONCE, records / _AT_ONCE).run(request, log, threading.Event())


def _fill(recording: RecordLog, run: tuple[int, str], spans: int, counters: int, start_ns: int) -> int:
    """Rows of a run that began then; when it ends."""
    run_id, role = run
    parts, random = spans - len(STAGES), np.random.default_rng(run_id)
    starts = np.arange(parts, dtype=np.int64) * _STEP_NS // len(_PARTS)
    lengths = random.integers(5_000, _STEP_NS // len(_PARTS), parts)
    end_ns = int(starts[-1] + lengths[-1]) + 1
    edges = np.linspace(0, end_ns, len(STAGES) + 1).astype(np.int64)
    edges[1:-1] = np.linspace(0, end_ns // 10, len(STAGES))[1:].astype(np.int64)
    parents = np.searchsorted(edges, starts, side="right") - 1
    words = [role, *STAGES, *_PARTS]
    ids = np.arange(parts + len(STAGES), dtype=np.int64)
    told = (
        np.concatenate([np.full(len(STAGES), -1), parents]),
        np.concatenate([np.arange(len(STAGES)) + 1, np.arange(parts) % len(_PARTS) + 1 + len(STAGES)]),
        np.concatenate([edges[:-1], starts]) + start_ns,
        np.concatenate([edges[1:], starts + lengths]) + start_ns,
    )
    for phase in (BEGIN, END, SETTLED):
        parent_ids, names, begins, ends = told
        recording.streams["spans"].extend_columns(
            (
                np.full(len(ids), run_id),
                *(ids, parent_ids, np.full(len(ids), phase)),
                *(Texts(np.zeros(len(ids), dtype=np.int64), words), Texts(names, words)),
                *(begins, ends if phase != BEGIN else np.full(len(ids), -1)),
            )
        )
    moments = start_ns + np.linspace(edges[-2], end_ns, TOKENS).astype(np.int64)
    recording.extend(
        "tokens",
        [(run_id, role, place, 5, ORIGIN_TARGET, -1, t_ns, " token") for place, t_ns in enumerate(moments.tolist())],
    )
    points = counters // 2
    times = start_ns + np.linspace(0, end_ns, points).astype(np.int64)
    recording.streams["kv"].extend_columns(
        (
            np.full(points, run_id),
            Texts(np.zeros(points, dtype=np.int64), [role]),
            *(times, np.arange(points), np.cumsum(random.integers(-400, 500, points)) + 4_000_000),
        )
    )
    rss = 1 << 30
    recording.streams["memory"].extend_columns(
        (np.full(points, run_id), times, rss + random.integers(0, rss // 4, points), np.full(points, -1))
    )
    return start_ns + end_ns
