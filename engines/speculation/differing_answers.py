"""Whether answers that differ differ for a reason: the model is loaded once more, and the plain prefix is forced."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Event

import torch

from engines.loading.weights import load_model
from engines.measuring.timing import NullClock
from engines.speculation.near_ties import divergence
from engines.stages.model import VisionLanguageModel
from evprof.core.records import TARGET
from evprof.core.request import RunRequest
from evprof.core.vocabulary.generation import ModelChoice


class FlipJudge:
    """Measures how close two tokens were where a drafted answer first differs from the plain one."""

    def __init__(self, choice: ModelChoice) -> None:
        self._choice = choice
        self._model: VisionLanguageModel | None = None

    def __call__(self, request: RunRequest, plain: Sequence[int], drafted: Sequence[int]) -> float:
        """The gap in units in the last place of the model's arithmetic; infinite where an answer ends too soon.

        Raises UserError for a model or a sample that cannot be read.
        """
        model = self._loaded()
        with torch.inference_mode():
            host = model.load(request.sample, request.settings, NullClock())
            inputs = model.preprocess(host, request.sample.prompt, request.settings, NullClock())
            embeddings = model.embed_prompt(inputs, model.encode_vision(inputs, NullClock()))
            found = divergence(model.language_model, embeddings, plain, drafted)
        return 0.0 if found is None else found.gap_ulps

    def _loaded(self) -> VisionLanguageModel:
        if self._model is None:
            self._model = load_model(self._choice, TARGET, lambda done, total: None, Event())
        return self._model
