"""The rows of the timeline's lanes, updated from the new rows of a growing run.

A track is one model of one run. Times inside are absolute ns of the clock; `zero_ns` makes them relative, because the
run's zero may become known after its first rows. Run B can be moved by `shift_ns` on the axis of run A; the moments
that a track returns are those of the axis.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from evprof.core.records import (
    ORIGIN_ACCEPTED,
    ORIGIN_BONUS,
    ORIGIN_DRAFT,
    ORIGIN_REJECTED,
    ORIGIN_TARGET,
    PowerRecord,
)
from evprof.core.rows import spans
from evprof.core.rows.blocks import RowBlock, distinct
from evprof.core.rows.spans import IntTable, SpanColumns
from evprof.core.run_log import RunLog
from evprof.view.columns import ShownModel

Ints: TypeAlias = "npt.NDArray[np.int64]"
Floats: TypeAlias = "npt.NDArray[np.float64]"

RUNNING, PROVISIONAL, SETTLED = spans.RUNNING, spans.ENDED, spans.SETTLED
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


_Kept = TypeVar("_Kept")

VERIFY = "verify"
"""The name of the part in which the target checks drafts."""

ORIGINS = (ORIGIN_TARGET, ORIGIN_ACCEPTED, ORIGIN_BONUS, ORIGIN_DRAFT)
"""Origin names by the code used in token tables."""

_REJECTED = len(ORIGINS)
_ORIGIN_CODES = {name: code for code, name in enumerate((*ORIGINS, ORIGIN_REJECTED))}


class Track:
    """One column's run as lanes. `update` is cheap: it looks only at rows not seen before."""

    def __init__(self, column: ShownModel) -> None:
        self.run: RunLog = column.run
        self.role = column.role
        self.is_answer = column.is_answer
        self.stages = SpanTable()
        self.parts = SpanTable()
        self._rounds = IntTable(8)
        self._verify_starts: dict[int, int] = {}
        self._tokens = IntTable(3)
        self._kv = IntTable(2)
        self._memory = IntTable(3)
        self._seen = {"spans": 0, "rounds": 0, "tokens": 0, "kv": 0, "memory": 0, "power": 0}
        self._power: dict[str, tuple[Ints, Floats]] = {}
        self._relative: dict[str, tuple[object, Any]] = {}
        self.latest_ns = 0
        self.shift_ns = 0

    def update(self) -> None:
        """Takes in the new rows of the run."""
        self._take_spans()
        self._take("rounds", self._rounds, _round_row)
        self._take("kv", self._kv, self._kv_row)
        self._take("memory", self._memory, _memory_row)
        # Most imported files give token ids at most; the moments on their records are made up.
        if self.is_answer and self.run.info.has_token_times:
            self._take("tokens", self._tokens, _token_row)
            self.latest_ns = max(self.latest_ns, *self._tokens.column(0)[-1:].tolist(), 0)
        # A sample can change the meaning of the one before it.
        if (count := sum(map(len, self.run.power.values()))) > self._seen["power"]:
            self._seen["power"] = count
            self._power = {name: power_line(records) for name, records in sorted(self.run.power.items())}

    def _take(self, stream: str, table: IntTable, row: Callable[[RowBlock], tuple[Ints, ...]]) -> None:
        for block in self.run.blocks(stream, self._seen[stream]):
            self._seen[stream] += block.size
            table.append(row(block))

    def _take_spans(self) -> None:
        changes = self.run.changed_spans(self._seen["spans"])
        self._seen["spans"] += len(changes)
        spans = self.run.span_columns
        places = distinct(changes).values
        places = places[spans.roles[places] == spans.role_code(self.role)]
        if not len(places):
            return
        are_stages = spans.are_stages(places)
        own, others = places[are_stages], places[~are_stages]
        self.stages.put(spans, own, spans.names[own])
        above = spans.places(spans.parents[others])
        is_part = (above >= 0) & spans.are_stages(above)
        others, above = others[is_part], above[is_part]
        self.parts.put(spans, others, spans.names[above])
        for place in others[spans.names[others] == spans.name_code(VERIFY)].tolist():
            self._verify_starts[int(spans.ids[place])] = int(spans.starts[place])
        has_end = spans.states[places] != RUNNING
        latest = max(int(spans.starts[places].max()), int(spans.ends[places][has_end].max(initial=0)))
        self.latest_ns = max(self.latest_ns, latest)

    def _kv_row(self, block: RowBlock) -> tuple[Ints, ...]:
        roles = block.texts("role")
        is_own = np.array([word == self.role for word in roles.words], dtype=bool)[roles.codes]
        return block.column("t_ns")[is_own], block.column("nbytes")[is_own]

    @property
    def zero_ns(self) -> int:
        """The axis's zero on the run's clock: the run's own, unless it is moved."""
        return self.own_zero_ns - self.shift_ns

    @property
    def own_zero_ns(self) -> int:
        """The run's zero on the clock: its own word, or the first stage's start until that is known."""
        if self.run.info.start_ns is not None:
            return self.run.info.start_ns
        first = self.run.first_stage
        return first.start_ns if first is not None else self.latest_ns

    @property
    def is_running(self) -> bool:
        return not self.run.info.is_over

    def now(self, clock_ns: int) -> int:
        """Where running spans reach to: the clock while the run goes on, its last sign of life afterwards."""
        if self.is_running:
            return max(clock_ns, self.latest_ns)
        return self.run.info.end_ns or self.latest_ns

    def end_ns(self, clock_ns: int) -> int:
        """The last thing known of the run."""
        now = self.now(clock_ns) if self.is_running and len(self.stages) else self.latest_ns
        return max(now, self.latest_ns, self.run.info.end_ns or 0) - self.zero_ns

    def token_times(self) -> Ints:
        """Moments of the answer's tokens from the run's zero."""
        return self._kept("token_times", self._tokens, lambda: self._tokens.column(0) - self.zero_ns)

    def token_positions(self) -> Ints:
        """Positions of the same tokens."""
        return self._tokens.column(1)

    def token_origins(self) -> Ints:
        """Codes into ORIGINS of the same tokens."""
        return self._tokens.column(2)

    def latencies_ms(self) -> tuple[Ints, Floats]:
        """Moments of tokens 1…n-1 from the run's zero and the time since the token before, in ms.

        The first token has no latency of this kind: what precedes it is the time to first token.
        """
        times = self.token_times()
        return self._kept("latencies", self._tokens, lambda: (times[1:], np.diff(times) / 1e6))

    def mean_latency_ms(self) -> float | None:
        """Mean time between tokens in ms, None with fewer than two."""
        times = self._tokens.column(0)
        return None if len(times) < 2 else float(times[-1] - times[0]) / 1e6 / (len(times) - 1)

    def kv_bytes(self) -> tuple[Ints, Floats]:
        """Moments from the run's zero and the cache's bytes from then on."""
        return self._levels("kv", self._kv, 1)

    def rss_bytes(self) -> tuple[Ints, Floats]:
        """Moments from the run's zero and resident bytes of the engine process."""
        return self._levels("rss", self._memory, 1)

    def gpu_bytes(self) -> tuple[Ints, Floats]:
        """Moments from the run's zero and GPU bytes; empty where there is no GPU."""
        return self._levels("gpu", self._memory, 2)

    def _levels(self, name: str, table: IntTable, index: int) -> tuple[Ints, Floats]:
        """Moments and the levels of a column, where they are known."""

        def read() -> tuple[Ints, Floats]:
            times, levels = table.column(0), table.column(index)
            if name == "gpu":
                times, levels = times[levels >= 0], levels[levels >= 0]
            return times - self.zero_ns, levels.astype(np.float64)

        return self._kept(name, table, read)

    def _kept(self, name: str, table: IntTable, read: Callable[[], _Kept]) -> _Kept:
        """The result of `read`, kept until the table has grown or the run's zero has become known."""
        key = (len(table), self.zero_ns, len(self._verify_starts))
        kept = self._relative.get(name)
        if kept is None or kept[0] != key:
            kept = self._relative[name] = key, read()
        result: _Kept = kept[1]
        return result

    def power_watts(self) -> dict[str, tuple[Ints, Floats]]:
        """Of each sampled device that tells its power: moments from the run's zero, and watts from then on."""
        return {name: (times - self.zero_ns, watts) for name, (times, watts) in self._power.items() if len(times)}

    def rounds(self) -> tuple[Ints, ...]:
        """Per round: draft start, draft end, verify end, rollback end, drafted, accepted, round_index, verify start.

        Moments count from the run's zero. Verification follows drafting at once, except of what was drafted inside the
        target's prefill: that waits for its end.
        """
        return self._kept("rounds", self._rounds, self._read_rounds)

    def _read_rounds(self) -> tuple[Ints, ...]:
        columns = [self._rounds.column(index) for index in range(7)]
        starts, drafts, verifies, ends = (column - self.zero_ns for column in columns[:4])
        waits = self._waits()
        return starts, drafts, verifies + waits, ends + waits, *columns[4:], drafts + waits

    def _waits(self) -> Ints:
        """How long each round's verification began after its drafting ended; 0 outside the prefill, or unverified."""
        waits = np.zeros(len(self._rounds), dtype=np.int64)
        drafts, verifies, hidden = (self._rounds.column(index) for index in (1, 2, 7))
        for place in np.flatnonzero((hidden != 0) & (verifies > drafts)).tolist():
            ready = int(drafts[place])
            later = [start for start in self._verify_starts.values() if start >= ready]
            waits[place] = min(later, default=ready) - ready
        return waits


def _round_row(block: RowBlock) -> tuple[Ints, ...]:
    ends = block.column("start_ns")
    moments = [ends]
    for name in ("draft_ns", "verify_ns", "rollback_ns"):
        ends = ends + block.column(name)
        moments.append(ends)
    return (*moments, *(block.column(name) for name in ("drafted", "accepted", "round_index", "hidden")))


def _token_row(block: RowBlock) -> tuple[Ints, ...]:
    origins = block.texts("origin")
    codes = np.array([_ORIGIN_CODES.get(word, 0) for word in origins.words], dtype=np.int64)[origins.codes]
    kept = codes != _REJECTED
    return block.column("t_ns")[kept], block.column("position")[kept], codes[kept]


def _memory_row(block: RowBlock) -> tuple[Ints, ...]:
    return block.column("t_ns"), block.column("rss_bytes"), block.column("gpu_bytes")


def power_line(records: Sequence[PowerRecord]) -> tuple[Ints, Floats]:
    """Moments in ns and watts of one device: each value holds until the next moment.

    The power that the device tells, else the mean between two steps of its energy counter. Empty where neither is
    known.
    """
    told = [record for record in records if record.power_mw >= 0]
    if told:
        watts = np.array([record.power_mw for record in told], dtype=np.float64) / 1000
        return np.array([record.t_ns for record in told], dtype=np.int64), watts
    counted = [record for record in records if record.energy_uj >= 0]
    steps = [now for before, now in itertools.pairwise(counted) if now.energy_uj != before.energy_uj]
    points = [*counted[:1], *steps]
    times = np.array([point.t_ns for point in points], dtype=np.int64)
    energies = np.array([point.energy_uj for point in points], dtype=np.float64)
    if len(points) < 2:
        return times[:0], energies[:0]
    # µJ by ns are kilowatts.
    watts = np.diff(energies) / np.maximum(np.diff(times), 1) * 1000
    is_forward = watts >= 0  # a counter that was begun again
    return times[:-1][is_forward], watts[is_forward]


class RangeFigure(NamedTuple):
    """All spans of one name and stage that reach into a range.

    `reaching` is how many, `sum_ns` the time that they cover inside it, `lengths` those of spans that lie in it as a
    whole, in ns.
    """

    name: str
    stage: str
    reaching: int
    sum_ns: int
    lengths: Ints


def figures_in(row: SpanRow, names: Sequence[str], start_ns: int, end_ns: int) -> list[RangeFigure]:
    """One entry for each kind of span, in order of first appearance; `names` are what the row's codes mean."""
    last = int(np.searchsorted(row.starts, end_ns, side="left"))
    inside = np.flatnonzero(row.ends[:last] > start_ns)
    starts, ends = row.starts[inside], row.ends[inside]
    covered = np.minimum(ends, end_ns) - np.maximum(starts, start_ns)
    is_whole = (starts >= start_ns) & (ends <= end_ns)
    kinds = row.stages[inside] * max(1, len(names)) + row.names[inside]
    _, firsts = np.unique(kinds, return_index=True)
    found = []
    for first in sorted(firsts.tolist()):
        of_kind = kinds == kinds[first]
        found.append(
            RangeFigure(
                names[int(row.names[inside[first]])],
                names[int(row.stages[inside[first]])],
                int(of_kind.sum()),
                int(covered[of_kind].sum()),
                (ends - starts)[of_kind & is_whole],
            )
        )
    return found
