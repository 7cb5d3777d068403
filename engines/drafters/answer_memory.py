"""What drafters that learn as they go keep of a model's earlier answers, as long as the model is warm.

An answer to the question that is asked again is left out: repeats of a run would otherwise be drafted from themselves,
and measure a memory of one answer instead of a drafter.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

from engines.decoder.llama import LlamaDecoder

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
        """How many tokens are kept."""
        return self._tokens

    def others(self, about: Hashable) -> list[Kept]:
        """What is kept of answers about anything else, the oldest first."""
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
    """The memory that a drafter, by its key, has of a model's answers; it goes with the model."""
    return _memories.setdefault(model, {}).setdefault(drafter, AnswerMemory(most))
