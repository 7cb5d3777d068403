"""EventGPT-Plus as the pipeline calls it: events to bins to visual embeddings to a prompt."""

from __future__ import annotations

import torch

from engines.families.eventgpt_plus_network import EventGptPlusModel
from engines.families.video_model import VideoLanguageModel
from engines.measuring.timing import StageClock
from engines.stages.event_frames import draw_event_bins
from engines.stages.model import HostInputs, ModelInputs
from engines.tokens.prompts import chatml
from evprof.core.vocabulary.generation import GenerationSettings

EVENTGPT_PLUS = chatml(
    "eventgpt_qwen",
    "<event>",
    "You are a helpful assistant. You are looking at a red-blue visualization of the Event Stream. Please answer the "
    "question based solely on the visual input. Do not make assumptions or guess beyond what is observable.\n",
)
"""The published layout, under its published name; the system's words end with a line."""


class BinnedEventModel(VideoLanguageModel):
    """A loaded EventGPT-Plus."""

    network: EventGptPlusModel

    @property
    def cut_at(self) -> int | None:
        """What config.json says."""
        return self.network.config.sequence_limit

    def shown(self, host: HostInputs, settings: GenerationSettings, spans: StageClock) -> HostInputs:
        """As many bins as the recording's length asks for, or as are set."""
        return draw_event_bins(host, settings.event_frames, self.record, settings.input.canvas_size, spans)

    def compute_vision(self, inputs: ModelInputs, spans: StageClock) -> torch.Tensor:
        """[T · N, hidden], bin after bin, less what is pruned."""
        with spans.child("tower") as span:
            span.input("pixel_values", inputs.pixel_values)
            states = self.network.tower(inputs.pixel_values)
            features = self.network.read_tokens(states.last)
            span.output("features", features)
        with spans.child("projector") as span:
            span.input("features", features)
            projected = self.network.project(features)
            span.output("projected", projected)
        pooled = self.pool(projected, spans)
        if inputs.recipe.keep < 1:
            pooled = self.prune(pooled, states, inputs.recipe, spans)
        return pooled.flatten(0, 1)
