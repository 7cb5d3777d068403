"""Prompt lookup: what followed the last words when they stood in the prompt or the answer before is proposed again.

Free of any model, and at its best where answers repeat what was asked or themselves. It knows ids, not their text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from engines.drafters.draft_side import DraftSide
from engines.drafters.drafter import Drafter, PromptContext, Proposal
from engines.tokens.uploads import upload

LONGEST, SHORTEST = 3, 1
"""Sizes of the n-grams that are looked up, the longest first."""

NAME = "prompt lookup"


class LookupDrafter(Drafter):
    """Proposes what followed the latest earlier occurrence of the answer's last ids; nothing where there is none.

    Proposals are made on the CPU and put on `device`. Drafting stops after one of `eos_ids`.
    """

    def __init__(self, device: torch.device, eos_ids: frozenset[int] = frozenset()) -> None:
        super().__init__(NAME, torch.device("cpu"))
        self._place = device
        self._eos_ids = eos_ids
        self._known = _Occurrences(())

    def start(self, context: PromptContext) -> None:
        """Takes the prompt's text in."""
        self._known = _Occurrences(context.text_ids)

    def propose(self, ids: Sequence[int], count: int, is_stopped: Callable[[], bool]) -> Proposal:
        """Up to `count` ids; microseconds, so nobody needs to stop it."""
        self._known.follow(ids)
        found = self._known.continuation(count)
        ends = next((place + 1 for place, token in enumerate(found) if token in self._eos_ids), len(found))
        return certain(found[:ends], self._place)


def certain(ids: Sequence[int], device: torch.device) -> Proposal:
    """A chain of ids proposed for certain, on `device`; none at all makes the round a plain step."""
    return Proposal(upload(ids, device)) if ids else Proposal.nothing()


class _Occurrences:
    """A sequence that grows at its end, and for each n-gram in it where its latest occurrence with a successor ends.

    Growing costs a few dictionary entries per id, so a lookup is as cheap in a long prompt as in a short one.
    """

    def __init__(self, prompt: Sequence[int]) -> None:
        self._prompt_length = len(prompt)
        self._sequence: list[int] = []
        self._behind: dict[tuple[int, ...], int] = {}
        self._grow(prompt)

    def follow(self, answer: Sequence[int]) -> None:
        """Takes in what an answer has gained since the last call; answers only ever grow."""
        self._grow(answer[len(self._sequence) - self._prompt_length :])

    def continuation(self, count: int) -> list[int]:
        """At most `count` ids after the latest earlier occurrence of the longest suffix that has one.

        Where that occurrence reaches into the sequence's end, the sequence is taken to go on repeating itself.
        """
        sequence = self._sequence
        for size in range(min(LONGEST, len(sequence)), SHORTEST - 1, -1):
            start = self._behind.get(tuple(sequence[-size:]))
            if start is not None:
                period = len(sequence) - start
                return [sequence[start + place % period] for place in range(count)]
        return []

    def _grow(self, ids: Sequence[int]) -> None:
        sequence = self._sequence
        for token in ids:
            # Only now the n-grams that ended here have a successor.
            end = len(sequence)
            for size in range(SHORTEST, min(LONGEST, end) + 1):
                self._behind[tuple(sequence[end - size :])] = end
            sequence.append(token)


def make(side: DraftSide) -> LookupDrafter:
    """Over the target's prompt and answer."""
    return LookupDrafter(side.cached_target.device, side.eos_ids)
