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
from engines.training.example import Example, joined_answers, padded
from engines.training.trainee import Figures, ModuleTrainee, Trainee, TraineeSide
from evprof.core.errors import USAGE, UserError
from evprof.core.vocabulary.drafters import KINDS, TAUGHT_KINDS

BLIND_SHARE = 0.1


class HiddenTrainee(ModuleTrainee):
    def __init__(self, target: LlamaDecoder, sizes: HiddenSizes, *, seed: int = 0) -> None:
        torch.manual_seed(seed)
        weight = target.lm_head.weight
        self.adapter = HiddenAdapter(sizes).to(weight.device)
        super().__init__(self.adapter)
        self._device = weight.device
        self._norm, self._eps = target.norm.detach().float(), target.config.rms_norm_eps
        self._head = weight.detach().float()
        self._dice = torch.Generator().manual_seed(seed)

    def loss(self, examples: Sequence[Example]) -> torch.Tensor:
        is_blind = float(torch.rand((), generator=self._dice)) < BLIND_SHARE
        _, logits, answers = self._predict(examples, is_blind=is_blind)
        return F.cross_entropy(logits, answers)

    @torch.no_grad()
    def figures(self, examples: Sequence[Example]) -> Figures:
        state, logits, answers = self._predict(examples, is_blind=False)
        true = torch.cat([example.target_features[example.target_prompt - 1 :] for example in examples])
        cosine = F.cosine_similarity(state, true.to(state.device, state.dtype), dim=-1).mean()
        loss = F.cross_entropy(logits, answers)
        match = (logits.argmax(dim=-1) == answers).float().mean()
        return Figures(float(loss), float(match), float(cosine))

    def config(self) -> dict[str, Any]:
        return dict(self.adapter.sizes.config())

    def _predict(
        self, examples: Sequence[Example], *, is_blind: bool
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Predicted hidden states [N, hidden], logits [N, V] and answer ids [N] of all tokens of all examples."""
        states = [_behind(example) for example in examples]
        counts = torch.tensor([state.shape[0] for state in states], device=self._device)
        hidden = padded(states).to(self._device, torch.float32)
        # Prompts of one model hold equally many visual positions, or they cannot stand in one batch.
        visual = torch.stack([_seen(example) for example in examples]).to(self._device, torch.float32)
        seen = None if is_blind else self.adapter.look(visual)
        is_there = torch.arange(hidden.shape[1], device=self._device) < counts[:, None]
        state = self.adapter(hidden, seen)[is_there]
        logits = F.linear(F.rms_norm(state, state.shape[-1:], self._norm, self._eps), self._head)
        return state, logits, joined_answers(examples, self._device)


def _behind(example: Example) -> torch.Tensor:
    """[n, draft]: the draft's hidden states whose next token each answer token is."""
    embeddings, features, _ = example.paired
    return features[embeddings.shape[0] - 1 :]


def _seen(example: Example) -> torch.Tensor:
    first, count = example.target_visual
    return example.target_embeddings[first : first + count]


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


class KvTrainee(ModuleTrainee):
    def __init__(self, draft: LlamaDecoder, target: LlamaDecoder, *, bottleneck: int = 64, seed: int = 0) -> None:
        torch.manual_seed(seed)
        self._draft, self._target = draft.requires_grad_(False), target.requires_grad_(False)
        self.map = KvMap(KvSizes.between(draft, target, bottleneck)).to(target.device)
        super().__init__(self.map)

    def loss(self, examples: Sequence[Example]) -> torch.Tensor:
        logits, answers = self._predict(examples)
        return F.cross_entropy(logits, answers)

    @torch.no_grad()
    def figures(self, examples: Sequence[Example]) -> Figures:
        logits, answers = self._predict(examples)
        loss = F.cross_entropy(logits, answers)
        return Figures(float(loss), float((logits.argmax(dim=-1) == answers).float().mean()))

    def config(self) -> dict[str, Any]:
        return self.map.sizes.config()

    def _predict(self, examples: Sequence[Example]) -> tuple[torch.Tensor, torch.Tensor]:
        """Logits [N, V] and answer ids [N] of all tokens, examples whose prompts begin alike at a time."""
        alike: dict[tuple[int, int], list[Example]] = defaultdict(list)
        for example in examples:
            alike[(example.target_visual[0], example.paired[2][1])].append(example)
        found = [self._answered(group) for group in alike.values()]
        return torch.cat([logits for logits, _ in found]), torch.cat([answers for _, answers in found])

    def _answered(self, examples: Sequence[Example]) -> tuple[torch.Tensor, torch.Tensor]:
        target, device = self._target, self._target.device
        dtype = target.embed_tokens.weight.dtype
        rows, places, answers = [], [], []
        for example in examples:
            ids = example.answer_ids.to(device)
            after = example.target_embeddings[sum(example.target_visual) :].to(device, dtype)
            rows.append(torch.cat([after, target.embed(ids[:-1])]))
            places.append(range(after.shape[0] - 1, rows[-1].shape[0]))
            answers.append(ids)
        before = torch.stack([example.target_embeddings[: example.target_visual[0]] for example in examples])
        cache = DynamicKv(len(target.layers))
        with torch.no_grad():
            states = self.draft_levels(examples)
            target.trunk(before.to(device, dtype), cache)
        self.map.fill(self.map.predict(states), target, cache)
        hidden = target.trunk(padded(rows), cache)
        asked = torch.cat([hidden[row, list(place)] for row, place in enumerate(places)])
        return target.head(asked).float(), torch.cat(answers)

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
    return KvTrainee(
        side.paired.language_model,
        side.target.language_model,
        bottleneck=side.size("bottleneck", 64),
        seed=side.seed,
    )


class LoraTrainee(Trainee):
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

    def loss(self, examples: Sequence[Example]) -> torch.Tensor:
        logits, answers, is_known = self._predict(examples)
        return F.cross_entropy(logits[is_known], answers[is_known])

    @torch.no_grad()
    def figures(self, examples: Sequence[Example]) -> Figures:
        """Loss over the tokens the draft can say; the match counts those it cannot as missed."""
        logits, answers, is_known = self._predict(examples)
        loss = F.cross_entropy(logits[is_known], answers[is_known])
        match = ((logits.argmax(dim=-1) == answers) & is_known).float().mean()
        return Figures(float(loss), float(match))

    def tensors(self) -> dict[str, torch.Tensor]:
        return {
            f"{name}.{part}": getattr(learnt, part).detach().clone()
            for name, learnt in self._learnt.items()
            for part in ("up", "down")
        }

    def load(self, tensors: dict[str, torch.Tensor]) -> None:
        with torch.no_grad():
            for name, learnt in self._learnt.items():
                learnt.up.copy_(tensors[f"{name}.up"])
                learnt.down.copy_(tensors[f"{name}.down"])

    def config(self) -> dict[str, Any]:
        return {"rank": self.rank}

    def _predict(self, examples: Sequence[Example]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Logits [N, V], answers [N] in the draft's ids, and which of these it has an id for, [N]."""
        draft, device = self._draft, self._draft.device
        rows, places, answers, known = [], [], [], []
        for example in examples:
            told: list[int] = example.answer_ids.tolist()
            ids = torch.tensor(self._alignment.for_draft(told), device=device)
            prompt = example.paired[0].to(device, draft.embed_tokens.weight.dtype)
            rows.append(torch.cat([prompt, draft.embed(ids[:-1])]))
            places.append(range(prompt.shape[0] - 1, prompt.shape[0] - 1 + len(told)))
            answers.append(ids)
            known.append(torch.tensor([token in self._met for token in told], device=device))
        states = draft.trunk(padded(rows), DynamicKv(len(draft.layers)))
        asked = torch.cat([states[row, list(place)] for row, place in enumerate(places)])
        return draft.head(asked).float(), torch.cat(answers), torch.cat(known)


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

    def load(self, tensors: dict[str, torch.Tensor]) -> None:
        self.counts = NgramCounts.from_tensors(tensors, self._order, self._rows, "the training's own state")

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
