"""Drafts what followed the longest words that end the answer, wherever the target said or was asked them before.

It looks at the prompt, at this answer, and at earlier answers of the process to other questions; no model.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

import torch

from engines.drafters.answer_memory import AnswerMemory, memory_of
from engines.drafters.draft_side import DraftSide
from engines.drafters.drafter import Drafter, PromptContext, Proposal
from engines.drafters.lookup_drafter import certain
from engines.drafters.suffix_automaton import SuffixAutomaton

NAME = "suffix automaton"

MOST_TOKENS = 1 << 15
"""Of earlier questions and answers: some 700 answers of 45 tokens, 30 MB at most, taken in again in a fifth of a second
before each run."""

LEAST_CONFIDENCE = 0.2
"""Of a drafted chain as a whole: the product of how often each token came where it could have."""


class SuffixDrafter(Drafter):
    """Follows the answer; drafting stops after one of `eos_ids`. Proposals are put on `device`.

    `memory` holds earlier sequences, of which those `about` the same are left out; a finished answer is added.
    """

    def __init__(
        self,
        device: torch.device,
        eos_ids: frozenset[int] = frozenset(),
        *,
        memory: AnswerMemory[tuple[int, ...]] | None = None,
        about: Hashable = None,
    ) -> None:
        super().__init__(NAME, torch.device("cpu"))
        self._place = device
        self._eos_ids = eos_ids
        self._memory, self._about = memory, about
        self._known = SuffixAutomaton(() if memory is None else memory.others(about))
        self._known.begin()
        self._prompt: tuple[int, ...] = ()
        self._taken = 0

    def start(self, context: PromptContext) -> None:
        """Takes the prompt's text in."""
        self._prompt = tuple(context.text_ids)
        self._known.grow(self._prompt)

    def propose(self, ids: Sequence[int], count: int, is_stopped: Callable[[], bool]) -> Proposal:
        """Up to `count` ids; microseconds, so nobody needs to stop it."""
        self._known.grow(ids[self._taken :])
        self._taken = len(ids)
        drafted: list[int] = []
        sure = 1.0
        for one in self._known.chain(count):
            sure *= one.count / one.total
            if sure < LEAST_CONFIDENCE:
                break
            drafted.append(one.token)
            if one.token in self._eos_ids:
                break
        return certain(drafted, self._place)

    def finish(self, ids: Sequence[int]) -> None:
        """Keeps question and answer for later runs."""
        if self._memory is not None:
            sequence = (*self._prompt, *ids)
            self._memory.remember(self._about, len(sequence), sequence)


def make(side: DraftSide) -> SuffixDrafter:
    """Over the target's prompt, its answer, and what it said before."""
    memory = memory_of(side.target.language_model, "suffix", MOST_TOKENS)
    return SuffixDrafter(side.cached_target.device, side.eos_ids, memory=memory, about=side.about)
