"""Whether values from a file are what evprof writes: run infos of the declared types, rows within bounds.

No reader may have to count to 10⁹, or to follow spans a hundred deep, because a file says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from evprof.core.plain import UnfitError, fits, hints_of
from evprof.core.recording import RecordLog
from evprof.core.records import DRAFT, TARGET, column_kinds
from evprof.core.rows.blocks import Ints, distinct
from evprof.core.run_info import CANCELLED, FAILED, FINISHED, RUNNING, RunInfo
from evprof.core.run_log import RunLog

_LENIENT = ("settings", "sample")
"""Fields that are read as far as they fit."""


def run_info_from(values: object) -> RunInfo | None:
    try:
        info = RunInfo.from_json(values) if isinstance(values, dict) else None
    except UnfitError:
        return None
    return info if info is not None and is_known_run(info) else None


def is_known_run(info: RunInfo) -> bool:
    return info.role in (DRAFT, TARGET) and info.status in (RUNNING, FINISHED, CANCELLED, FAILED)


def fitting(info: RunInfo) -> tuple[dict[str, Any], list[str]]:
    """The plain values of `info` as a reader accepts them, and the names of fields that had to be left out.

    A fact of a wrong type is a defect of whoever reported it; it costs that fact, not the session.
    """
    values, hints = info.to_json(), hints_of(RunInfo)
    wrong = [name for name, value in values.items() if name not in _LENIENT and not fits(value, hints[name])]
    return {name: value for name, value in values.items() if name not in wrong}, wrong


def readable(info: RunInfo) -> RunInfo | None:
    found = run_info_from(fitting(info)[0])
    if found is not None:
        found.sample = info.sample
    return found


_MOST_TOKENS = 1_000_000
"""Of a prompt or an answer: the longest context there is holds as many."""

_MOST_DRAFTED = 10_000
"""Tokens of one round."""

_MOST_BYTES = 1 << 60
_LAST_NS = 1 << 62
"""146 years: clocks count from the start of a machine or from 1970."""

_TOKENS = (-1, _MOST_TOKENS)
_OF_ROUND = (0, _MOST_DRAFTED)
_TIME = (-1, _LAST_NS)
_LENGTH = (-_LAST_NS, _LAST_NS)
_BYTES = (-1, _MOST_BYTES)

RANGES: dict[str, dict[str, tuple[int, int]]] = {
    "spans": {"start_ns": _LENGTH, "end_ns": _LENGTH, "phase": (0, 2)},
    "tensors": {"nbytes": _BYTES},
    "tokens": {"position": _TOKENS, "round_index": _TOKENS, "t_ns": _TIME},
    "rounds": {
        "round_index": _TOKENS,
        "start_ns": _TIME,
        "draft_ns": _LENGTH,
        "verify_ns": _LENGTH,
        "rollback_ns": _LENGTH,
        "drafted": _OF_ROUND,
        "accepted": _OF_ROUND,
        "emitted": _OF_ROUND,
        "depth": (-1, _MOST_DRAFTED),
        "judged": (-1, _MOST_DRAFTED),
    },
    "judgements": {"round_index": _TOKENS, "place": _TOKENS, "position": _TOKENS},
    "alternatives": {"round_index": _TOKENS, "position": _TOKENS, "entropy_mbit": (0, 64_000)},
    "kv": {"t_ns": _TIME, "length": _TOKENS, "nbytes": _BYTES},
    "memory": {"t_ns": _TIME, "rss_bytes": _BYTES, "gpu_bytes": _BYTES},
    "power": {"t_ns": _TIME, "energy_uj": _TIME, "power_mw": _TIME},
    "frames": {"frame_index": _TOKENS, "start_us": _LENGTH, "end_us": _LENGTH},
}
"""Stream -> column -> what it may hold, both ends included; -1 is "not known". Other columns are never counted with."""

_LONGEST_TEXT = 4096
_LONGEST = {("rounds", "drafted_ids"): 20 * _MOST_DRAFTED, ("tensors", "shape"): 1000}
"""Characters of a column's texts; `_LONGEST_TEXT` where nothing else is said. A shape of 1000 has 50 dimensions."""

_MOST_LEVELS = 64
"""Of spans in one another; ours are five deep."""


def implausible(recording: RecordLog) -> str | None:
    """What no program of ours can have measured, in words; None where everything is within bounds."""
    return next(_wrong_rows(recording), None) or _wrong_tree(recording)


def has_impossible_numbers(run: RunLog) -> bool:
    """Whether a run that goes into a file holds numbers that no reader of it will take."""
    blocks = ((stream, block) for stream in RANGES for block in run.blocks(stream))
    return any(_impossible(stream, block.column) is not None for stream, block in blocks)


def _impossible(stream: str, column: Callable[[str], Ints]) -> tuple[str, int] | None:
    """A column of a stream and a number in it that is out of its range; None where all are within."""
    for name, (least, most) in RANGES[stream].items():
        values = column(name)
        if len(values) and (int(values.min()) < least or int(values.max()) > most):
            return name, int(values.max()) if int(values.max()) > most else int(values.min())
    return None


def _wrong_rows(recording: RecordLog) -> Iterator[str]:
    for stream, rows in recording.streams.items():
        if stream in RANGES and (found := _impossible(stream, rows.column)) is not None:
            yield f"{found[0]} among its {stream} is {found[1]}, which nothing measures"
        for name, kind in column_kinds(stream).items():
            most = _LONGEST.get((stream, name), _LONGEST_TEXT)
            if kind == "str" and max(map(len, rows.texts(name).words), default=0) > most:
                yield f"a {name} among its {stream} is longer than {most:,} letters"


def _wrong_tree(recording: RecordLog) -> str | None:
    """Spans in one another without end are told here; a parent that is not there is a reader's to pass over."""
    parents = _parent_places(*(recording.streams["spans"].column(name) for name in ("run_id", "span_id", "parent_id")))
    # Twice as far up each time: what has an ancestor that many levels up lies too deep, and a circle has it always.
    for _ in range(_MOST_LEVELS.bit_length() - 1):
        parents = np.where(parents < 0, -1, parents[parents])
    return f"its spans lie in one another more than {_MOST_LEVELS} deep" if bool((parents >= 0).any()) else None


def _parent_places(runs: Ints, spans: Ints, parents: Ints) -> Ints:
    """Of each record of a span, the place of its parent's last one; -1 where there is none. A span's last record says
    which span that is."""
    if not len(spans):
        return spans
    run_codes = distinct(runs).which
    ids = distinct(np.concatenate([spans, parents]))
    found = distinct(np.tile(run_codes, 2) * len(ids.values) + ids.which)
    own, above = np.split(found.which, 2)
    places = np.full(len(found.values), -1, dtype=np.int64)
    places[own] = np.arange(len(own))
    return np.asarray(places[above][places[own]])
