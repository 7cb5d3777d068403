"""One model's way through a run: load, preprocess, vision and prefill as explicit calls, each a measured stage."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, InitVar, dataclass, field, replace
from typing import Any

import torch

from engines.decoder.attention import PromptMask
from engines.decoder.cuda_graphs import GraphStep
from engines.decoder.decoding import CachedModel, DecodeStep, Limits
from engines.decoder.eager_steps import IDENTICAL, SPARE
from engines.decoder.kv_cache import STATIC, bytes_per_position
from engines.decoder.quantized_kv import make_cache
from engines.decoder.sampling import Sampler
from engines.measuring.stage_memory import StageMemory, bytes_since, disk_bytes
from engines.measuring.timing import StageClock
from engines.stages.model import HostInputs, ModelInputs, VisionLanguageModel
from engines.tokens.answer import Answer
from evprof.core.errors import Cancelled
from evprof.core.protocols import StopFlag
from evprof.core.request import input_of
from evprof.core.sample import Sample
from evprof.core.vocabulary.generation import GenerationSettings

Tell = Callable[[str, Any], None]
"""Hears "start_ns" (an int), "loading" (LoadingFacts) and "lengths" (LengthFacts)."""


class Prefilling:
    """What stage prefill does between its spans; subclasses do more. With a `sampler` it adds the first token. `beside`
    are cache positions that the prompt's embeddings do not fill."""

    beside = 0

    def __init__(self, answer: Answer, sampler: Sampler | None) -> None:
        self.answer = answer
        self.sampler = sampler

    def begin(self) -> None:
        """The stage has begun."""

    def compute(self, cached: CachedModel, embeddings: torch.Tensor, stop: StopFlag) -> torch.Tensor:
        """The prompt [1, S, hidden] -> logits [1, V] of what follows it."""
        return cached.prefill(embeddings, stop)

    def take(self, logits: torch.Tensor) -> torch.Tensor | None:
        if self.sampler is None:
            return None
        first = self.sampler(logits)
        # The one wait before decode: when the first token is there is what a person asks about.
        self.answer.add(int(first))
        return first


@dataclass(eq=False)
class ModelPass:
    """A loaded model in one run. `visual` [V, hidden] comes from stage vision; after `prefill`, `cached` can decode."""

    model: VisionLanguageModel
    role: str
    settings: GenerationSettings
    _: KW_ONLY
    clock: StageClock
    memory: StageMemory
    stop: StopFlag
    step: InitVar[DecodeStep | None] = None
    inputs: ModelInputs | None = field(default=None, init=False)
    visual: torch.Tensor | None = field(default=None, init=False)
    _host: HostInputs | None = field(default=None, init=False)

    def __post_init__(self, step: DecodeStep | None) -> None:
        language, switches = self.model.language_model, self.settings.switches
        self.cached = CachedModel(
            language,
            self.role,
            self.model.device,
            language.rows,
            bytes_per_position(self.model.facts, taken_cache(switches.cache)),
            prefill_chunk=switches.prefill_chunk,
            own_step=step,
        )

    def up_to_vision(self, sample: Sample, tell: Tell) -> torch.Tensor:
        """Stages load, preprocess and vision -> visual embeddings [V, hidden]. `tell` is called inside the stages, so
        that its time belongs to one."""
        self._check_stop()
        with self.memory.stage("load"), self.clock.stage("load", self.role) as span:
            tell("start_ns", span.start_ns)
            kind = input_of(self.settings.input, self.role)
            before = disk_bytes()
            self._host = self.model.load(sample, self.settings, self.clock, kind=kind)
            note_host(span.output, self._host)
            tell("loading", replace(self._host.loading, bytes_from_disk=bytes_since(before)))
        self.visual = self._vision(self._preprocess(sample.prompt, tell))
        return self.visual

    def limits(self) -> Limits:
        """When this model's answer ends under the run's settings."""
        eos_ids = frozenset() if self.settings.ignore_eos else self.model.vocabulary.eos_ids
        return Limits(self.settings.max_new_tokens, eos_ids)

    def prefill(self, visual: torch.Tensor, answer: Answer, sampler: Sampler | None) -> torch.Tensor | None:
        return self.prefill_as(Prefilling(answer, sampler), visual)

    def prefill_as(self, work: Prefilling, visual: torch.Tensor) -> torch.Tensor | None:
        self._check_stop()
        if self.inputs is None:
            raise RuntimeError("prefill before preprocess")
        with self.memory.stage("prefill"), self.clock.stage("prefill", self.role, self.model.device) as span:
            work.begin()
            with self.clock.child("embeddings") as part:
                part.input("visual embeddings", visual)
                embeddings = self.model.embed_prompt(self.inputs, visual)
                part.output("embeddings", embeddings)
            span.input("embeddings", embeddings)
            span.input("visual embeddings", visual)
            span.input("text_ids", self.inputs.text_ids)
            span.input("attention_mask", PromptMask(embeddings.shape[1] + work.beside))
            with self.clock.child("allocate cache"):
                self._open_cache(embeddings.shape[1] + work.beside)
            with self.clock.child("language model"):
                logits = work.compute(self.cached, embeddings, self.stop)
            span.output("logits", logits)
            first = work.take(logits)
            self.cached.note_length(work.answer)
            # Freed here, not by the return: freeing a tensor lets other threads in, and that time would be nobody's.
            del embeddings, logits
        return first

    def _open_cache(self, prompt_length: int) -> None:
        model, settings = self.model, self.settings
        capacity = capacity_of(prompt_length, settings)
        if isinstance(self.cached.own_step, GraphStep):
            # Graphs read and write where they were captured.
            self.cached.cache = self.cached.own_step.open_cache(capacity)
            return
        self.cached.cache = make_cache(
            taken_cache(settings.switches.cache),
            model.language_model.config,
            capacity=capacity,
            device=model.device,
            dtype=model.dtype,
        )

    def _preprocess(self, prompt: str, tell: Tell) -> ModelInputs:
        self._check_stop()
        if self._host is None:
            raise RuntimeError("preprocess before load")
        with self.memory.stage("preprocess"), self.clock.stage("preprocess", self.role, self.model.device) as span:
            note_host(span.input, self._host)
            inputs = self.model.preprocess(self._host, prompt, self.settings, self.clock)
            self._host = None
            span.input("image_sizes", inputs.image_sizes)
            span.output("pixel_values", inputs.pixel_values)
            span.output("text_ids", inputs.text_ids)
            tell("lengths", inputs.lengths)
        self.inputs = inputs
        return inputs

    def _vision(self, inputs: ModelInputs) -> torch.Tensor:
        self._check_stop()
        with self.memory.stage("vision"), self.clock.stage("vision", self.role, self.model.device) as span:
            span.input("pixel_values", inputs.pixel_values)
            visual = self.model.encode_vision(inputs, self.clock)
            span.output("visual embeddings", visual)
        return visual

    def _check_stop(self) -> None:
        if self.stop.is_set():
            raise Cancelled


def capacity_of(prompt_length: int, settings: GenerationSettings) -> int:
    """Positions a run may need: the prompt's, the answer's and one block of drafts beyond it, or a step's own room."""
    beyond = (settings.speculation.nodes or settings.speculation.gamma) + 1
    if settings.switches.step == IDENTICAL:
        beyond += SPARE
    return prompt_length + settings.max_new_tokens + beyond


def taken_cache(asked: str) -> str:
    """The kind of cache a run takes: by default a static one, written in place."""
    return STATIC if asked == "auto" else asked


def note_host(note: Callable[[str, object], None], host: HostInputs) -> None:
    """Writes what stage load hands on: events, or pictures as one stack."""
    if host.events is not None:
        note("events", host.events)
    if host.pictures:
        note("frames", list(host.pictures))
