"""The answer as it grows: token ids in order, each noted in the run's records the moment the host knows it."""

from __future__ import annotations

from collections.abc import Sequence

from evprof.core.protocols import Clock, Sink, monotonic_ns
from evprof.core.records import (
    DRAFT,
    ORIGIN_REJECTED,
    ORIGIN_TARGET,
    KvRecord,
    RoundRecord,
    TokenRecord,
)

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
