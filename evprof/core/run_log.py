"""Runs as people think of them (spans, tokens, rounds, caches), built up from a Recording as it grows.

The window, the metrics and the exports all read these; it knows no toolkit, file or unit but ns, bytes and positions.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from evprof.core.messages import Message, RunStarted, apply_to_info
from evprof.core.recording import RecordLog
from evprof.core.records import (
    BEGIN,
    COVERS,
    END,
    ORIGIN_REJECTED,
    STAGES,
    AlternativesRecord,
    FrameRecord,
    JudgementRecord,
    KvRecord,
    MemoryRecord,
    PowerRecord,
    Record,
    RoundRecord,
    SpanRecord,
    TensorRecord,
    TokenRecord,
)
from evprof.core.run_info import RunInfo


AlternativesKey = tuple[str, int, int, int]
"""Role, round, position and token that alternatives are known of."""


@dataclass
class Span:
    """A measured interval as known so far. Provisional until settled: then start and end are device times."""

    span_id: int
    parent_id: int
    role: str
    name: str
    start_ns: int
    end_ns: int | None = None
    is_settled: bool = False
    host_start_ns: int = 0
    host_end_ns: int | None = None
    tensors: list[TensorRecord] = field(default_factory=list)

    @property
    def duration_ns(self) -> int | None:
        """Length in ns, None while it runs."""
        return None if self.end_ns is None else self.end_ns - self.start_ns

    @property
    def covers(self) -> tuple[str, ...]:
        """The stages this one interval holds: itself, or several that imported data measured in one piece."""
        return tuple(self.name.split(COVERS))

    @property
    def stage_name(self) -> str:
        """The stage it is told under: the last one that it covers."""
        return self.covers[-1]

    @property
    def is_stage(self) -> bool:
        """Whether this is one or several of the five stages rather than a part of one."""
        return self.parent_id < 0 and (self.name in STAGES or all(name in STAGES for name in self.covers))


@dataclass
class RunLog:
    """One run: its info and everything its rows said so far.

    `span_changes` holds span ids in the order of their records, so that a reader can look at what changed alone.
    """

    info: RunInfo
    spans: dict[int, Span] = field(default_factory=dict)
    span_changes: list[int] = field(default_factory=list)
    tokens: list[TokenRecord] = field(default_factory=list)
    rejected: list[TokenRecord] = field(default_factory=list)
    rounds: list[RoundRecord] = field(default_factory=list)
    judgements: list[JudgementRecord] = field(default_factory=list)
    alternatives: dict[AlternativesKey, AlternativesRecord] = field(default_factory=dict)
    kv: dict[str, list[KvRecord]] = field(default_factory=dict)
    memory: list[MemoryRecord] = field(default_factory=list)
    power: dict[str, list[PowerRecord]] = field(default_factory=dict)
    frames: dict[str, list[FrameRecord]] = field(default_factory=dict)
    version: int = 0
    # Stages, and the parts of each span: a run may hold a hundred thousand spans, and is asked for these all the time.
    _stages: list[Span] = field(default_factory=list)
    _parts: dict[int, list[Span]] = field(default_factory=dict)
    # Streams are read one after the other, so a tensor may be seen a moment before its span.
    _early_tensors: dict[int, list[TensorRecord]] = field(default_factory=dict)

    @property
    def run_id(self) -> int:
        """The run's number in its session."""
        return self.info.run_id

    def stages(self, role: str | None = None) -> list[Span]:
        """Stage spans in order of start, of one role or of all."""
        found = [span for span in self._stages if role in (None, span.role)]
        return sorted(found, key=lambda span: span.start_ns)

    def stage(self, name: str, role: str) -> Span | None:
        """The stage of that name and role, if it began and was measured apart from the others."""
        mine = (span for span in self._stages if span.role == role)
        return next((span for span in mine if span.name == name or self.accounts_for(span) == (name,)), None)

    def accounts_for(self, span: Span) -> tuple[str, ...]:
        """The stages whose time is this span's alone: what it covers, less what was measured apart from it."""
        if span.name in STAGES:
            return (span.name,)
        apart = {other.name for other in self._stages if other.role == span.role}
        return tuple(name for name in span.covers if name not in apart)

    def children(self, span_id: int) -> list[Span]:
        """Parts of a span in order of start."""
        return sorted(self._parts.get(span_id, ()), key=lambda span: span.start_ns)

    @property
    def running_span(self) -> Span | None:
        """The stage being worked on, or None."""
        if self.info.is_over:
            return None
        return next((span for span in reversed(self._stages) if span.end_ns is None), None)

    def alternatives_of(self, token: TokenRecord, role: str | None = None) -> AlternativesRecord | None:
        """What a model found likeliest in a token's place: by default the model that chose or proposed the token."""
        return self.alternatives.get((role or token.role, token.round_index, token.position, token.token_id))

    @property
    def last_sign_ns(self) -> int:
        """The run's end; of one whose engine could not tell it any more, the last moment that a record tells of."""
        if self.info.end_ns is not None:
            return self.info.end_ns
        last = self.spans[self.span_changes[-1]] if self.span_changes else None
        moments = [found[-1].t_ns for found in (self.tokens, self.rejected) if found]
        moments += [found[-1].t_ns for found in self.kv.values()]
        moments += [] if last is None else [last.start_ns if last.end_ns is None else last.end_ns]
        return max(moments, default=self.info.start_ns or 0)

    def open_stage(self, role: str) -> Span | None:
        """The stage that one model is in; None between stages and after the end."""
        if self.info.is_over:
            return None
        return next((span for span in reversed(self._stages) if span.role == role and span.end_ns is None), None)

    def absorb(self, record: Record) -> None:
        """Takes one record of this run in."""
        match record:
            case SpanRecord():
                self._absorb_span(record)
            case TensorRecord():
                span = self.spans.get(record.span_id)
                (span.tensors if span else self._early_tensors.setdefault(record.span_id, [])).append(record)
            case TokenRecord():
                (self.rejected if record.origin == ORIGIN_REJECTED else self.tokens).append(record)
            case RoundRecord():
                self.rounds.append(record)
            case JudgementRecord():
                self.judgements.append(record)
            case AlternativesRecord():
                key = (record.role, record.round_index, record.position, record.token_id)
                self.alternatives.setdefault(key, record)
            case KvRecord():
                self.kv.setdefault(record.role, []).append(record)
            case MemoryRecord():
                self.memory.append(record)
            case PowerRecord():
                self.power.setdefault(record.device, []).append(record)
            case FrameRecord():
                self.frames.setdefault(record.role, []).append(record)
        self.version += 1

    def _absorb_span(self, record: SpanRecord) -> None:
        self.span_changes.append(record.span_id)
        if record.phase == BEGIN:
            span = self._new_span(record)
            span.host_start_ns = record.start_ns
            return
        known = self.spans.get(record.span_id)
        span = self._new_span(record) if known is None else known
        if record.phase == END:
            span.host_start_ns, span.host_end_ns = record.start_ns, record.end_ns
            if span.is_settled:
                return
        else:
            span.is_settled = True
        span.start_ns, span.end_ns = record.start_ns, record.end_ns

    def _new_span(self, record: SpanRecord) -> Span:
        span = Span(
            record.span_id,
            record.parent_id,
            record.role,
            record.name,
            record.start_ns,
            tensors=self._early_tensors.pop(record.span_id, []),
        )
        self.spans[record.span_id] = span
        if span.is_stage:
            self._stages.append(span)
        elif span.parent_id >= 0:
            self._parts.setdefault(span.parent_id, []).append(span)
        return span


class RunBook:
    """All runs of a Recording, kept up to date by `update`. One reader's own copy: not shared between threads."""

    def __init__(self, recording: RecordLog) -> None:
        self.recording = recording
        self.runs: dict[int, RunLog] = {}
        self._cursor = recording.cursor()
        self._orphans: dict[int, list[Record]] = {}

    def update(self) -> tuple[list[Message], set[int]]:
        """Reads what is new. Returns the new messages in order and the ids of runs that changed."""
        news = self._cursor.read()
        changed: set[int] = set()
        for message in news.messages:
            if isinstance(message, RunStarted):
                self._start(message, changed)
        for name, (start, stop) in news.ranges.items():
            for record in self.recording.streams[name].rows(start, stop):
                self._absorb(record, changed)
        for message in news.messages:
            self._apply(message, changed)
        return news.messages, changed

    def _start(self, message: RunStarted, changed: set[int]) -> None:
        # A copy: the log's info changes with every message, the message must not.
        self.runs[message.run_id] = RunLog(message.info.copied())
        changed.add(message.run_id)
        for record in self._orphans.pop(message.run_id, []):
            self._absorb(record, changed)

    def _absorb(self, record: Record, changed: set[int]) -> None:
        run_id = record[0]
        run = self.runs.get(run_id)
        if run is None:
            # Rows may be read a moment before the message that starts their run.
            self._orphans.setdefault(run_id, []).append(record)
            return
        run.absorb(record)
        changed.add(run_id)

    def _apply(self, message: Message, changed: set[int]) -> None:
        run = self.runs.get(getattr(message, "run_id", -1))
        if run is None:
            return
        if not apply_to_info(message, run.info):
            return
        run.version += 1
        changed.add(run.run_id)
