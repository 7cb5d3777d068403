"""Drafters that need no model: prompt lookup, n-gram counts and token recycling.

Prompt lookup proposes what followed the last words before. N-gram counts propose what the target usually says. Token
recycling proposes what the target considered before.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import islice
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

import torch

from engines.adapters.folder import check_target, kept
from engines.adapters.ngram import NgramCounts, load_ngram
from engines.decoder.llama import LlamaDecoder
from engines.drafters.drafter import Drafter, DraftSide, PromptContext, Proposal, Verified, parents_of
from engines.tokens.uploads import upload

Kept = TypeVar("Kept")

_memories: WeakKeyDictionary[LlamaDecoder, dict[str, AnswerMemory[Any]]] = WeakKeyDictionary()


class AnswerMemory(Generic[Kept]):
    """Answers in the order they were given, each with what it was about; at most `most` tokens of them, the latest."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._answers: deque[tuple[Hashable, int, Kept]] = deque()
        self._tokens = 0

    @property
    def tokens(self) -> int:
        return self._tokens

    def others(self, about: Hashable) -> list[Kept]:
        return [kept for one, _, kept in self._answers if one != about]

    def remember(self, about: Hashable, tokens: int, kept: Kept) -> None:
        """Takes an answer of so many tokens in, in place of an earlier one about the same; more than fits is let go."""
        for place, (one, size, _) in enumerate(self._answers):
            if one == about:
                del self._answers[place]
                self._tokens -= size
                break
        self._answers.append((about, tokens, kept))
        self._tokens += tokens
        while self._tokens > self._most:
            self._tokens -= self._answers.popleft()[1]


def memory_of(model: LlamaDecoder, drafter: str, most: int) -> AnswerMemory[Any]:
    return _memories.setdefault(model, {}).setdefault(drafter, AnswerMemory(most))


LONGEST, SHORTEST = 3, 1
"""Sizes of the n-grams that are looked up, the longest first."""

NAME = "prompt lookup"


class ChainDrafter(Drafter):
    """Proposes a chain on `device`, up to one of `eos_ids`, while the product of its tokens' confidences is at least
    `least`."""

    def __init__(
        self, name: str, device: torch.device, eos_ids: frozenset[int] = frozenset(), *, least: float = 0.0
    ) -> None:
        super().__init__(name, torch.device("cpu"))
        self._place, self._eos_ids, self._least = device, eos_ids, least

    @abstractmethod
    def likely(self, ids: Sequence[int], count: int) -> Iterable[tuple[int, float]]:
        """Tokens that may follow the answer `ids`, each with its confidence; `count` of them are enough."""

    def propose(self, ids: Sequence[int], count: int, is_stopped: Callable[[], bool]) -> Proposal:
        drafted: list[int] = []
        sure = 1.0
        for token, confidence in islice(self.likely(ids, count), count):
            sure *= confidence
            if sure < self._least:
                break
            drafted.append(token)
            if token in self._eos_ids:
                break
        return Proposal(upload(drafted, self._place)) if drafted else Proposal.nothing()


class LookupDrafter(ChainDrafter):
    def __init__(self, device: torch.device, eos_ids: frozenset[int] = frozenset()) -> None:
        super().__init__(NAME, device, eos_ids)
        self._known = _Occurrences(())

    def start(self, context: PromptContext) -> None:
        self._known = _Occurrences(context.text_ids)

    def likely(self, ids: Sequence[int], count: int) -> Iterable[tuple[int, float]]:
        self._known.follow(ids)
        return ((token, 1.0) for token in self._known.continuation(count))


class _Occurrences:
    def __init__(self, prompt: Sequence[int]) -> None:
        self._prompt_length = len(prompt)
        self._sequence: list[int] = []
        self._behind: dict[tuple[int, ...], int] = {}
        self._grow(prompt)

    def follow(self, answer: Sequence[int]) -> None:
        self._grow(answer[len(self._sequence) - self._prompt_length :])

    def continuation(self, count: int) -> list[int]:
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


def make_lookup(side: DraftSide) -> LookupDrafter:
    return LookupDrafter(side.cached_target.device, side.eos_ids)


LEAST_CONFIDENCE = {"cpu": 0.45}
"""By device, of a drafted chain as a whole: where a verified position costs a fifth of a step, as on a CPU, an unlikely
chain does not pay."""

_ELSEWHERE = 0.2
"""A GPU verifies a few positions more in nearly the same time, so that unlikely ones pay as well."""


class NgramDrafter(ChainDrafter):
    """`least` is the device's by default."""

    def __init__(
        self,
        name: str,
        counts: NgramCounts,
        device: torch.device,
        eos_ids: frozenset[int] = frozenset(),
        *,
        least: float | None = None,
    ) -> None:
        default = LEAST_CONFIDENCE.get(device.type, _ELSEWHERE)
        super().__init__(name, device, eos_ids, least=default if least is None else least)
        self._counts = counts

    def likely(self, ids: Sequence[int], count: int) -> Iterable[tuple[int, float]]:
        recent = list(ids[-self._counts.order :])
        while (found := self._counts.after(recent)) is not None:
            yield found.token, found.confidence
            recent.append(found.token)


def make_ngram(side: DraftSide) -> NgramDrafter:
    info, target = side.trained, side.target.language_model
    check_target(info, target, side.target.facts.name)
    counts = kept(info, target, lambda: load_ngram(info))
    return NgramDrafter(info.name, counts, side.cached_target.device, side.eos_ids)


RECYCLING_NAME = "token recycling"

KEPT = 8

MOST_ROWS = 1 << 15

Rows = tuple[tuple[int, ...], torch.Tensor]
"""Tokens, and those that follow each [n, KEPT]."""


class RecyclingDrafter(Drafter):
    """Drafts chains, or trees of `widths`, from a table [rows, likeliest] on `device`. `memory` holds rows learned from
    earlier answers, except those `about` the same question."""

    def __init__(
        self,
        device: torch.device,
        rows: int,
        *,
        widths: Sequence[int] = (),
        memory: AnswerMemory[Rows] | None = None,
        about: Hashable = None,
    ) -> None:
        super().__init__(RECYCLING_NAME, device)
        self._kept = min(KEPT, rows)
        self._widths = tuple(min(width, self._kept) for width in widths)
        self._memory, self._about = memory, about
        self._table = torch.zeros(rows, self._kept, dtype=torch.long, device=device)
        self._known: set[int] = set()
        self._learnt: set[int] = set()
        for tokens, following in () if memory is None else memory.others(about):
            self._put(tokens, following)

    def propose(self, ids: Sequence[int], count: int, is_stopped: Callable[[], bool]) -> Proposal:
        if ids[-1] not in self._known:
            return Proposal.nothing()
        last = upload(ids[-1:], self.device)
        if not self._widths:
            return Proposal(self._chain(last, count))
        widths = self._widths[:count]
        levels: list[torch.Tensor] = []
        for width in widths:
            above = levels[-1] if levels else last
            levels.append(self._table[above, :width].flatten())
        return Proposal(torch.cat(levels), parents=parents_of(widths))

    def observe(self, ids: Sequence[int], verified: Verified) -> None:
        if verified.logits is None:
            return
        places = {token: place for place, token in enumerate(verified.block)}
        places |= {verified.block[place]: place for place in verified.path}
        at = upload(list(places.values()), self.device)
        self._put(tuple(places), verified.logits.topk(self._kept, dim=-1).indices.index_select(0, at))
        self._learnt.update(places)

    def finish(self, ids: Sequence[int]) -> None:
        if self._memory is not None and self._learnt:
            tokens = tuple(sorted(self._learnt))
            following = self._table.index_select(0, upload(tokens, self.device))
            self._memory.remember(self._about, len(tokens), (tokens, following))

    def _chain(self, last: torch.Tensor, count: int) -> torch.Tensor:
        reads_freely = self.device.type == "cpu"
        chosen: list[torch.Tensor] = []
        while len(chosen) < count:
            last = self._table[last, 0]
            chosen.append(last)
            if reads_freely and int(last) not in self._known:
                break
        return torch.cat(chosen)

    def _put(self, tokens: Sequence[int], following: torch.Tensor) -> None:
        self._table.index_copy_(0, upload(tokens, self.device), following)
        self._known.update(tokens)


def make_recycling(side: DraftSide) -> RecyclingDrafter:
    return RecyclingDrafter(
        side.cached_target.device,
        side.cached_target.vocabulary_size,
        widths=side.widths,
        memory=memory_of(side.target.language_model, "recycling", MOST_ROWS),
        about=side.about,
    )
