"""Greedy speculative decoding with rollback: a draft proposes, the target verifies a block in one pass.

Lossless: the answer is the target's own greedy answer, whatever the draft proposes (arXiv 2211.17192, 2302.01318, for
temperature 0). Each model has its own prompt and its own cache; only token ids pass between them, so the two may see
different pictures. It knows no stages but decode.
"""

from __future__ import annotations

import torch

from engines.answer import Answer, Round
from engines.decoding import CachedModel, Limits
from engines.timing import StageClock
from evprof.core.errors import Cancelled
from evprof.core.protocols import StopFlag
from evprof.core.records import ORIGIN_ACCEPTED, ORIGIN_BONUS

UNKNOWN_ID = 0
"""Fed to the draft for a target's token that its vocabulary lacks: sentencepiece's <unk>."""


def speculate(
    target: CachedModel,
    draft: CachedModel,
    answer: Answer,
    limits: Limits,
    *,
    gamma: int,
    clock: StageClock,
    stop: StopFlag,
    shared: int | None = None,
) -> None:
    """Rounds until the answer, which holds the target's first token already, is complete.

    `shared` is how many ids, from 0, mean the same to both (by default all that both have); others are never
    proposed, and the draft is fed UNKNOWN_ID in their place.

    Both models are prefilled. Afterwards either cache holds its own prompt and the answer save its last token. Raises
    Cancelled when stopped, between two draft steps at the latest; the unfinished round is dropped.
    """
    turns = _Rounds(target, draft, answer, limits, gamma=gamma, clock=clock, stop=stop, shared=shared)
    try:
        while not limits.is_over(answer):
            clock.begin_step()
            turns.play()
            clock.end_step()
        turns.catch_up()
    finally:
        target.crop_to(answer)
        draft.crop_to(answer)


class _Rounds:
    """The state between rounds is all in the two caches' lengths and the answer."""

    def __init__(
        self,
        target: CachedModel,
        draft: CachedModel,
        answer: Answer,
        limits: Limits,
        *,
        gamma: int,
        clock: StageClock,
        stop: StopFlag,
        shared: int | None,
    ) -> None:
        self._target = target
        self._draft = draft
        self._answer = answer
        self._limits = limits
        self._gamma = gamma
        self._clock = clock
        self._stop = stop
        self._index = 0
        known = min(target.vocabulary_size, draft.vocabulary_size)
        self._shared = known if shared is None else min(known, shared)

    def play(self) -> None:
        """One round: draft, verify, roll back, record."""
        clock, answer, now = self._clock, self._answer, self._clock.now
        start_ns = now()
        with clock.child_on("draft", self._draft.role, self._draft.device) as drafting:
            proposed = self._propose()
        self._check_stop()
        with clock.child_on("verify", self._target.role, self._target.device) as verifying:
            both = self._verify(proposed)
        # The round's one read. Everything before it has happened on the device then, so both spans can settle.
        ids: list[int] = both.tolist()
        clock.settle()
        drafted, choices = ids[: len(proposed)], ids[len(proposed) :]
        accepted, emitted = accept(drafted, choices, self._limits.eos_ids)
        known_ns = now()
        self._emit(drafted, emitted, accepted, known_ns)
        rollback_start_ns = now()
        self._roll_back(len(drafted) - accepted)
        rollback_ns = now() - rollback_start_ns
        answer.note_round(
            Round(
                self._index,
                start_ns,
                drafting.duration_ns,
                verifying.duration_ns,
                rollback_ns,
                drafted,
                accepted,
                len(emitted),
            )
        )
        self._target.note_length(answer)
        self._draft.note_length(answer)
        self._index += 1

    def catch_up(self) -> None:
        """Feeds the draft what a fully accepted last round left out, so that its cache holds the whole answer too."""
        if waiting := self._waiting()[:-1]:
            with self._clock.child_on("draft", self._draft.role, self._draft.device):
                self._draft.step(self._for_draft(waiting))
            self._draft.note_length(self._answer)

    def _propose(self) -> list[torch.Tensor]:
        """Up to gamma draft tokens [1, 1]; fewer when the answer's limit is closer than that."""
        draft, answer = self._draft, self._answer
        count = min(self._gamma, self._limits.max_new_tokens - len(answer.ids) - 1)
        reads_freely = draft.device.type == "cpu"
        # After a fully accepted round two tokens wait here: the last drafted one and the target's own.
        fed = self._for_draft(self._waiting()) if count > 0 else None
        proposed: list[torch.Tensor] = []
        while fed is not None and len(proposed) < count:
            self._check_stop()
            fed = draft.step(fed)[:, -1, : self._shared].argmax(dim=-1, keepdim=True)
            proposed.append(fed)
            if reads_freely and int(fed) in self._limits.eos_ids:
                break  # nothing follows the end
        return proposed

    def _verify(self, proposed: list[torch.Tensor]) -> torch.Tensor:
        """One target pass over the last token and the k proposed: their ids and its k + 1 choices, [2k + 1]."""
        device = self._target.device
        last = torch.tensor([[self._answer.ids[-1]]], device=device)
        block = torch.cat([last, *(token.to(device) for token in proposed)], dim=1)
        choices = self._target.step(block, keep=block.shape[1]).argmax(dim=-1)
        return torch.cat([block[0, 1:], choices[0]])

    def _emit(self, drafted: list[int], emitted: list[int], accepted: int, known_ns: int) -> None:
        answer, index = self._answer, self._index
        start = len(answer.ids)
        for place, token_id in enumerate(emitted):
            answer.add(token_id, ORIGIN_ACCEPTED if place < accepted else ORIGIN_BONUS, index, known_ns)
        for place in range(accepted, len(drafted)):
            answer.reject(drafted[place], start + place, index, known_ns)

    def _roll_back(self, rejected: int) -> None:
        self._target.crop_to(self._answer)
        self._target.rolled_back += rejected
        self._draft.rolled_back += self._draft.crop_to(self._answer)

    def _waiting(self) -> list[int]:
        """Tokens of the answer that the draft's cache lacks: at least the last one."""
        return self._answer.ids[self._draft.length - self._draft.prompt_length :]

    def _for_draft(self, ids: list[int]) -> torch.Tensor:
        known = [token_id if token_id < self._shared else UNKNOWN_ID for token_id in ids]
        return torch.tensor([known], device=self._draft.device)

    def _check_stop(self) -> None:
        if self._stop.is_set():
            raise Cancelled


def accept(drafted: list[int], choices: list[int], eos_ids: frozenset[int]) -> tuple[int, list[int]]:
    """How many of k drafted ids stand, and the tokens the round emits, given the target's k + 1 own choices.

    Those that match from the front stand, then follows the target's own choice. An accepted end-of-sequence ends the
    block: nothing behind it stands and no token of the target's own follows.
    """
    accepted = 0
    for drafted_id, choice in zip(drafted, choices, strict=False):
        if drafted_id != choice:
            break
        accepted += 1
        if drafted_id in eos_ids:
            return accepted, drafted[:accepted]
    return accepted, [*drafted[:accepted], choices[accepted]]
