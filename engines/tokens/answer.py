"""The answer as it grows, and the likeliest other tokens in every place.

Each token is noted in the run's records the moment the host knows it. Of other tokens, a step pays for one copy of a
row of logits on their device; probabilities are computed after the run, and are the model's own: of temperature 1,
before top-k and top-p. A buffer that is full is worked out on the device and begun anew.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import torch

from evprof.core.protocols import Clock, Sink, monotonic_ns
from evprof.core.records import (
    DRAFT,
    MOST_ALTERNATIVES,
    ORIGIN_REJECTED,
    ORIGIN_TARGET,
    AlternativesRecord,
    KvRecord,
    RoundRecord,
    TokenRecord,
)
from evprof.metrics.limits.memory_need import ALTERNATIVES_BYTES, alternatives_rows

OUTSIDE_ROUNDS = -1


class Answer:
    def __init__(
        self,
        sink: Sink,
        run_id: int,
        role: str,
        pieces: Sequence[str],
        *,
        now: Clock = monotonic_ns,
        origin: str = ORIGIN_TARGET,
    ) -> None:
        self.ids: list[int] = []
        self.now = now
        self._append = sink.append
        self.run_id = run_id
        self._role = role
        self._pieces = pieces
        self._origin = origin

    def add(
        self,
        token_id: int,
        origin: str | None = None,
        round_index: int = OUTSIDE_ROUNDS,
        t_ns: int | None = None,
    ) -> None:
        position = len(self.ids)
        self.ids.append(token_id)
        self._append(
            TokenRecord(
                self.run_id,
                self._role,
                position,
                token_id,
                origin or self._origin,
                round_index,
                self.now() if t_ns is None else t_ns,
                self._piece(token_id),
            )
        )

    def reject(self, token_id: int, position: int, round_index: int, t_ns: int) -> None:
        self._append(
            TokenRecord(
                self.run_id, DRAFT, position, token_id, ORIGIN_REJECTED, round_index, t_ns, self._piece(token_id)
            )
        )

    def note_cache(self, role: str, length: int, nbytes: int) -> None:
        """Notes how long one model's cache is now and what that takes."""
        self._append(KvRecord(self.run_id, role, self.now(), length, nbytes))

    def note_round(self, turn: RoundRecord) -> None:
        self._append(turn)

    def _piece(self, token_id: int) -> str:
        # A head may be padded beyond the vocabulary; such an id has no text.
        return self._pieces[token_id] if token_id < len(self._pieces) else ""


class SilentAnswer(Answer):
    def __init__(self) -> None:
        self.ids, self.now, self.run_id = [], monotonic_ns, 0

    def add(
        self,
        token_id: int,
        origin: str | None = None,
        round_index: int = OUTSIDE_ROUNDS,
        t_ns: int | None = None,
    ) -> None:
        self.ids.append(token_id)

    def reject(self, token_id: int, position: int, round_index: int, t_ns: int) -> None:
        """Nothing."""

    def note_cache(self, role: str, length: int, nbytes: int) -> None:
        """Nothing."""

    def note_round(self, turn: RoundRecord) -> None:
        """Nothing."""


_AT_ONCE = 128
"""Rows worked out at a time: float32 copies of more would take memory that nobody planned for."""

_OUTSIDE_ROUNDS = -1

Choose = Callable[[torch.Tensor], torch.Tensor]
"""Logits [N, V] -> token ids [N, 1]."""


class _Place(NamedTuple):
    position: int
    round_index: int = _OUTSIDE_ROUNDS
    token_id: int = -1


@dataclass(frozen=True, eq=False)
class _Likeliest:
    """Of N places: ids [N, k] and probabilities [N, k], best first, and the entropy [N] of all in bits."""

    places: list[_Place]
    ids: torch.Tensor
    chances: torch.Tensor
    bits: torch.Tensor


_Row = tuple[_Place, list[int], list[float], float]


class AlternativesLog:
    def __init__(
        self,
        device: torch.device,
        vocabulary_size: int,
        dtype: torch.dtype,
        most_tokens: int,
        *,
        most_bytes: int = ALTERNATIVES_BYTES,
    ) -> None:
        room = alternatives_rows(most_tokens, vocabulary_size, dtype.itemsize, most_bytes)
        self._most_bytes = most_bytes
        # Written once before the run: a processor hands out its memory page by page as it is first written, and a step
        # would pay for that.
        self._rows = torch.empty((room, vocabulary_size), device=device, dtype=dtype).zero_().unbind(0)
        self._places: list[_Place] = []
        self._next = 0
        self._drafted: list[tuple[_Place, torch.Tensor]] = []
        self._drafted_bytes = 0
        self._found: list[_Likeliest] = []
        self._found_drafted: list[_Likeliest] = []

    def watched(self, choose: Choose) -> Choose:
        def choose_and_keep(logits: torch.Tensor) -> torch.Tensor:
            self._put(logits[0], _Place(self._next))
            self._next += 1
            return choose(logits)

        return choose_and_keep

    def keep(self, start: int, logits: torch.Tensor, places: Sequence[int], round_index: int) -> None:
        for position, place in enumerate(places, start):
            self._put(logits[place], _Place(position, round_index))
        self._next = start + len(places)

    def keep_drafted(
        self,
        positions: Sequence[int],
        drafted: Sequence[int],
        logits: Sequence[torch.Tensor] | None,
        round_index: int,
    ) -> None:
        """What the draft thought where it proposed each token of a round: logits [1, V'], over the target's ids."""
        for position, token_id, own in zip(positions, drafted, logits or (), strict=False):
            self._drafted.append((_Place(position, round_index, token_id), own.reshape(-1)))
            self._drafted_bytes += own.untyped_storage().nbytes()
        if self._drafted_bytes > self._most_bytes:
            self._work_out_drafted()

    def records(
        self, run_id: int, role: str, ids: Sequence[int], pieces: Sequence[str]
    ) -> Iterator[AlternativesRecord]:
        self._work_out()
        self._work_out_drafted()
        # A first token may have been looked at twice; and the device may have been a step ahead of the answer's end.
        latest: dict[int, _Row] = {}
        for place, found, chances, bits in _rows_of(self._found):
            if place.position < len(ids):
                latest[place.position] = place._replace(token_id=ids[place.position]), found, chances, bits
        own = [latest[position] for position in sorted(latest)]
        for index, (place, found, chances, bits) in enumerate(chain(own, _rows_of(self._found_drafted))):
            who = role if index < len(own) else DRAFT
            if not math.isfinite(bits):
                continue  # logits that are no numbers have no odds
            # Of equally likely ones the chosen comes first.
            pairs = sorted(zip(found, chances, strict=True), key=lambda pair: (-pair[1], pair[0] != place.token_id))
            yield AlternativesRecord.made(
                (run_id, who, place.round_index, place.position, place.token_id),
                [one for one, _ in pairs],
                [chance for _, chance in pairs],
                bits,
                [pieces[one] if one < len(pieces) else "" for one, _ in pairs],
            )

    def _put(self, logits: torch.Tensor, place: _Place) -> None:
        is_other = logits.dtype != self._rows[0].dtype or logits.shape != self._rows[0].shape
        if is_other or len(self._places) == len(self._rows):
            self._work_out()
        if is_other:  # a quantized head may answer in a type of its own
            self._rows = logits.new_empty((len(self._rows), *logits.shape)).unbind(0)
        self._rows[len(self._places)].copy_(logits)
        self._places.append(place)

    def _work_out(self) -> None:
        held = len(self._places)
        for start in range(0, held, _AT_ONCE):
            stop = min(start + _AT_ONCE, held)
            self._found.append(_likeliest(self._places[start:stop], torch.stack(self._rows[start:stop])))
        self._places = []

    def _work_out_drafted(self) -> None:
        for start in range(0, len(self._drafted), _AT_ONCE):
            part = self._drafted[start : start + _AT_ONCE]
            rows = torch.stack([own for _, own in part])
            self._found_drafted.append(_likeliest([place for place, _ in part], rows))
        self._drafted, self._drafted_bytes = [], 0


def _likeliest(places: list[_Place], logits: torch.Tensor) -> _Likeliest:
    """[N, V] -> the likeliest of each row, in float32 on its device; nothing waits."""
    law = logits.float().softmax(dim=-1)
    chances, ids = law.topk(min(MOST_ALTERNATIVES, law.shape[-1]), dim=-1)
    return _Likeliest(places, ids, chances, torch.special.entr(law).sum(dim=-1) / math.log(2))


def _rows_of(found: Sequence[_Likeliest]) -> Iterator[_Row]:
    for part in found:
        yield from zip(part.places, part.ids.tolist(), part.chances.tolist(), part.bits.tolist(), strict=True)
