"""The records of a scripted run as they are written while time goes by: spans, tensors, tokens, caches, pictures."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field

from evprof.core.errors import Cancelled
from evprof.core.protocols import Sink, StopFlag, monotonic_ns
from evprof.core.records import (
    BEGIN,
    DRAFT,
    END,
    ORIGIN_ACCEPTED,
    ORIGIN_REJECTED,
    SETTLED,
    AlternativesRecord,
    FrameRecord,
    KvRecord,
    SpanRecord,
    TensorRecord,
    TokenRecord,
)
from evprof.core.request import RunRequest
from evprof.core.run_info import ModelFacts
from scripted_pair import Script, ScriptedModel, picture_of, token_id_of


@dataclass(kw_only=True)
class ScriptedRecords:
    """One run's records so far: `pieces` of the answer, `lengths` of the caches by role."""

    script: Script
    speed: float
    request: RunRequest
    run_id: int
    role: str
    sink: Sink
    stop: StopFlag
    pieces: list[str] = field(default_factory=list)
    lengths: dict[str, int] = field(default_factory=dict)
    alternatives: list[AlternativesRecord] = field(default_factory=list)
    _spans: int = 0

    def model(self, role: str) -> ScriptedModel:
        return self.script.draft if role == DRAFT else self.script.target

    def wait(self, duration_ms: float) -> None:
        """Lets time go by; raises Cancelled when asked to stop."""
        if self.stop.is_set():
            raise Cancelled
        time.sleep(duration_ms / 1000 / self.speed)

    @contextmanager
    def span(self, role: str, name: str, parent_id: int) -> Iterator[int]:
        """A span, for as long as the context lasts; its number."""
        span_id, self._spans = self._spans, self._spans + 1
        start_ns = monotonic_ns()
        self.sink.append(SpanRecord(self.run_id, span_id, parent_id, BEGIN, role, name, start_ns, -1))
        try:
            yield span_id
        finally:
            end_ns = monotonic_ns()
            for phase in (END, SETTLED):
                self.sink.append(SpanRecord(self.run_id, span_id, parent_id, phase, role, name, start_ns, end_ns))

    def stage(self, role: str, name: str) -> AbstractContextManager[int]:
        return self.span(role, name, -1)

    def tensor(self, span_id: int, direction: str, name: str, shape: tuple[int, ...]) -> None:
        """A tensor of a span, in 16 bit."""
        count = 1
        for extent in shape:
            count *= extent
        text = ",".join(str(extent) for extent in shape)
        self.sink.append(TensorRecord(self.run_id, span_id, direction, name, text, "bfloat16", 2 * count))

    def grow(self, role: str, facts: ModelFacts, positions: int) -> None:
        length = self.lengths.get(role, 0) + positions
        self.lengths[role] = length
        kv_bytes = length * self.model(role).kv_position_bytes
        self.sink.append(KvRecord(self.run_id, role, monotonic_ns(), length, kv_bytes))

    def token(self, origin: str, piece: str, round_index: int = -1, position: int | None = None) -> None:
        """A token of the answer, or one that was rejected at a position."""
        place = len(self.pieces) if position is None else position
        role = DRAFT if origin == ORIGIN_REJECTED else self.role
        self.sink.append(
            TokenRecord(self.run_id, role, place, token_id_of(piece), origin, round_index, monotonic_ns(), piece)
        )
        self.alternatives.append(alternatives_of((self.run_id, role, round_index, place), piece))
        if origin == ORIGIN_ACCEPTED:
            self.alternatives.append(alternatives_of((self.run_id, DRAFT, round_index, place), piece))
        if origin != ORIGIN_REJECTED:
            self.pieces.append(piece)

    def show_pictures(self, role: str, model: ScriptedModel) -> None:
        for index in range(model.pictures):
            png = picture_of(role, index, model.pictures)
            start_us = index * 20_000
            end_us = start_us + (20_000 if role == DRAFT else 0)
            label = f"frame {index + 1}"
            self.sink.append(FrameRecord(self.run_id, role, index, start_us, end_us, label, png))


def alternatives_of(place: tuple[int, str, int, int], piece: str) -> AlternativesRecord:
    """Plausible odds of a piece and four others, by the piece: the same script says the same every time."""
    most = 0.4 + token_id_of(piece) % 60 / 100
    others = (" the", " a", " one", " some")
    chances = [most, *((1 - most) * share for share in (0.5, 0.2, 0.1, 0.05))]
    ids = [token_id_of(one) for one in (piece, *others)]
    return AlternativesRecord.made((*place, ids[0]), ids, chances, 3 * (1 - most), (piece, *others))
