"""What each lane of the timeline holds, taken in step by step from a growing run: only new rows are looked at.

A track is one model of one run. Times inside are absolute ns of the clock; `zero_ns` makes them relative, because the
run's zero may become known after its first rows. Of two runs on one axis the second may be moved by `shift_ns`; the
moments that a track gives are the axis's.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from evprof.core.records import ORIGIN_ACCEPTED, ORIGIN_BONUS, ORIGIN_DRAFT, ORIGIN_TARGET
from evprof.core.run_log import RunLog, Span
from evprof.view.columns import ShownModel
from evprof.view.power_line import power_line

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

VERIFY = "verify"
"""The name of the part in which the target checks drafts."""

RUNNING, PROVISIONAL, SETTLED = 0, 1, 2
"""States of a bar: begun; ended on the host's clock; device times known."""

ORIGINS = (ORIGIN_TARGET, ORIGIN_ACCEPTED, ORIGIN_BONUS, ORIGIN_DRAFT)
"""Origin names by the code used in token tables."""


class LaneTable:
    """Equally long int64 columns that grow; views handed out stay valid."""

    def __init__(self, columns: int) -> None:
        self._data: Ints = np.empty((columns, 64), dtype=np.int64)
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def append(self, rows: list[tuple[int, ...]]) -> None:
        """Adds rows of one int per column."""
        if not rows:
            return
        needed = self._length + len(rows)
        if needed > self._data.shape[1]:
            grown = np.empty((self._data.shape[0], max(needed, 2 * self._data.shape[1])), dtype=np.int64)
            grown[:, : self._length] = self._data[:, : self._length]
            self._data = grown
        self._data[:, self._length : needed] = np.array(rows, dtype=np.int64).T
        self._length = needed

    def column(self, index: int) -> Ints:
        """One column, as a view."""
        return self._data[index, : self._length]


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
    """Spans of one kind, as they are known so far."""

    def __init__(self) -> None:
        self._table = LaneTable(6)
        self._places: dict[int, int] = {}
        self._running: set[int] = set()
        self._fresh: list[tuple[int, ...]] = []
        self.names: list[str] = []
        self._codes: dict[str, int] = {}
        self._is_sorted = True

    def __len__(self) -> int:
        return len(self._table)

    @property
    def has_running(self) -> bool:
        """Whether a span has begun and not ended."""
        return bool(self._running)

    def put(self, span: Span, stage: str) -> None:
        """Takes in a span of a stage, or what is new of it; `flush` makes new ones visible."""
        place = self._places.get(span.span_id)
        state = _state(span)
        (self._running.add if state == RUNNING else self._running.discard)(span.span_id)
        if place is None:
            self._places[span.span_id] = len(self._table) + len(self._fresh)
            self._fresh.append(
                (span.start_ns, _end(span), span.span_id, self._code(span.name), self._code(stage), state)
            )
        else:
            for column, value in ((0, span.start_ns), (1, _end(span)), (5, state)):
                self._table.column(column)[place] = value
        self._is_sorted = False

    def flush(self) -> None:
        """Adds the spans that were put since the last time, all at once."""
        self._table.append(self._fresh)
        self._fresh = []

    def rows(self, zero_ns: int, now_ns: int) -> SpanRow:
        """The spans relative to `zero_ns`, running ones reaching to `now_ns` (absolute)."""
        starts, ends, ids, names, stages, states = (self._table.column(index) for index in range(6))
        ends = np.maximum(np.where(ends < 0, now_ns, ends), starts)
        if not self._is_sorted:
            if len(starts) > 1 and bool((starts[1:] < starts[:-1]).any()):
                order = np.argsort(starts, kind="stable")
                starts, ends, ids, names, stages, states = (
                    column[order] for column in (starts, ends, ids, names, stages, states)
                )
            else:
                self._is_sorted = True
        return SpanRow(starts - zero_ns, ends - zero_ns, ids, names, stages, states)

    def _code(self, name: str) -> int:
        code = self._codes.get(name)
        if code is None:
            code = self._codes[name] = len(self.names)
            self.names.append(name)
        return code


def _end(span: Span) -> int:
    return -1 if span.end_ns is None else span.end_ns


def _state(span: Span) -> int:
    return SETTLED if span.is_settled else RUNNING if span.end_ns is None else PROVISIONAL


class News(NamedTuple):
    """Which lanes of a track have something new to draw."""

    spans: bool
    rounds: bool
    tokens: bool
    kv: bool
    memory: bool
    power: bool


class Track:
    """One column's run as lanes. `update` is cheap: it looks only at rows not seen before."""

    def __init__(self, column: ShownModel) -> None:
        self.run: RunLog = column.run
        self.role = column.role
        self.is_answer = column.is_answer
        self.stages = SpanTable()
        self.parts = SpanTable()
        self._rounds = LaneTable(8)
        self._verify_starts: dict[int, int] = {}
        self._tokens = LaneTable(3)
        self._kv = LaneTable(2)
        self._memory = LaneTable(3)
        self._seen = {"spans": 0, "rounds": 0, "tokens": 0, "kv": 0, "memory": 0, "power": 0}
        self._power: dict[str, tuple[Ints, Floats]] = {}
        self._latencies: tuple[Ints, Floats] = (np.empty(0, dtype=np.int64), np.empty(0))
        self.latest_ns = 0
        self.shift_ns = 0

    def update(self) -> News:
        """Takes in what the run has new."""
        return News(
            self._take_spans(),
            self._take_rounds(),
            self._take_tokens(),
            self._take_kv(),
            self._take_memory(),
            self._take_power(),
        )

    def _take_spans(self) -> bool:
        spans, changes = self.run.spans, self.run.span_changes
        touched = dict.fromkeys(changes[self._seen["spans"] :])
        self._seen["spans"] = len(changes)
        found = False
        for span_id in touched:
            span = spans[span_id]
            if span.role != self.role:
                continue
            parent = spans.get(span.parent_id)
            if span.is_stage:
                self.stages.put(span, span.name)
            elif parent is not None and parent.is_stage:
                self.parts.put(span, parent.name)
                if span.name == VERIFY:
                    self._verify_starts[span.span_id] = span.start_ns
            self.latest_ns = max(self.latest_ns, span.start_ns, span.end_ns or 0)
            found = True
        self.stages.flush()
        self.parts.flush()
        return found

    def _take_rounds(self) -> bool:
        new = self.run.rounds[self._seen["rounds"] :]
        self._seen["rounds"] += len(new)
        self._rounds.append(
            [
                (
                    row.start_ns,
                    row.start_ns + row.draft_ns,
                    row.start_ns + row.draft_ns + row.verify_ns,
                    row.start_ns + row.draft_ns + row.verify_ns + row.rollback_ns,
                    row.drafted,
                    row.accepted,
                    row.round_index,
                    row.hidden,
                )
                for row in new
            ]
        )
        return bool(new)

    def _take_tokens(self) -> bool:
        # An imported file gives token ids at most; the moments on their records are made up.
        if not self.is_answer or self.run.info.imported is not None:
            return False
        new = self.run.tokens[self._seen["tokens"] :]
        self._seen["tokens"] += len(new)
        self._tokens.append(
            [(row.t_ns, row.position, ORIGINS.index(row.origin) if row.origin in ORIGINS else 0) for row in new]
        )
        if new:
            self.latest_ns = max(self.latest_ns, new[-1].t_ns)
        return bool(new)

    def _take_kv(self) -> bool:
        new = self.run.kv.get(self.role, [])[self._seen["kv"] :]
        self._seen["kv"] += len(new)
        self._kv.append([(row.t_ns, row.nbytes) for row in new])
        return bool(new)

    def _take_memory(self) -> bool:
        new = self.run.memory[self._seen["memory"] :]
        self._seen["memory"] += len(new)
        self._memory.append([(row.t_ns, row.rss_bytes, row.gpu_bytes) for row in new])
        return bool(new)

    def _take_power(self) -> bool:
        """A sample may change what the one before it meant, so the lines are worked out anew, ten times a second."""
        count = sum(map(len, self.run.power.values()))
        is_new = count > self._seen["power"]
        self._seen["power"] = count
        if is_new:
            self._power = {name: power_line(records) for name, records in sorted(self.run.power.items())}
        return is_new

    @property
    def zero_ns(self) -> int:
        """The axis's zero on the run's clock: the run's own, unless it is moved."""
        return self.own_zero_ns - self.shift_ns

    @property
    def own_zero_ns(self) -> int:
        """The run's zero on the clock: its own word, or the first stage's start until that is known."""
        if self.run.info.start_ns is not None:
            return self.run.info.start_ns
        first = next((span for span in self.run.spans.values() if span.is_stage), None)
        return first.start_ns if first is not None else self.latest_ns

    @property
    def is_running(self) -> bool:
        """Whether the run goes on."""
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
        return self._tokens.column(0) - self.zero_ns

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
        times = self._tokens.column(0)
        if len(self._latencies[0]) != max(0, len(times) - 1):
            self._latencies = times[1:], np.diff(times) / 1e6
        return self._latencies[0] - self.zero_ns, self._latencies[1]

    def mean_latency_ms(self) -> float | None:
        """Mean time between tokens in ms, None with fewer than two."""
        times = self._tokens.column(0)
        return None if len(times) < 2 else float(times[-1] - times[0]) / 1e6 / (len(times) - 1)

    def kv_bytes(self) -> tuple[Ints, Floats]:
        """Moments from the run's zero and the cache's bytes from then on."""
        return self._kv.column(0) - self.zero_ns, self._kv.column(1).astype(np.float64)

    def rss_bytes(self) -> tuple[Ints, Floats]:
        """Moments from the run's zero and resident bytes of the engine process."""
        return self._memory.column(0) - self.zero_ns, self._memory.column(1).astype(np.float64)

    def gpu_bytes(self) -> tuple[Ints, Floats]:
        """Moments from the run's zero and GPU bytes; empty where there is no GPU."""
        has = self._memory.column(2) >= 0
        return self._memory.column(0)[has] - self.zero_ns, self._memory.column(2)[has].astype(np.float64)

    def power_watts(self) -> dict[str, tuple[Ints, Floats]]:
        """Of each sampled device that tells its power: moments from the run's zero, and watts from then on."""
        return {name: (times - self.zero_ns, watts) for name, (times, watts) in self._power.items() if len(times)}

    def rounds(self) -> tuple[Ints, ...]:
        """Per round: draft start, draft end, verify end, rollback end, drafted, accepted, round_index, verify start.

        Moments count from the run's zero. Verification follows drafting at once, except of what was drafted inside the
        target's prefill: that waits for its end.
        """
        zero = self.zero_ns
        columns = [self._rounds.column(index) for index in range(7)]
        starts, drafts, verifies, ends = (column - zero for column in columns[:4])
        waits = self._waits()
        return (starts, drafts, verifies + waits, ends + waits, *columns[4:], drafts + waits)

    def _waits(self) -> Ints:
        """How long each round's verification began after its drafting ended; 0 outside the prefill, or unverified."""
        waits = np.zeros(len(self._rounds), dtype=np.int64)
        drafts, verifies, hidden = (self._rounds.column(index) for index in (1, 2, 7))
        for place in np.flatnonzero((hidden != 0) & (verifies > drafts)).tolist():
            ready = int(drafts[place])
            later = [start for start in self._verify_starts.values() if start >= ready]
            waits[place] = min(later, default=ready) - ready
        return waits
