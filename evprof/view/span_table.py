"""Spans of one kind as a timeline shows them: rows in order of start, kept up by what is new or has changed."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from evprof.core.rows import span_columns
from evprof.core.rows.span_columns import IntTable, SpanColumns
from evprof.view.decimate import Bars, merged_bars
from evprof.view.growing import Growing, as_slice, together
from evprof.view.painted_row import Colors, PaintedRow
from evprof.view.timescale import Timescale

Ints: TypeAlias = "npt.NDArray[np.int64]"

RUNNING, PROVISIONAL, SETTLED = span_columns.RUNNING, span_columns.ENDED, span_columns.SETTLED
"""States of a bar: begun; ended on the host's clock; device times known."""


class SpanRow(NamedTuple):
    """Spans of one row of a lane, in order of start and without overlap. `ends` of running ones is their `now`.

    `names` and `stages` are codes into the table's `names`: the span's own name and that of the stage it belongs to.
    """

    starts: Ints
    ends: Ints
    ids: Ints
    names: Ints
    stages: Ints
    states: Ints


class SpanTable:
    """Spans of one kind, as they are known so far, in order of start (of equal ones, of their first record).

    What it costs to take spans in is a matter of how many these are, and of how far one lies from where it belongs.
    """

    _START, _END, _ID, _NAME, _STAGE, _STATE, _PLACE = range(7)

    def __init__(self) -> None:
        self._table = IntTable(7)
        self._row_of = _Places()
        self.names: list[str] = []
        """Names of spans and stages by code; grows."""

        self._running: Ints = np.empty(0, dtype=np.int64)
        self._news: list[Ints] = []
        """Rows that are not yet shown as they are."""

        self._zero_ns: int | None = None
        self._shown: tuple[object, SpanRow] | None = None
        self._starts, self._ends = Growing(np.int64), Growing(np.int64)
        """When each row is shown to begin and to end."""

        self._painted = PaintedRow()
        self._look: Hashable = None
        self._unpainted = 0
        """From this row on the colours are not up to date."""

    def __len__(self) -> int:
        return len(self._table)

    @property
    def has_running(self) -> bool:
        """Whether a span has begun and not ended."""
        return bool(len(self._running))

    def put(self, spans: SpanColumns, places: Ints, stages: Ints) -> None:
        """Takes in spans of a run, at `places` (each once), of the stages with the codes `stages`."""
        if not len(places):
            return
        self.names = spans.name_words
        rows = self._row_of.of(places, len(spans))
        is_new = rows < 0
        new, count = places[is_new], len(self._table)
        told = spans.starts, spans.ends, spans.ids, spans.names, stages, spans.states
        if not is_new.all():
            old, at = as_slice(rows[~is_new]), as_slice(places[~is_new])
            for index, column in enumerate(told):
                self._table.column(index)[old] = column[~is_new] if column is stages else column[at]
        if len(new):
            rows[is_new] = count + np.arange(len(new))
            self._row_of.put(new, rows[is_new])
            at = as_slice(new)
            self._table.append((*(column[is_new] if column is stages else column[at] for column in told), new))
        rows = np.sort(rows)
        changed = self._put_in_order(rows)
        self._note_running(changed)
        self._news.append(changed)
        self._shown = None

    def _put_in_order(self, rows: Ints) -> Ints:
        """Moves rows that were put to where they belong -> those whose content is another now."""
        beside = together([np.maximum(rows - 1, 0), np.minimum(rows, max(0, len(self._table) - 2))])
        beside = beside[beside < len(self._table) - 1]
        starts, places = self._table.column(self._START), self._table.column(self._PLACE)
        one, other = as_slice(beside), as_slice(beside + 1)
        is_wrong = (starts[one] > starts[other]) | ((starts[one] == starts[other]) & (places[one] > places[other]))
        wrong = beside[is_wrong]
        if not len(wrong):
            return rows
        # Before the first and after the last of them all is in order.
        first, last = int(wrong[0]), int(wrong[-1]) + 2
        mixed = starts[first:last]
        low = int(starts[:first].searchsorted(mixed.min()))
        high = last + int(starts[last:].searchsorted(mixed.max(), side="right"))
        order = low + np.lexsort((places[low:high], starts[low:high]))
        for index in range(7):
            self._table.column(index)[low:high] = self._table.column(index)[order]
        moved = np.arange(low, high)
        self._row_of.put(places[low:high], moved)
        return together([rows, moved])

    def _note_running(self, changed: Ints) -> None:
        is_running = self._table.column(self._STATE)[as_slice(changed)] == RUNNING
        known = self._running
        at = np.minimum(changed.searchsorted(known), len(changed) - 1)
        self._running = np.sort(np.concatenate([known[changed[at] != known], changed[is_running]]))

    def rows(self, zero_ns: int, now_ns: int) -> SpanRow:
        """The spans relative to `zero_ns`, running ones reaching to `now_ns` (absolute). Seen as it is now: what is
        taken in later may change it."""
        key = (zero_ns, now_ns if self.has_running else None)
        if self._shown is None or self._shown[0] != key:
            self._take_in(zero_ns, now_ns)
            ids, names, stages, states = (self._table.column(index) for index in range(2, 6))
            self._shown = key, SpanRow(self._starts.view, self._ends.view, ids, names, stages, states)
        return self._shown[1]

    def bars(self, zero_ns: int, now_ns: int, scale: Timescale) -> Bars:
        """The same as bars on a scale, see `merged_bars`."""
        row = self.rows(zero_ns, now_ns)
        return merged_bars(row.starts, row.ends, scale)

    def painted(self, zero_ns: int, now_ns: int, look: Hashable, colors: Callable[[Ints, Ints], Colors]) -> PaintedRow:
        """The same in colours: `colors` gives those of rows by their names and stages, and is another one only if
        `look` is."""
        row = self.rows(zero_ns, now_ns)
        first = self._unpainted if look == self._look else 0
        if first < len(row.starts):
            self._painted.update(row.starts, row.ends, colors(row.names[first:], row.stages[first:]), first)
        self._look, self._unpainted = look, len(row.starts)
        return self._painted

    def _take_in(self, zero_ns: int, now_ns: int) -> None:
        """Shows what is new, and running spans as long as they are now."""
        count = len(self._table)
        if zero_ns != self._zero_ns:
            self._zero_ns, self._news = zero_ns, [np.arange(count)]
        rows = together([*self._news, self._running])
        self._news = []
        if not len(rows):
            return
        at = as_slice(rows)
        begins = self._table.column(self._START)[at] - zero_ns
        stops = self._table.column(self._END)[at] - zero_ns
        stops[self._table.column(self._STATE)[at] == RUNNING] = now_ns - zero_ns
        np.maximum(stops, begins, out=stops)
        self._starts.reach(count)[at], self._ends.reach(count)[at] = begins, stops
        self._unpainted = min(self._unpainted, int(rows[0]))


class _Places:
    """Where the rows of a growing table lie in another one, -1 where they do not."""

    def __init__(self) -> None:
        self._places: Ints = np.empty(0, dtype=np.int64)

    def of(self, rows: Ints, count: int) -> Ints:
        """The places of rows of a table of `count`."""
        if count > len(self._places):
            more = np.full(max(count, 2 * len(self._places)) - len(self._places), -1, dtype=np.int64)
            self._places = np.concatenate([self._places, more])
        return self._places[rows]

    def put(self, rows: Ints, places: Ints) -> None:
        """Notes where rows lie that were asked for."""
        self._places[rows] = places
