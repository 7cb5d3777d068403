"""An EAGLE-style head as drafter: it follows the target's own hidden states, and drafts a chain or a tree.

In each round the first pass also takes in what the last verification made certain, with the target's true hidden
states in place of what was guessed there; so a round costs as many passes as levels are drafted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from engines.adapters.folder import kept
from engines.adapters.following import FollowingHead, HeadPass
from engines.adapters.published import load_head
from engines.decoder.decoding import CachedModel
from engines.decoder.sampling import draw
from engines.drafters.drafter import DraftSide, PromptContext, Proposal, Verified
from engines.drafters.head_drafter import HeadDrafter, StaticTree, grow
from engines.tokens.prompts import SLOT
from engines.tokens.uploads import upload
from evprof.core.errors import Cancelled
from evprof.core.vocabulary.speculation import DynamicTree

_ROOM = 256
"""Places set aside for an answer; more are found when they are needed."""


class EagleDrafter(HeadDrafter):
    """`target` is the model whose hidden states it follows; `shaped` is what `HeadDrafter` is told."""

    def __init__(
        self,
        name: str,
        head: FollowingHead,
        target: CachedModel,
        eos_ids: frozenset[int],
        **shaped: Any,
    ) -> None:
        super().__init__(name, target, head.choices, **shaped)
        self._head, self.reads, self._eos_ids = head, head.reads, eos_ids
        self._pass: HeadPass | None = None
        self._known = 0
        self._waiting: torch.Tensor | None = None

    @property
    def head_pass(self) -> HeadPass:
        """The head with its cache. Raises RuntimeError before `start`."""
        if self._pass is None:
            raise RuntimeError("a drafter is started before it drafts")
        return self._pass

    def start(self, context: PromptContext) -> None:
        """Looks back at the prompt's last positions. Raises RuntimeError without its hidden states."""
        if context.features is None or context.embeddings is None:
            raise RuntimeError("a head drafts from the target's hidden states")
        features, embeddings = context.features[0], context.embeddings[0]
        last = features.shape[0] - 1
        first = 0 if self._head.window is None else max(0, last - self._head.window)
        states = self._head.taken(features[first:], self._decoder)
        self._pass = HeadPass(self._head, self._decoder, last - first + _ROOM)
        self._pass.look_back(states[:-1], *self._seen_places(context, embeddings, first + 1))
        self._known = self._pass.length
        self._waiting = states[-1:]

    def _seen_places(
        self, context: PromptContext, embeddings: torch.Tensor, first: int
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        seen = embeddings[first:]
        if self._head.embedding is None and not self._head.sees_pictures:
            return seen, None
        ids = upload(context.places(embeddings.shape[0])[first:], self.device)
        pictures = ids == SLOT
        return torch.where(pictures[:, None], seen, self._head.embed(ids.clamp(min=0), self._decoder)), pictures

    def propose(self, ids: Sequence[int], count: int, is_stopped: Callable[[], bool]) -> Proposal:
        guess = self._catch_up(ids)
        if (limits := self._limits(count)) is not None:
            return self._grow_freely(guess, limits, is_stopped)
        if self._widths:
            return self._grow(guess, self._tree(min(count, len(self._widths))), is_stopped)
        return self._chain(guess, count, is_stopped)

    def observe(self, ids: Sequence[int], verified: Verified) -> None:
        if verified.features is None:
            raise RuntimeError("a head drafts from the target's hidden states")
        self.head_pass.crop(self._known)
        path, states = verified.path, verified.features[0]
        is_chain = path[-1] == len(path) - 1
        true = states[: len(path)] if is_chain else states.index_select(0, upload(path, states.device))
        true = self._head.taken(true, self._decoder)
        # A round that drafted nothing has left what it knew before.
        self._waiting = true if self._waiting is None else torch.cat([self._waiting, true])

    def _catch_up(self, ids: Sequence[int]) -> torch.Tensor:
        features, head = self._waiting, self.head_pass
        if features is None or features.shape[0] > len(ids):
            raise RuntimeError("hidden states and tokens do not match")
        behind = upload(ids[len(ids) - features.shape[0] :], self.device)
        guess = head.follow(features, behind)
        self._known, self._waiting = head.length, None
        return guess

    def _chain(self, guess: torch.Tensor, count: int, is_stopped: Callable[[], bool]) -> Proposal:
        reads_freely = self.device.type == "cpu"
        head, law = self.head_pass, self._law
        chosen: list[torch.Tensor] = []
        laws: list[torch.Tensor] = []
        seen: list[torch.Tensor] = []
        while True:
            if is_stopped():
                raise Cancelled
            logits = head.logits(guess)
            seen.append(logits)
            if law is None:
                token = logits.argmax(-1)
            else:
                laws.append(law(logits))
                token = draw(laws[-1], self._generator)[:, 0]
            chosen.append(token)
            if len(chosen) == count or (reads_freely and int(token) in self._eos_ids):
                break  # nothing follows the end
            guess = head.follow(guess, token)
        return Proposal(torch.cat(chosen), torch.cat(laws) if laws else None, logits=seen)

    def _grow(self, guess: torch.Tensor, tree: StaticTree, is_stopped: Callable[[], bool]) -> Proposal:
        head, base = self.head_pass, self._known
        chosen: list[torch.Tensor] = []
        seen: list[torch.Tensor] = []
        for depth, level in enumerate(tree.levels):
            if is_stopped():
                raise Cancelled
            if depth:
                # Siblings go on from one state, that of their parent.
                states = guess.repeat_interleave(tree.levels[depth - 1].width, 0)
                guess = head.spread(states, chosen[-1], base + depth - 1, tree.mask(depth, base, self.device))
            logits = head.logits(guess)
            chosen.append(logits.topk(level.width, dim=-1).indices.flatten())
            rows = logits.split(1)
            seen += [rows[node // level.width] for node in range(level.nodes)]
        return Proposal(torch.cat(chosen), parents=tree.parents, logits=seen)

    def _grow_freely(self, guess: torch.Tensor, limits: DynamicTree, is_stopped: Callable[[], bool]) -> Proposal:
        """Where the head is sure; of a level all nodes looked below go through it in one pass."""
        head, base = self.head_pass, self._known
        states, seen = guess, torch.empty(1, 0, dtype=torch.bool, device=self.device)

        def expand(ids: torch.Tensor, rows: torch.Tensor, level: int) -> torch.Tensor:
            nonlocal states, seen
            # What a parent sees, and oneself.
            own = torch.eye(ids.shape[0], dtype=torch.bool, device=self.device)
            seen = torch.cat([seen.index_select(0, rows), own], dim=1)
            mask = torch.cat([seen.new_ones(ids.shape[0], base), seen], dim=1)
            states = head.spread(states.index_select(0, rows), ids, base + level - 1, mask)
            return head.logits(states)

        return grow(head.logits(guess), expand, limits, choices=self._choices, is_stopped=is_stopped)


def make(side: DraftSide) -> EagleDrafter:
    info, target = side.trained, side.target.language_model
    head = kept(info, target, lambda: load_head(info, target, side.target.facts.name))
    return EagleDrafter(
        info.name,
        head,
        side.cached_target,
        side.eos_ids,
        **side.shaped,
    )
