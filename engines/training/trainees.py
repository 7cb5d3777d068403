"""The trained kinds beside EAGLE heads: hidden-state adapters, KV maps, LoRA changes and n-gram counts.

Each is taught with teacher-forced cross-entropy on the target's own greedy answer. A hidden-state adapter uses the
target's frozen norm and head. A KV map uses the target's layers over a mapped cache. LoRA uses the draft's own prompt
and ids. N-gram counts need one look at all examples.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from engines.adapters.hidden_states import HiddenAdapter, HiddenSizes, KvMap, KvSizes
from engines.adapters.lora import LowRankLinear, projections
from engines.adapters.ngram import MOST_CONTEXTS, ORDER, NgramCounts
from engines.decoder.kv_cache import DynamicKv
from engines.decoder.llama import LlamaDecoder
from engines.tokens.vocabulary_alignment import LACKING, Alignment, align
from engines.training.eagle_trainee import make as make_eagle
from engines.training.example import Example, padded
from engines.training.loop import Figures, Forced, ForcedTrainee, ModuleTrainee, Trainee, TraineeSide
from evprof.core.errors import USAGE, UserError
from evprof.core.vocabulary.drafters import KINDS, TAUGHT_KINDS

BLIND_SHARE = 0.1


class HiddenTrainee(ModuleTrainee, ForcedTrainee):
    def __init__(self, target: LlamaDecoder, sizes: HiddenSizes, *, seed: int = 0) -> None:
        torch.manual_seed(seed)
        weight = target.lm_head.weight
        self.adapter = HiddenAdapter(sizes).to(weight.device)
        super().__init__(self.adapter)
        self._device = weight.device
        self._norm, self._eps = target.norm.detach().float(), target.config.rms_norm_eps
        self._head = weight.detach().float()
        self._dice = torch.Generator().manual_seed(seed)

    def config(self) -> dict[str, Any]:
        return dict(self.adapter.sizes.config())

    def predict(self, examples: Sequence[Example], *, is_training: bool) -> Forced:
        device = self._device
        is_blind = is_training and float(torch.rand((), generator=self._dice)) < BLIND_SHARE
        # The draft's hidden states whose next token each answer token is.
        states = [features[embeddings.shape[0] - 1 :] for embeddings, features, _ in (each.paired for each in examples)]
        counts = torch.tensor([state.shape[0] for state in states], device=device)
        hidden = padded(states).to(device, torch.float32)
        # Prompts of one model hold equally many visual positions, or they cannot stand in one batch.
        spans = [(each.target_embeddings, *each.target_visual) for each in examples]
        visual = torch.stack([embeddings[first : first + count] for embeddings, first, count in spans])
        seen = None if is_blind else self.adapter.look(visual.to(device, torch.float32))
        state = self.adapter(hidden, seen)[torch.arange(hidden.shape[1], device=device) < counts[:, None]]
        logits = F.linear(F.rms_norm(state, state.shape[-1:], self._norm, self._eps), self._head)
        answers = torch.cat([each.answer_ids for each in examples]).to(device)
        return Forced(logits, answers)


def make_hidden(side: TraineeSide) -> HiddenTrainee:
    target, draft = side.target.language_model, side.paired.language_model
    width = target.config.hidden_size
    sizes = HiddenSizes(
        draft.config.hidden_size,
        width,
        side.size("bottleneck", 2 * width),
        side.size("heads", 4),
        side.size("head_dim", 32),
    )
    return HiddenTrainee(target, sizes, seed=side.seed)


def answer_states(
    decoder: LlamaDecoder, prompts: Sequence[torch.Tensor], answers: Sequence[torch.Tensor], cache: DynamicKv
) -> torch.Tensor:
    """[N, hidden]: the states that the tokens of all answers are chosen from, after prompts [S_i, hidden] each."""
    device, dtype = decoder.device, decoder.embed_tokens.weight.dtype
    rows = [
        torch.cat([prompt.to(device, dtype), decoder.embed(ids[:-1])])
        for prompt, ids in zip(prompts, answers, strict=True)
    ]
    hidden = decoder.trunk(padded(rows), cache)
    return torch.cat([hidden[row, len(prompts[row]) - 1 : len(rows[row])] for row in range(len(rows))])


class KvTrainee(ModuleTrainee, ForcedTrainee):
    """A map between the caches of two frozen models."""

    def __init__(self, draft: LlamaDecoder, target: LlamaDecoder, *, bottleneck: int = 64, seed: int = 0) -> None:
        torch.manual_seed(seed)
        self._draft, self._target = draft.requires_grad_(False), target.requires_grad_(False)
        self.map = KvMap(KvSizes.between(draft, target, bottleneck)).to(target.device)
        super().__init__(self.map)

    def config(self) -> dict[str, Any]:
        return self.map.sizes.config()

    def predict(self, examples: Sequence[Example], *, is_training: bool) -> Forced:
        """Examples whose prompts begin alike at a time."""
        alike: dict[tuple[int, int], list[Example]] = defaultdict(list)
        for example in examples:
            alike[(example.target_visual[0], example.paired[2][1])].append(example)
        answers = [example.answer_ids for group in alike.values() for example in group]
        logits = torch.cat([self._logits(group) for group in alike.values()])
        return Forced(logits, torch.cat(answers).to(self._target.device))

    def _logits(self, examples: Sequence[Example]) -> torch.Tensor:
        target, device = self._target, self._target.device
        before = torch.stack([example.target_embeddings[: example.target_visual[0]] for example in examples])
        cache = DynamicKv(len(target.layers))
        with torch.no_grad():
            states = self.draft_levels(examples)
            target.trunk(before.to(device, target.embed_tokens.weight.dtype), cache)
        self.map.fill(self.map.predict(states), target, cache)
        after = [example.target_embeddings[sum(example.target_visual) :] for example in examples]
        answers = [example.answer_ids.to(device) for example in examples]
        return target.head(answer_states(target, after, answers, cache)).float()

    def draft_levels(self, examples: Sequence[Example]) -> list[torch.Tensor]:
        """Level by level the draft's hidden states at its visual positions, [B, V, draft], on the target's device."""
        draft = self._draft
        first, count = examples[0].paired[2]
        rows = torch.stack([example.paired[0][: first + count] for example in examples])
        kept: list[torch.Tensor] = []
        left = draft.trunk(
            rows.to(draft.device, draft.embed_tokens.weight.dtype), DynamicKv(len(draft.layers)), inputs=kept
        )
        return [level[:, first:].to(self._target.device, torch.float32) for level in (*kept, left)]


def make_kv(side: TraineeSide) -> KvTrainee:
    draft, target = side.paired.language_model, side.target.language_model
    return KvTrainee(draft, target, bottleneck=side.size("bottleneck", 64), seed=side.seed)


class LoraTrainee(ForcedTrainee):
    """Changes of `draft` of one `rank`. The draft is the trainee's until `release`."""

    def __init__(self, draft: LlamaDecoder, alignment: Alignment, *, rank: int = 16, seed: int = 0) -> None:
        torch.manual_seed(seed)
        self.rank = rank
        self._draft, self._alignment = draft, alignment
        self._met = {other for other in alignment.to_target if other != LACKING}
        draft.requires_grad_(False)
        self._learnt: dict[str, LowRankLinear] = {}
        for name, layer, attribute, linear in list(projections(draft)):
            learnt = LowRankLinear(linear, rank, (linear.out_features, linear.in_features), linear.weight)
            self._learnt[name] = learnt
            setattr(layer, attribute, learnt)

    def release(self) -> None:
        for name, learnt in self._learnt.items():
            _, index, attribute = name.split(".")
            setattr(self._draft.layers[int(index)], attribute, learnt.base)

    def parameters(self) -> list[nn.Parameter]:
        return [factor for learnt in self._learnt.values() for factor in (learnt.up, learnt.down)]

    def tensors(self) -> dict[str, torch.Tensor]:
        return {
            f"{name}.{part}": getattr(learnt, part).detach().clone()
            for name, learnt in self._learnt.items()
            for part in ("up", "down")
        }

    def config(self) -> dict[str, Any]:
        return {"rank": self.rank}

    def predict(self, examples: Sequence[Example], *, is_training: bool) -> Forced:
        """Answers in the draft's ids; tokens that the draft lacks are not `known`."""
        draft = self._draft
        told: list[list[int]] = [example.answer_ids.tolist() for example in examples]
        answers = [torch.tensor(self._alignment.for_draft(ids), device=draft.device) for ids in told]
        prompts = [example.paired[0] for example in examples]
        states = answer_states(draft, prompts, answers, DynamicKv(len(draft.layers)))
        known = torch.tensor([token in self._met for ids in told for token in ids], device=draft.device)
        return Forced(draft.head(states).float(), torch.cat(answers), known)


def make_lora(side: TraineeSide) -> LoraTrainee:
    draft = side.paired
    alignment = align(draft.vocabulary, side.target.vocabulary)
    return LoraTrainee(draft.language_model, alignment, rank=side.size("rank", 16), seed=side.seed)


class NgramTrainee(Trainee):
    """Counts continuations of up to `order` ids; `rows` is the target's vocabulary."""

    def __init__(self, rows: int, *, order: int = ORDER) -> None:
        self._rows = rows
        self._order = order
        self.counts = NgramCounts(order, {})

    def parameters(self) -> list[nn.Parameter]:
        return []

    def loss(self, examples: Sequence[Example]) -> torch.Tensor:
        return torch.tensor(self.figures(examples).loss)

    def fit(self, examples: Sequence[Example]) -> None:
        self.counts = NgramCounts.of((example.answer_ids.tolist() for example in examples), self._order, MOST_CONTEXTS)

    def figures(self, examples: Sequence[Example]) -> Figures:
        loss, right, judged = 0.0, 0, 0
        for example in examples:
            answer: list[int] = example.answer_ids.tolist()
            for place in range(1, len(answer)):
                found = self.counts.after(answer[:place])
                is_right = found is not None and found.token == answer[place]
                sure = 0.0 if found is None else found.confidence
                others = self._rows - (found is not None)
                loss -= math.log(sure if is_right else (1 - sure) / max(1, others))
                right += is_right
                judged += 1
        return Figures(loss / judged if judged else math.nan, right / judged if judged else math.nan)

    def tensors(self) -> dict[str, torch.Tensor]:
        return self.counts.tensors()

    def config(self) -> dict[str, Any]:
        return self.counts.config()


def make_ngram(side: TraineeSide) -> NgramTrainee:
    return NgramTrainee(side.target.language_model.rows, order=side.size("order", ORDER))


TRAINEE_MAKERS: dict[str, Callable[[TraineeSide], Trainee]] = {
    "eagle": make_eagle,
    "hidden": make_hidden,
    "kv": make_kv,
    "lora": make_lora,
    "ngram": make_ngram,
}


def make_trainee(kind: str, side: TraineeSide) -> Trainee:
    """An untrained adapter. Raises UserError for sizes the kind does not have, and for models that do not suit it."""
    if kind not in TAUGHT_KINDS:
        raise UserError(f"--kind must be one of {', '.join(TAUGHT_KINDS)}, not {kind}.", exit_code=USAGE)
    known = KINDS[kind].sizes
    for name, value in side.sizes.items():
        if name not in known:
            names = ", ".join(known) or "none"
            raise UserError(f"--size: {kind} has no size '{name}'; it has {names}.", exit_code=USAGE)
        least, most = known[name]
        if not least <= value <= most:
            raise UserError(f"--size {name} of {kind} lies from {least} to {most}, not {value}.", exit_code=USAGE)
    return TRAINEE_MAKERS[kind](side)
