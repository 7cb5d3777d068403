"""EventGPT as the pipeline calls it: events to event frames to visual embeddings to a prompt."""

from __future__ import annotations

import torch

from engines.eventgpt import EventGptModel
from engines.llama import LlamaDecoder
from engines.model import EVENTS, HostInputs, ModelInputs, splice
from engines.preparation import prepare
from engines.preprocessing import ClipTransform
from engines.prompts import EVENTGPT_V1
from engines.reading import read_events
from engines.timing import StageClock
from engines.tokenization import Vocabulary
from evprof.core.events import EventArray
from evprof.core.request import GenerationSettings
from evprof.core.run_info import ModelFacts
from evprof.core.sample import Sample

DEFAULT_EVENT_FRAMES = 5
"""EventGPT's own number of slices."""


class EventLanguageModel:
    """A loaded EventGPT."""

    wants = EVENTS
    template = EVENTGPT_V1

    def __init__(
        self,
        network: EventGptModel,
        language_model: LlamaDecoder,
        vocabulary: Vocabulary,
        transform: ClipTransform,
        *,
        facts: ModelFacts,
        warnings: tuple[str, ...] = (),
    ) -> None:
        self.network, self.vocabulary, self.transform, self.facts = network, vocabulary, transform, facts
        self.language_model = language_model
        self.warnings = warnings
        parameter = next(network.parameters())
        self.device, self.dtype = parameter.device, parameter.dtype
        # One more frame adds one temporal mean; the spatial means are there once.
        self.visual_tokens_per_frame = 1

    def load(self, sample: Sample, settings: GenerationSettings, spans: StageClock) -> HostInputs:
        """Stage 1."""
        return read_events(sample, settings.event_frames, spans)

    def preprocess(self, host: HostInputs, prompt: str, settings: GenerationSettings, spans: StageClock) -> ModelInputs:
        """Stage 2: renders event frames (unless the sample brought them), then CLIP's preparation and the prompt."""
        drawn = host
        if host.events is not None:
            drawn = self._render(host, host.events, settings.event_frames or DEFAULT_EVENT_FRAMES, spans)
        return prepare(
            self,
            drawn,
            prompt,
            settings,
            spans,
            template=self.template,
            slots=1,
            visual=len(drawn.pictures) + self.network.tokens_per_frame,
        )

    @staticmethod
    def _render(host: HostInputs, events: EventArray, count: int, spans: StageClock) -> HostInputs:
        from evprof.loaders.render import render_event_frames, slice_times

        with spans.child("render") as span:
            span.input("t_us", events.t_us)
            pictures = tuple(render_event_frames(events, count))
            for index, picture in enumerate(pictures):
                span.output(f"event frame {index + 1}", picture)
        times = slice_times(events, count)
        return HostInputs(
            host.path,
            None,
            pictures,
            tuple((time.start_us, time.end_us) for time in times),
            tuple(f"event frame {index + 1}: {time.label}" for index, time in enumerate(times)),
            host.warnings,
        )

    def encode_vision(self, inputs: ModelInputs, spans: StageClock) -> torch.Tensor:
        """Stage 3: [T + N, hidden]."""
        with spans.child("tower") as span:
            span.input("pixel_values", inputs.pixel_values)
            features = self.network.tower_features(inputs.pixel_values)
            span.output("features", features)
        with spans.child("projector") as span:
            span.input("features", features)
            projected = self.network.project(features)
            span.output("projected", projected)
        with spans.child("adaptor") as span:
            span.input("projected", projected)
            adapted = self.network.adapt(projected)
            span.output("adapted", adapted)
        with spans.child("pooling") as span:
            span.input("adapted", adapted)
            pooled = self.network.pool(adapted)
            span.output("visual embeddings", pooled)
        return pooled

    def embed_prompt(self, inputs: ModelInputs, visual: torch.Tensor) -> torch.Tensor:
        """Part of stage 4: [1, S, hidden]."""
        text = self.language_model.embed(inputs.text_ids)
        return splice(text, visual, inputs.slots)
