"""Drafters that propose what a test wants: always right, never right, random, nothing, chains trees of any shape."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from engines.drafters.drafter import Drafter, PromptContext, Proposal, Verified

CPU = torch.device("cpu")

Tell = Callable[[Sequence[int], int], Sequence[int]]
"""The answer so far and a count -> tokens to propose."""


class Chain(Drafter):
    """Proposes what `tell` says, one token after another."""

    def __init__(self, tell: Tell) -> None:
        super().__init__("scripted", CPU)
        self.tell = tell
        self.asked: list[int] = []

    def propose(self, ids: Sequence[int], count: int, is_stopped: Callable[[], bool]) -> Proposal:
        self.asked.append(count)
        return Proposal(torch.tensor(list(self.tell(ids, count)), dtype=torch.long))


def oracle(expected: Sequence[int]) -> Chain:
    return Chain(lambda ids, count: expected[len(ids) : len(ids) + count])


def adversary(expected: Sequence[int], vocabulary: int) -> Chain:
    return Chain(lambda ids, count: [(token + 1) % vocabulary for token in padded(expected, len(ids), count)])


def guesser(seed: int, vocabulary: int) -> Chain:
    drawn = torch.Generator().manual_seed(seed)
    return Chain(lambda ids, count: torch.randint(0, vocabulary, (count,), generator=drawn).tolist())


def silent() -> Chain:
    return Chain(lambda ids, count: [])


def repeater() -> Chain:
    """What followed the last token when it was last said, over and over."""

    def tell(ids: Sequence[int], count: int) -> Sequence[int]:
        before = [place for place, token in enumerate(ids[:-1]) if token == ids[-1]]
        return ids[before[-1] + 1 :][:count] if before else []

    return Chain(tell)


def hit_and_miss(expected: Sequence[int], hits: Sequence[bool], vocabulary: int) -> Chain:
    """Right at the places of `hits` that say so, wrong at the others."""

    def tell(ids: Sequence[int], count: int) -> Sequence[int]:
        places = range(len(ids), len(ids) + count)
        return [
            token if hits[place % len(hits)] else (token + 1) % vocabulary
            for place, token in zip(places, padded(expected, len(ids), count), strict=True)
        ]

    return Chain(tell)


class Tree(Drafter):
    """Proposes a tree of a shape: `tell(ids, depth, node)` is what stands at a node, `depth` from 0.

    Takes no notice of the count it is given, as a drafter of fixed trees would not.
    """

    def __init__(self, parents: Sequence[int], tell: Callable[[Sequence[int], int, int], int]) -> None:
        super().__init__("scripted tree", CPU)
        self.parents = tuple(parents)
        self.tell = tell

    def propose(self, ids: Sequence[int], count: int, is_stopped: Callable[[], bool]) -> Proposal:
        depths = depths_of(self.parents)
        tokens = [self.tell(ids, depths[node], node) for node in range(len(self.parents))]
        return Proposal(torch.tensor(tokens, dtype=torch.long), parents=self.parents)


def tree_with_a_path(parents: Sequence[int], path: Sequence[int], expected: Sequence[int], vocabulary: int) -> Tree:
    """Right along a path of nodes, wrong at all others, where every node says something of its own."""
    right = set(path)

    def tell(ids: Sequence[int], depth: int, node: int) -> int:
        token = padded(expected, len(ids) + depth, 1)[0]
        return token if node in right else (token + 1 + node) % vocabulary

    return Tree(parents, tell)


class Drawing(Drafter):
    """Draws each token from a law over the vocabulary, whatever came before: `laws[place]` for the place in a round."""

    def __init__(self, laws: torch.Tensor, generator: torch.Generator) -> None:
        super().__init__("drawing", CPU)
        self._laws, self._generator = laws, generator

    def propose(self, ids: Sequence[int], count: int, is_stopped: Callable[[], bool]) -> Proposal:
        laws = self._laws[:count]
        chosen = torch.multinomial(laws, 1, generator=self._generator)[:, 0]
        return Proposal(chosen, laws)


class Watched:
    """Another drafter, and something to be done after each round, when either cache was cut back."""

    def __init__(self, inner: Drafter, after: Callable[[Sequence[int], Verified], Any]) -> None:
        self.inner, self.after = inner, after
        self.name, self.role, self.device = inner.name, inner.role, inner.device
        self.wants_features, self.reads = inner.wants_features, inner.reads

    def start(self, context: PromptContext) -> None:
        self.inner.start(context)

    def propose(self, ids: Sequence[int], count: int, is_stopped: Callable[[], bool]) -> Proposal:
        return self.inner.propose(ids, count, is_stopped)

    def observe(self, ids: Sequence[int], verified: Verified) -> None:
        self.inner.observe(ids, verified)
        self.after(ids, verified)

    def finish(self, ids: Sequence[int]) -> None:
        self.inner.finish(ids)

    def abandon(self, ids: Sequence[int]) -> None:
        self.inner.abandon(ids)

    def note_length(self, answer: Any) -> None:
        self.inner.note_length(answer)


def padded(expected: Sequence[int], start: int, count: int) -> list[int]:
    """`count` tokens of the answer from a place on; zeros after its end."""
    known = list(expected[start : start + count])
    return known + [0] * (count - len(known))


def depths_of(parents: Sequence[int]) -> list[int]:
    """How far below the root's last token each node hangs, from 0."""
    depths: list[int] = []
    for parent in parents:
        depths.append(0 if parent < 0 else depths[parent] + 1)
    return depths


def paths_of(parents: Sequence[int]) -> list[list[int]]:
    ways: list[list[int]] = []
    for node, parent in enumerate(parents):
        ways.append([*(ways[parent] if parent >= 0 else []), node])
    return [[], *ways]
