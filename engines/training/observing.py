"""One example out of one sample: the target's greedy answer, and both models' hidden states while it was written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from engines.decoder.decoding import CachedModel, Limits, decode
from engines.decoder.kv_cache import STATIC, KvCache
from engines.decoder.llama import LlamaDecoder
from engines.decoder.quantized_kv import make_cache
from engines.decoder.sampling import greedy
from engines.measuring.timing import NullClock
from engines.stages.model import ModelInputs, VisionLanguageModel
from engines.tokens.answer import SilentAnswer
from engines.tokens.vocabulary_alignment import align
from engines.training.example import Example
from evprof.core.errors import USAGE, Cancelled, UserError
from evprof.core.protocols import StopFlag
from evprof.core.records import DRAFT, TARGET
from evprof.core.request import input_of
from evprof.core.sample import Sample
from evprof.core.vocabulary.generation import GenerationSettings


class Observer:
    def __init__(
        self,
        target: VisionLanguageModel,
        draft: VisionLanguageModel | None,
        settings: GenerationSettings,
        layers: tuple[int, ...] = (),
    ) -> None:
        """`layers` of the target are those of which it keeps what enters them."""
        self.target, self.draft, self._layers = target, draft, layers
        self._settings = settings
        self._alignment = None if draft is None else align(draft.vocabulary, target.vocabulary)
        for model in (target, *(() if draft is None else (draft,))):
            model.make_ready(settings)

    @torch.inference_mode()
    def example(self, sample: Sample, stop: StopFlag) -> Example:
        """Raises UserError for a sample that cannot be read, Cancelled when stopped."""
        models = {TARGET: self.target, **({} if self.draft is None else {DRAFT: self.draft})}
        for role in models:
            kind = input_of(self._settings.input, role)
            path = sample.events_path if kind == "events" else sample.video_path
            if path is None:
                what = "an event recording" if kind == "events" else "a video"
                raise UserError(f"The {role} reads {kind} and the sample has none; add {what}.", exit_code=USAGE)
        prompt, visual, inputs = self._prompt(self.target, TARGET, sample)
        if stop.is_set():
            raise Cancelled
        ids, features = self._answer(prompt, stop)
        draft_prompt = draft_features = draft_visual = None
        if self.draft is not None and self._alignment is not None:
            draft_prompt, draft_visual, _ = self._prompt(self.draft, DRAFT, sample)
            fed = self._alignment.for_draft(ids[:-1])
            draft_features = forced_features(self.draft.language_model, draft_prompt, fed)[0]
        states = features.split(self.target.language_model.config.hidden_size, dim=-1)
        inside = states[: len(self._layers)]
        return Example(
            sample.name,
            sample.prompt,
            torch.tensor(ids),
            inputs.text_ids,
            prompt[0],
            states[-1],
            visual,
            None if draft_prompt is None else draft_prompt[0],
            draft_features,
            draft_visual,
            torch.cat(inside, dim=-1) if inside else None,
        )

    def _prompt(
        self, model: VisionLanguageModel, role: str, sample: Sample
    ) -> tuple[torch.Tensor, tuple[int, int], ModelInputs]:
        clock = NullClock()
        host = model.load(sample, self._settings, clock, kind=input_of(self._settings.input, role))
        inputs = model.preprocess(host, sample.prompt, self._settings, clock)
        embeddings = model.embed_prompt(inputs, model.encode_vision(inputs, clock))
        return embeddings, visual_span(inputs), inputs

    def _answer(self, prompt: torch.Tensor, stop: StopFlag) -> tuple[list[int], torch.Tensor]:
        model, most = self.target, self._settings.max_new_tokens
        eos_ids = frozenset() if self._settings.ignore_eos else model.vocabulary.eos_ids
        heard = Listening(model.language_model, TARGET, model.device, model.language_model.rows, keeps_features=True)
        if self._layers:
            heard.reads = tuple(sorted({*self._layers, model.language_model.config.num_hidden_layers}))
        # Two positions beyond the answer: on a GPU tokens are read one step late.
        heard.cache = _cache(model.language_model, prompt, prompt.shape[1] + most + 2)
        answer = SilentAnswer()
        first = greedy(heard.prefill(prompt, stop))
        states = [heard.features[0]] if heard.features is not None else []
        answer.add(int(first))
        decode(heard, first, answer, Limits(most, eos_ids), sampler=greedy, clock=NullClock(), stop=stop)
        states += heard.steps[: len(answer.ids) - 1]
        return list(answer.ids), torch.cat(states)


@dataclass
class Listening(CachedModel):
    steps: list[torch.Tensor] = field(default_factory=list)

    def step(self, ids: torch.Tensor, keep: int = 1) -> torch.Tensor:
        logits = super().step(ids, keep)
        if self.features is not None:
            self.steps.append(self.features[0, -1:])
        return logits


def forced_features(decoder: LlamaDecoder, prompt: torch.Tensor, ids: Sequence[int]) -> torch.Tensor:
    """Last hidden states [1, S + n, hidden], before the last norm, of a prompt [1, S, hidden] and n ids after it."""
    fed = prompt
    if ids:
        fed = torch.cat([prompt, decoder.embed(torch.tensor([list(ids)], device=prompt.device))], dim=1)
    return decoder.trunk(fed, _cache(decoder, prompt, fed.shape[1]))


def visual_span(inputs: ModelInputs) -> tuple[int, int]:
    """First visual position of a prompt, and the number of positions to the end of the last one."""
    slots, visual = inputs.slots, inputs.lengths.visual
    return slots[0], slots[-1] - slots[0] + visual


def _cache(decoder: LlamaDecoder, like: torch.Tensor, capacity: int) -> KvCache:
    return make_cache(STATIC, decoder.config, capacity=capacity, device=like.device, dtype=like.dtype)
