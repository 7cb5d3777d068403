"""Drafts what followed the longest suffix of the answer in the prompt, this answer, or earlier answers.

A suffix automaton of several sequences (Blumer et al., 1985) has at most two states for each token. SAM Decoding (Hu
et al., arXiv 2411.10666) and SuffixDecoding (Oliaro et al., 2411.04975) use it for drafting.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field

import torch

from engines.drafters.drafter import DraftSide, PromptContext
from engines.drafters.lookup_drafter import AnswerMemory, ChainDrafter, memory_of

_ROOT, _NONE = 0, -1

_MOST_COUNTED = 256
"""Of the suffixes that end with a token, so many groups are counted, the longest first: only a text that repeats itself
more often than that in a row has more of them."""


@dataclass(frozen=True)
class Follower:
    token: int
    count: int
    total: int


@dataclass
class _State:
    """Texts that end at the same places: the longest has `length` tokens, `link` is the longest that ends at more
    places. They ended `count` times, last at time `latest`."""

    length: int
    link: int = _NONE
    count: int = 0
    latest: int = 0
    following: dict[int, int] = field(default_factory=dict)


class SuffixAutomaton:
    """Sequences added token by token; the last one is followed. No match spans two sequences."""

    def __init__(self, sequences: Iterable[Iterable[int]] = ()) -> None:
        self._states = [_State(0)]
        self._end = _ROOT
        self._time = 0
        for sequence in sequences:
            self.begin()
            self.grow(sequence)

    def __len__(self) -> int:
        return len(self._states)

    def begin(self) -> None:
        self._end = _ROOT

    def grow(self, tokens: Iterable[int]) -> None:
        for token in tokens:
            self._end = self._after(self._end, token)
            self._count(self._end)

    def chain(self, count: int) -> list[Follower]:
        """At most `count` tokens, each the most common one after the longest suffix that has a successor, then the
        latest one."""
        found: list[Follower] = []
        state = self._end
        while len(found) < count:
            state = self._with_followers(state)
            if state == _ROOT:
                break
            following = self._states[state].following
            token = max(following, key=lambda one: self._weight(following[one]))
            counts = {one: self._states[place].count for one, place in following.items()}
            found.append(Follower(token, counts[token], sum(counts.values())))
            state = following[token]
        return found

    def _weight(self, state: int) -> tuple[int, int]:
        return self._states[state].count, self._states[state].latest

    def _with_followers(self, state: int) -> int:
        while state != _ROOT and not self._states[state].following:
            state = self._states[state].link
        return state

    def _after(self, end: int, token: int) -> int:
        states = self._states
        known = states[end].following.get(token)
        if known is not None:  # another sequence went on alike
            return known if states[known].length == states[end].length + 1 else self._split(end, token, known)
        made = len(states)
        states.append(_State(states[end].length + 1))
        place = end
        while place != _NONE and token not in states[place].following:
            states[place].following[token] = made
            place = states[place].link
        if place == _NONE:
            states[made].link = _ROOT
            return made
        known = states[place].following[token]
        is_next = states[known].length == states[place].length + 1
        states[made].link = known if is_next else self._split(place, token, known)
        return made

    def _split(self, place: int, token: int, known: int) -> int:
        states = self._states
        old, made = states[known], len(states)
        states.append(_State(states[place].length + 1, old.link, old.count, old.latest, dict(old.following)))
        old.link = made
        while place != _NONE and states[place].following.get(token) == known:
            states[place].following[token] = made
            place = states[place].link
        return made

    def _count(self, state: int) -> None:
        self._time += 1
        for _ in range(_MOST_COUNTED):
            if state == _ROOT:
                break
            one = self._states[state]
            one.count += 1
            one.latest = self._time
            state = one.link


NAME = "suffix automaton"

MOST_TOKENS = 1 << 15
"""Of earlier questions and answers: some 700 answers of 45 tokens, 30 MB at most, taken in again in a fifth of a second
before each run."""

LEAST_CONFIDENCE = 0.2
"""Of a drafted chain as a whole: the product of how often each token came where it could have."""


class SuffixDrafter(ChainDrafter):
    """`memory` holds earlier sequences; those `about` the same question are left out."""

    def __init__(
        self,
        device: torch.device,
        eos_ids: frozenset[int] = frozenset(),
        *,
        memory: AnswerMemory[tuple[int, ...]] | None = None,
        about: Hashable = None,
    ) -> None:
        super().__init__(NAME, device, eos_ids, least=LEAST_CONFIDENCE)
        self._memory, self._about = memory, about
        self._known = SuffixAutomaton(() if memory is None else memory.others(about))
        self._known.begin()
        self._prompt: tuple[int, ...] = ()
        self._taken = 0

    def start(self, context: PromptContext) -> None:
        self._prompt = tuple(context.text_ids)
        self._known.grow(self._prompt)

    def likely(self, ids: Sequence[int], count: int) -> Iterable[tuple[int, float]]:
        self._known.grow(ids[self._taken :])
        self._taken = len(ids)
        return ((one.token, one.count / one.total) for one in self._known.chain(count))

    def finish(self, ids: Sequence[int]) -> None:
        if self._memory is not None:
            sequence = (*self._prompt, *ids)
            self._memory.remember(self._about, len(sequence), sequence)


def make(side: DraftSide) -> SuffixDrafter:
    memory = memory_of(side.target.language_model, "suffix", MOST_TOKENS)
    return SuffixDrafter(side.cached_target.device, side.eos_ids, memory=memory, about=side.about)
