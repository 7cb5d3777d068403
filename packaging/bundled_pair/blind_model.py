"""An n-gram model that never saw a scene: what can be guessed of an answer from the words before it alone."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence


class BlindModel:
    """Counts of up to `order` tokens, smoothed after I. Witten and T. Bell (1991): a context is believed the more, the
    oftener it was followed by something known; the rest is left to the context one token shorter."""

    def __init__(self, answers: Iterable[Sequence[int]], order: int, vocabulary: int) -> None:
        self.order, self._vocabulary = order, vocabulary
        self._after: dict[tuple[int, ...], Counter[int]] = defaultdict(Counter)
        for ids in answers:
            for place, token in enumerate(ids):
                for length in range(min(place, order - 1) + 1):
                    self._after[tuple(ids[place - length : place])][token] += 1

    def probability(self, before: Sequence[int], token: int) -> float:
        """How likely `token` is after `before`."""
        share = 1.0 / self._vocabulary
        for length in range(min(len(before), self.order - 1) + 1):
            followers = self._after.get(tuple(before[len(before) - length :]))
            if followers is None:
                break
            seen = sum(followers.values())
            share = (followers[token] + len(followers) * share) / (seen + len(followers))
        return share

    def guess(self, before: Sequence[int]) -> int | None:
        """The token seen oftenest after the longest known context."""
        for length in range(min(len(before), self.order - 1), -1, -1):
            followers = self._after.get(tuple(before[len(before) - length :]))
            if followers:
                return followers.most_common(1)[0][0]
        return None

    def perplexity(self, answers: Sequence[Sequence[int]]) -> float:
        """Of answers, by the token; 1 would be to foretell every one."""
        bits = [math.log2(self.probability(ids[:place], ids[place])) for ids in answers for place in range(len(ids))]
        return float(2.0 ** (-sum(bits) / len(bits)))

    def right(self, answers: Sequence[Sequence[int]]) -> float:
        """The share of tokens it guesses."""
        hits = [self.guess(ids[:place]) == ids[place] for ids in answers for place in range(len(ids))]
        return sum(hits) / len(hits)
