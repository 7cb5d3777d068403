"""A run as people think of it (spans, tokens, rounds, caches), built up from its rows as they come.

The window, the metrics and the exports all read it; it knows no toolkit, file or unit but ns, bytes and positions.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import cached_property
from typing import Any

import numpy as np

from evprof.core.protocols import Message, RunStarted, apply_to_info
from evprof.core.recording import RecordLog, RowSource, Stream
from evprof.core.records import (
    ORIGIN_REJECTED,
    STAGES,
    STREAM_OF,
    AlternativesRecord,
    FrameRecord,
    JudgementRecord,
    KvRecord,
    MemoryRecord,
    PowerRecord,
    Record,
    RoundRecord,
    TokenRecord,
)
from evprof.core.rows import blocks
from evprof.core.rows.blocks import NO_ANSWER, AnswerExtent, Ints, RowBlock, blocks_by_run, distinct
from evprof.core.rows.spans import RUNNING as SPAN_RUNNING
from evprof.core.rows.spans import SETTLED as SPAN_SETTLED
from evprof.core.rows.spans import IntTable, Span, SpanColumns, SpanRows
from evprof.core.run_info import RunInfo

AlternativesKey = tuple[str, int, int, int]
"""Role, round, position and token that alternatives are known of."""


ROUNDS, JUDGED, TENSORS = "rounds_of", "judged_count", "tensor_count"
"""Stored figures that replace rows: all rounds of a run, and the numbers of its judgements and tensors."""

ROWS_AT_ONCE = 2_000
"""So many rows become objects, or are let go, in one call of Python's, in which no other thread has its turn."""

_KEYS: dict[str, Callable[[Any], Any]] = {
    "tensors": lambda record: record.span_id,
    "tokens": lambda record: record.origin == ORIGIN_REJECTED,
    "alternatives": lambda record: (record.role, record.round_index, record.position, record.token_id),
    "kv": lambda record: record.role,
    "frames": lambda record: record.role,
    "power": lambda record: record.device,
}
"""Streams whose records are kept in several lists, by these keys."""


class RunLog:
    """One run: its info and everything its rows said so far.

    Rows stay columns of the streams they came in (`blocks`) until somebody asks for the objects: a session may hold
    millions, and what is drawn is read from the columns. What was asked for is kept, and follows the run.
    """

    _draining: AbstractContextManager[bool] = threading.RLock()
    """Held while rows become objects: the window and an export may need those of one run at once. Stored runs share
    this lock; each other run has its own, so that the session writer does not block the window."""

    def __init__(self, info: RunInfo, source: RowSource | None = None) -> None:
        """`source` holds the rows of a stored run; they are read on first use."""
        self.info = info
        self.version = 0
        self._source = source
        self._is_unread = source is not None
        if source is None:
            self._draining = threading.RLock()
        self._clear()

    @cached_property
    def kept(self) -> Mapping[str, Any] | None:
        """The figures stored with the run, by the names of `evprof.metrics.figures.kept`; None where the rows give
        them."""
        return None if self._source is None else self._source.figures(self.run_id)

    @property
    def is_read(self) -> bool:
        return not self._is_unread

    def forget_rows(self) -> None:
        """Frees the rows of a stored run; they are read again on next use."""
        with self._draining:
            if self._source is not None:
                self._clear()

    def _fetch(self) -> None:
        """Reads the rows of a stored run. Raises UserError where its file cannot be read."""
        with self._draining:
            if self._source is None or not self._is_unread:
                return
            recording, problem = self._source.rows(self.run_id)
            self._is_unread, version = False, self.version
            for stream in recording.streams.values():
                if len(stream):
                    self.take(stream, 0, len(stream))
            self.version = version
            if problem:
                self.info.spoil(problem)
                self.kept = None
                self.version += 1
            self._source.note_fetched(self)

    def _clear(self) -> None:
        self._is_unread = self._source is not None
        self._blocks: dict[str, list[RowBlock]] = {}
        self._ends: dict[str, list[int]] = {}
        """How many rows each block ends after: runs that go on side by side have very many."""
        self._own: dict[str, Stream] = {}
        """Rows that were handed over one by one."""
        self._taken: dict[str, int] = {}
        """Of each stream, how many rows are objects by now."""
        self._extent = 0, NO_ANSWER
        """Of so many rows of tokens."""
        self._held: dict[str, dict[Any, Any]] = {}
        """By stream, the records that were made so far, in lists by key."""
        self._columns = SpanColumns()
        self._changes = IntTable(1)
        self._made: dict[int, Span] = {}
        self._spans: dict[int, Span] = {}
        self._stages: list[Span] = []

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_draining"}

    # Rows as objects, made when they are first asked for.

    def _lists(self, stream: str) -> dict[Any, list[Any]]:
        self._drain(stream)
        return self._held.setdefault(stream, {})

    @property
    def tokens(self) -> list[TokenRecord]:
        return self._lists("tokens").setdefault(False, [])

    @property
    def rejected(self) -> list[TokenRecord]:
        return self._lists("tokens").setdefault(True, [])

    @property
    def alternatives(self) -> dict[AlternativesKey, AlternativesRecord]:
        self._drain("alternatives")
        return self._held.setdefault("alternatives", {})

    @property
    def memory(self) -> list[MemoryRecord]:
        return self._lists("memory").setdefault(None, [])

    @property
    def kv(self) -> dict[str, list[KvRecord]]:
        return self._lists("kv")

    @property
    def frames(self) -> dict[str, list[FrameRecord]]:
        """The pictures that models saw, by role."""
        return self._lists("frames")

    @property
    def power(self) -> dict[str, list[PowerRecord]]:
        """Samples of what devices draw, by device."""
        return self._lists("power")

    @property
    def rounds(self) -> list[RoundRecord]:
        """The rounds of speculation; those of a stored run come with its figures."""
        if self._is_unread and self.kept is not None and ROUNDS in self.kept:
            return [RoundRecord(self.run_id, *row) for row in self.kept[ROUNDS] or ()]
        return self._lists("rounds").setdefault(None, [])

    @property
    def judgements(self) -> list[JudgementRecord]:
        """What both models thought of drafted tokens; most runs have none, which their figures say."""
        if self._is_unread and self.kept is not None and self.kept.get(JUDGED) == 0:
            return []
        return self._lists("judgements").setdefault(None, [])

    @property
    def spans(self) -> dict[int, Span]:
        """All spans by id, in order of their first record."""
        with self._draining:
            columns = self.span_columns
            for place in range(len(self._spans), len(columns)):
                span = self._span_at(place)
                self._spans[span.span_id] = span
            return self._spans

    # Rows as columns.

    @property
    def span_columns(self) -> SpanColumns:
        self._drain("tensors")
        self._drain("spans")
        return self._columns

    def changed_spans(self, since: int) -> Ints:
        """The place of each span in the order of their records, from the record `since` on: what a reader looks at."""
        self._drain("spans")
        return self._changes.column(0)[since:]

    def blocks(self, stream: str, since: int = 0) -> list[RowBlock]:
        """Where the rows of a stream lie, from the row `since` of this run on."""
        since = max(since, 0)
        with self._draining:
            self._fetch()
            blocks, ends = self._blocks.get(stream, []), self._ends.get(stream, [])
            found = blocks[bisect_right(ends, since) :]
            if found:
                found[0] = found[0].after(since - (ends[-len(found)] - found[0].size))
        return found

    def answer_column(self, name: str) -> Ints:
        """One column of numbers of the answer's tokens, in the order in which they came, without an object for each."""
        return blocks.column_of(self.blocks("tokens"), name)

    @property
    def answer_extent(self) -> AnswerExtent:
        """How long the answer is and from when to when it came, without an object for each token."""
        rows = self.count("tokens")
        if self._extent[0] != rows:
            self._extent = rows, blocks.extent_of(self.blocks("tokens"))
        return self._extent[1]

    def count_of_origin(self, origin: str) -> int:
        return blocks.count_of(self.blocks("tokens"), origin)

    def count(self, stream: str) -> int:
        if self._is_unread:
            self._fetch()
        ends = self._ends.get(stream)
        return ends[-1] if ends else 0

    @property
    def has_tensors(self) -> bool:
        if self._is_unread and self.kept is not None and TENSORS in self.kept:
            return bool(self.kept[TENSORS])
        return bool(self.count("tensors"))

    def newest(self, stream: str) -> Record | None:
        """The last row of a stream, without an object for each; None before the first."""
        last = self.blocks(stream, self.count(stream) - 1) if self.count(stream) else []
        return last[-1].rows()[-1] if last else None

    def has_spans(self) -> bool:
        return bool(self.count("spans"))

    def span(self, span_id: int) -> Span | None:
        with self._draining:
            place = int(self.span_columns.places(np.array([span_id]))[0])
            return None if place < 0 else self._span_at(place)

    @property
    def run_id(self) -> int:
        return self.info.run_id

    def stages(self, role: str | None = None) -> list[Span]:
        found = [span for span in self._begun_stages if role in (None, span.role)]
        return sorted(found, key=lambda span: span.start_ns)

    @property
    def first_stage(self) -> Span | None:
        return next(iter(self._begun_stages), None)

    def stage(self, name: str, role: str) -> Span | None:
        """The stage of that name and role, if it began and was measured apart from the others."""
        mine = (span for span in self._begun_stages if span.role == role)
        return next((span for span in mine if span.name == name or self.accounts_for(span) == (name,)), None)

    def accounts_for(self, span: Span) -> tuple[str, ...]:
        """The stages whose time is this span's alone: what it covers, less what was measured apart from it."""
        if span.name in STAGES:
            return (span.name,)
        apart = {other.name for other in self._begun_stages if other.role == span.role}
        return tuple(name for name in span.covers if name not in apart)

    def children(self, span_id: int) -> list[Span]:
        with self._draining:
            columns = self.span_columns
            places = np.flatnonzero(columns.parents == span_id) if span_id >= 0 else ()
            return sorted(map(self._span_at, map(int, places)), key=lambda span: span.start_ns)

    @property
    def running_span(self) -> Span | None:
        if self.info.is_over:
            return None
        return next((span for span in reversed(self._begun_stages) if span.end_ns is None), None)

    def alternatives_of(self, token: TokenRecord, role: str | None = None) -> AlternativesRecord | None:
        """What a model found likeliest in a token's place: by default the model that chose or proposed the token."""
        return self.alternatives.get((role or token.role, token.round_index, token.position, token.token_id))

    @property
    def last_sign_ns(self) -> int:
        """The run's end; of one whose engine could not tell it any more, the last moment that a record tells of."""
        if self.info.end_ns is not None:
            return self.info.end_ns
        places = self.changed_spans(0)
        last = self._span_at(int(places[-1])) if len(places) else None
        moments = [tokens[-1].t_ns for tokens in (self.tokens, self.rejected) if tokens]
        moments += [points[-1].t_ns for points in self.kv.values() if points]
        moments += [] if last is None else [last.start_ns if last.end_ns is None else last.end_ns]
        return max(moments, default=self.info.start_ns or 0)

    def open_stage(self, role: str) -> Span | None:
        """The stage that one model is in; None between stages and after the end."""
        if self.info.is_over:
            return None
        return next((span for span in reversed(self._begun_stages) if span.role == role and span.end_ns is None), None)

    @property
    def _begun_stages(self) -> list[Span]:
        self._drain("tensors")
        self._drain("spans")
        return self._stages

    # Taking in.

    def absorb(self, record: Record) -> None:
        name = STREAM_OF[type(record)]
        own = self._own.get(name)
        if own is None:
            own = self._own[name] = Stream(name)
        own.extend([record])
        self.take(own, len(own) - 1, len(own))

    def take(self, stream: Stream, start: int, stop: int) -> None:
        with self._draining:
            blocks, ends = self._blocks.setdefault(stream.name, []), self._ends.setdefault(stream.name, [])
            count = self.count(stream.name) + stop - start
            if blocks and blocks[-1].stream is stream and blocks[-1].stop == start:
                blocks[-1], ends[-1] = RowBlock(stream, blocks[-1].start, stop), count
            else:
                blocks.append(RowBlock(stream, start, stop))
                ends.append(count)
            self.version += stop - start

    def _drain(self, name: str) -> None:
        """Makes objects (of spans: columns) of the rows that are none yet."""
        if self._taken.get(name, 0) >= self.count(name):
            return
        with self._draining:
            taken = self._taken.get(name, 0)
            for block in self.blocks(name, taken):
                if name == "spans":
                    self._take_spans(block)
                else:
                    self._take_objects(block)
                taken += block.size
            # Last: a reader that sees this needs nothing more.
            self._taken[name] = taken

    def _take_objects(self, block: RowBlock) -> None:
        name = block.stream.name
        held, key_of = self._held.setdefault(name, {}), _KEYS.get(name)
        for part in block.parts(ROWS_AT_ONCE):
            if key_of is None:
                held.setdefault(None, []).extend(part.rows())
                continue
            for record in part.rows():
                if name == "alternatives":
                    held.setdefault(key_of(record), record)
                else:
                    held.setdefault(key_of(record), []).append(record)

    def _take_spans(self, block: RowBlock) -> None:
        columns, before = self._columns, len(self._columns)
        ids = block.column("span_id"), block.column("parent_id"), block.column("phase")
        texts, times = (block.texts("role"), block.texts("name")), (block.column("start_ns"), block.column("end_ns"))
        places = columns.take(SpanRows(*ids, *texts, *times))
        self._changes.append((places,))
        if self._made:
            for place in distinct(places[places < before]).values.tolist():
                if place in self._made:
                    self._refresh(self._made[place], place)
        for place in (before + np.flatnonzero(columns.are_stages(slice(before, None)))).tolist():
            self._stages.append(self._span_at(place))

    def _span_at(self, place: int) -> Span:
        span = self._made.get(place)
        if span is None:
            span_id = int(self._columns.ids[place])
            tensors = self._held.setdefault("tensors", {}).setdefault(span_id, [])
            span = self._made[place] = Span(span_id, -1, "", "", 0, tensors=tensors)
            self._refresh(span, place)
        return span

    def _refresh(self, span: Span, place: int) -> None:
        columns = self._columns
        state = int(columns.states[place])
        span.parent_id = int(columns.parents[place])
        span.role, span.name = columns.role_words[columns.roles[place]], columns.name_words[columns.names[place]]
        span.start_ns = int(columns.starts[place])
        span.end_ns = None if state == SPAN_RUNNING else int(columns.ends[place])
        span.is_settled = state == SPAN_SETTLED
        span.host_start_ns, span.host_end_ns = columns.host_times(place)


class RunBook:
    """All runs of a Recording, kept up to date by `update`. Owned by one reader: not shared between threads.

    `runs` are those that are not deleted, in order of start.
    """

    def __init__(self, recording: RecordLog) -> None:
        self.recording = recording
        self.runs: dict[int, RunLog] = {}
        self._all: dict[int, RunLog] = {}
        self._cursor = recording.cursor()
        self._orphans: dict[int, list[RowBlock]] = {}

    def update(self) -> tuple[list[Message], set[int]]:
        """Reads what is new. Returns the new messages in order and the ids of runs that changed."""
        news = self._cursor.read()
        changed: set[int] = set()
        for message in news.messages:
            if isinstance(message, RunStarted):
                self._start(message, changed)
        for name, (start, stop) in news.ranges.items():
            for run_id, block in blocks_by_run(self.recording.streams[name], start, stop):
                self._absorb(run_id, block, changed)
        for message in news.messages:
            self._apply(message, changed)
        return news.messages, changed

    def _start(self, message: RunStarted, changed: set[int]) -> None:
        source = self.recording.source
        is_stored = source is not None and message.run_id in source
        # A copy: the log's info changes with every message, the message must not.
        run = self._all[message.run_id] = RunLog(message.info.copied(), source if is_stored else None)
        if not run.info.is_deleted:
            self.runs[message.run_id] = run
        changed.add(message.run_id)
        for block in self._orphans.pop(message.run_id, []):
            self._absorb(message.run_id, block, changed)

    def _absorb(self, run_id: int, block: RowBlock, changed: set[int]) -> None:
        run = self._all.get(run_id)
        if run is None:
            # Rows may be read a moment before the message that starts their run.
            self._orphans.setdefault(run_id, []).append(block)
            return
        run.take(*block)
        changed.add(run_id)

    def _apply(self, message: Message, changed: set[int]) -> None:
        run = self._all.get(getattr(message, "run_id", -1))
        if run is None or not apply_to_info(message, run.info):
            return
        run.version += 1
        changed.add(run.run_id)
        if run.info.is_deleted == (run.run_id in self.runs):
            shown = {run_id: run for run_id, run in self._all.items() if not run.info.is_deleted}
            self.runs.clear()
            self.runs.update(shown)

    @property
    def deleted(self) -> dict[int, RunLog]:
        return {run_id: self._all[run_id] for run_id in sorted(self._all) if self._all[run_id].info.is_deleted}

    @property
    def last_run_id(self) -> int:
        return max(self._all, default=0)

    @property
    def last_group_id(self) -> int:
        return max((run.info.group_id for run in self._all.values()), default=0)
