"""Plain and speculative answers of small models, for tests of speculation: what is said, and what the caches hold."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers import DynamicCache, LlamaForCausalLM

from closeness import assert_close
from engines.decoder.decoding import CachedModel, Limits, decode
from engines.decoder.kv_cache import STATIC
from engines.decoder.llama import LlamaDecoder
from engines.decoder.sampling import Law, Sampler, greedy
from engines.drafters.drafter import Drafter, PromptContext
from engines.drafters.model_drafter import ModelDrafter
from engines.measuring.timing import OpenSpan, StageClock
from engines.speculation.draft_length import DraftLength
from engines.speculation.rounds import JudgementLog, Rounds, Verifier
from engines.tokens.answer import AlternativesLog, Answer
from engines.tokens.vocabulary_alignment import first_shared
from evprof.core.errors import Cancelled

PIECES = [f"<{index}>" for index in range(300)]
GAMMA = 4
NEVER = threading.Event()


def cached(model: LlamaForCausalLM | LlamaDecoder, role: str = "target", *, kind: str = STATIC) -> CachedModel:
    decoder = model if isinstance(model, LlamaDecoder) else LlamaDecoder.take_over(model)
    return CachedModel.over(decoder, role, kind=kind, bytes_per_position=1)


def prompt_of(seed: int, length: int = 10, vocabulary: int = 250) -> torch.Tensor:
    """Random ids [1, length]."""
    return torch.randint(0, vocabulary, (1, length), generator=torch.Generator().manual_seed(seed))


def noisy(model: LlamaForCausalLM, share: float, seed: int = 9) -> LlamaForCausalLM:
    """The same model with every weight moved by `share` of its tensor's spread."""
    drawn = torch.Generator().manual_seed(seed)
    moved = copy.deepcopy(model)
    for weight in moved.parameters():
        weight.data += share * weight.data.std(correction=0) * torch.randn(weight.shape, generator=drawn)
    return moved


def plain(
    model: LlamaForCausalLM | LlamaDecoder | CachedModel,
    prompt: torch.Tensor,
    limits: Limits,
    sink: Any,
    *,
    kind: str = STATIC,
    chunk: int = 0,
    sampler: Sampler = greedy,
) -> list[int]:
    one = model if isinstance(model, CachedModel) else cached(model, kind=kind)
    one.prefill_chunk = chunk
    answer = Answer(sink, 1, "target", PIECES)
    first = sampler(one.prefill(one.decoder.embed(prompt), NEVER))
    answer.add(int(first))
    decode(one, first, answer, limits, sampler=sampler, clock=StageClock(sink, 1), stop=NEVER)
    return answer.ids


@dataclass
class Played:
    """An answer in rounds: `target` with its cache, `drafter`, and whether it was cancelled."""

    answer: Answer
    target: CachedModel
    drafter: Drafter
    cancelled: bool = False
    span: OpenSpan | None = None

    @property
    def ids(self) -> list[int]:
        return self.answer.ids

    @property
    def draft(self) -> CachedModel:
        inner = getattr(self.drafter, "inner", self.drafter)
        assert isinstance(inner, ModelDrafter)
        return inner.model


def drafting(
    draft: LlamaForCausalLM | CachedModel,
    prompt: torch.Tensor,
    rows: int,
    *,
    kind: str = STATIC,
    eos_ids: frozenset[int] = frozenset(),
    law: Law | None = None,
    generator: torch.Generator | None = None,
) -> ModelDrafter:
    """A draft model, prefilled; ids up to the smaller of both vocabularies mean the same. `rows` is the target's."""
    one = draft if isinstance(draft, CachedModel) else cached(draft, "draft", kind=kind)
    one.prefill(one.decoder.embed(prompt), NEVER)
    shared = first_shared(min(one.vocabulary_size, rows))
    return ModelDrafter("draft", one, shared, eos_ids, law=law, generator=generator, target_rows=rows)


def play(
    target: LlamaForCausalLM | CachedModel,
    drafter: Drafter | Callable[[CachedModel], Drafter],
    prompt: torch.Tensor,
    limits: Limits,
    sink: Any,
    *,
    gamma: int = GAMMA,
    kind: str = STATIC,
    chunk: int = 0,
    stop: Any = None,
    length: DraftLength | None = None,
    verifier: Verifier | None = None,
    log: JudgementLog | None = None,
    clock: StageClock | None = None,
    alternatives: AlternativesLog | None = None,
) -> Played:
    one = target if isinstance(target, CachedModel) else cached(target, kind=kind)
    made = drafter if not callable(drafter) else drafter(one)
    one.keeps_features, one.prefill_chunk, one.reads = made.wants_features, chunk, made.reads
    verifier = verifier or Verifier()
    sample = verifier.sample if alternatives is None else alternatives.watched(verifier.sample)
    first = sample(one.prefill(one.decoder.embed(prompt), NEVER))
    answer = Answer(sink, 1, "target", PIECES)
    answer.add(int(first))
    clock = clock or StageClock(sink, 1)
    played = Played(answer, one, made)
    rounds = Rounds(
        one,
        made,
        answer,
        limits,
        length=length or DraftLength(gamma),
        verifier=verifier,
        clock=clock,
        stop=stop or NEVER,
        context=PromptContext(prompt[0].tolist(), one.prompt_embeddings, one.features),
        log=log,
        alternatives=alternatives,
    )
    try:
        with clock.stage("decode", "target", one.device) as played.span:
            rounds.run()
    except Cancelled:
        played.cancelled = True
    return played


def sequence(prompt: torch.Tensor, ids: Sequence[int]) -> torch.Tensor:
    """A prompt and tokens after it: [1, S]."""
    return torch.cat([prompt, torch.tensor([list(ids)], dtype=torch.long)], dim=1)


def assert_cache_is_fresh(one: CachedModel, model: Any, tokens: torch.Tensor) -> None:
    """The cache equals that of one pass of transformers' own over the same tokens [1, S]."""
    fresh: Any = DynamicCache()
    model(input_ids=tokens, past_key_values=fresh, use_cache=True)
    assert one.length == tokens.shape[1]
    assert one.opened.layer_count == len(fresh.layers)
    for index, expected in enumerate(fresh.layers):
        keys, values = one.opened.tensors(index)
        assert keys.shape == expected.keys.shape
        assert_close(keys, expected.keys)
        assert_close(values, expected.values)
