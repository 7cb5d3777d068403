"""Batches as `evprof bench switches` asks for them: one model at a time, several prompts about one sample at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from engines.batches.batching import generate_batch
from engines.fit.making_room import make_room
from engines.hardware.threads import use_threads
from engines.loading.warm_models import Loader, WarmModels
from engines.loading.weights import load_model
from engines.measuring.stage_memory import StageMemory
from engines.stages.model import VisionLanguageModel
from evprof.core.errors import UserError
from evprof.core.protocols import StopFlag
from evprof.core.request import RunRequest
from evprof.core.sample import Sample
from evprof.core.vocabulary.generation import GenerationSettings
from evprof.run.switches.batches import BatchModel, BatchTurn


@dataclass(frozen=True)
class _Ready:
    """What answers."""

    model: VisionLanguageModel
    sample: Sample


class LocalBatchEngine:
    """A BatchEngine in this process. `loader` brings models (tests bring their own)."""

    def __init__(self, *, loader: Loader = load_model) -> None:
        self._warm = WarmModels(loader)
        self._ready: _Ready | None = None

    def ready(self, request: RunRequest, role: str, stop: StopFlag) -> BatchModel:
        """Loads the model of `role` and lets the others go. Raises UserError and Cancelled."""
        choice = request.draft if role == "draft" else request.target
        if choice is None:
            raise UserError(f"A batch needs a {role} model; name one with --{role}.")
        self._ready = None
        self._warm.keep_only({(choice, role)})
        make_room(request, (role,), self._warm)
        warm = self._warm.get(choice, role, lambda _done, _total: None, stop)
        use_threads([warm.model])
        self._ready = _Ready(warm.model, request.sample)
        facts = warm.model.facts
        return BatchModel(
            facts.weight_bytes or 0, warm.setup.weights_ms, "allocated" if warm.model.device.type == "cuda" else "rss"
        )

    @property
    def model(self) -> VisionLanguageModel:
        """The model that is ready."""
        if self._ready is None:
            raise RuntimeError("a model is asked for before it is ready")
        return self._ready.model

    def answer(self, prompts: Sequence[str], settings: GenerationSettings, stop: StopFlag) -> BatchTurn:
        """The answers to `prompts` about the sample. Raises UserError, when memory runs out too, and Cancelled."""
        if self._ready is None:
            raise RuntimeError("answer before ready")
        model, sample = self._ready.model, self._ready.sample
        memory = StageMemory([model.device])
        try:
            with memory.stage("decode"):
                found = generate_batch(model, [(sample, prompt) for prompt in prompts], settings, stop=stop)
        except torch.OutOfMemoryError:
            raise UserError(
                f"Memory ran out on {model.device} with {len(prompts)} prompts at once; ask for fewer."
            ) from None
        facts = memory.facts(model.facts.weight_bytes or 0)
        return BatchTurn(
            before_ms=found.vision_ms or 0.0,
            llm_ms=found.prefill_ms + found.decode_ms,
            answers=found.ids,
            kv_bytes=found.cache.logical,
            peak_bytes=facts.peak_allocated_bytes or facts.peak_rss_bytes,
        )

    def close(self) -> None:
        """Frees everything."""
        self._ready = None
        self._warm.clear()
