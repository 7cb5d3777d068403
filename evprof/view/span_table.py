"""Spans of one kind as a timeline shows them: rows in order of start."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from evprof.core.rows import span_columns
from evprof.core.rows.span_columns import SpanColumns
from evprof.view.decimate import Bars, merged_bars
from evprof.view.timescale import Timescale

Ints: TypeAlias = "npt.NDArray[np.int64]"

RUNNING, PROVISIONAL, SETTLED = span_columns.RUNNING, span_columns.ENDED, span_columns.SETTLED
"""States of a bar: begun; ended on the host's clock; device times known."""


class SpanRow(NamedTuple):
    """Spans in order of start. The end of a running span is its `now`.

    `names` and `stages` are codes into the table's `names`: the span's own name and that of the stage it belongs to.
    """

    starts: Ints
    ends: Ints
    ids: Ints
    names: Ints
    stages: Ints
    states: Ints


class SpanTable:
    """The spans of one kind that are known so far, in order of start; equal starts in order of their first record."""

    def __init__(self) -> None:
        self._spans: SpanColumns | None = None
        self._places: Ints = np.empty(0, dtype=np.int64)
        """Places in the run's span columns, in order of start."""

        self._stages: Ints = self._places
        self._shown: tuple[object, SpanRow] | None = None
        self.has_running = False
        """Whether a span has begun and not ended."""

    def __len__(self) -> int:
        return len(self._places)

    @property
    def names(self) -> list[str]:
        """Names of spans and stages by code; the list grows."""
        return self._spans.name_words if self._spans is not None else []

    def put(self, spans: SpanColumns, places: Ints, stages: Ints) -> None:
        """Takes in new and changed spans at `places` (each once), with the codes of their stages."""
        if not len(places):
            return
        self._spans, self._shown = spans, None
        known = np.zeros(len(spans), dtype=bool)
        known[self._places] = True
        is_new = ~known[places]
        held = np.zeros(len(spans), dtype=np.int64)
        held[self._places] = self._stages
        held[places] = stages
        self._places = np.concatenate([self._places, places[is_new]])
        starts = spans.starts[self._places]
        steps, is_later = np.diff(starts), np.diff(self._places) > 0
        if ((steps < 0) | ((steps == 0) & ~is_later)).any():
            self._places = self._places[np.lexsort((self._places, starts))]
        self._stages = held[self._places]
        self.has_running = bool((spans.states[self._places] == RUNNING).any())

    def rows(self, zero_ns: int, now_ns: int) -> SpanRow:
        """The spans relative to `zero_ns`; running ones reach to `now_ns` (absolute)."""
        key = (zero_ns, now_ns if self.has_running else None)
        if self._shown is None or self._shown[0] != key:
            self._shown = key, self._row(zero_ns, now_ns)
        return self._shown[1]

    def _row(self, zero_ns: int, now_ns: int) -> SpanRow:
        spans, at = self._spans, self._places
        if spans is None:
            return SpanRow(at, at, at, at, at, at)
        states, starts = spans.states[at], spans.starts[at] - zero_ns
        ends = np.where(states == RUNNING, now_ns, spans.ends[at]) - zero_ns
        return SpanRow(starts, np.maximum(ends, starts), spans.ids[at], spans.names[at], self._stages, states)

    def bars(self, zero_ns: int, now_ns: int, scale: Timescale) -> Bars:
        """The same as bars on a scale, see `merged_bars`."""
        row = self.rows(zero_ns, now_ns)
        return merged_bars(row.starts, row.ends, scale)
