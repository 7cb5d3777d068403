"""Video-LLaVA and LLaVA-1.5 as the pipeline calls them: video frames to visual embeddings to a prompt."""

from __future__ import annotations

import torch

from engines.llama import LlamaDecoder
from engines.llava import LlavaModel
from engines.model import VIDEO, HostInputs, ModelInputs, splice
from engines.naming import VIDEO_LLAVA
from engines.preparation import prepare
from engines.preprocessing import ClipTransform
from engines.prompts import LLAVA_V1_5
from engines.prompts import VIDEO_LLAVA as VIDEO_LLAVA_PROMPT
from engines.reading import read_video
from engines.timing import StageClock
from engines.tokenization import Vocabulary
from evprof.core.request import GenerationSettings
from evprof.core.run_info import ModelFacts
from evprof.core.sample import Sample

DEFAULT_FRAMES = 8
"""Frames Video-LLaVA was trained with; LLaVA-1.5 gets as many, as so many images."""


class VideoLanguageModel:
    """A loaded Video-LLaVA (one slot for all frames) or LLaVA-1.5 (one slot per frame)."""

    wants = VIDEO

    def __init__(
        self,
        network: LlavaModel,
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
        self.visual_tokens_per_frame = network.tokens_per_frame
        self.is_video_family = network.config.family == VIDEO_LLAVA
        self.template = VIDEO_LLAVA_PROMPT if self.is_video_family else LLAVA_V1_5

    def load(self, sample: Sample, settings: GenerationSettings, spans: StageClock) -> HostInputs:
        """Stage 1."""
        return read_video(sample, settings.frames or DEFAULT_FRAMES, spans)

    def preprocess(self, host: HostInputs, prompt: str, settings: GenerationSettings, spans: StageClock) -> ModelInputs:
        """Stage 2: CLIP's preparation and the prompt."""
        frames = len(host.pictures)
        return prepare(
            self,
            host,
            prompt,
            settings,
            spans,
            template=self.template,
            slots=1 if self.is_video_family else frames,
            visual=frames * self.visual_tokens_per_frame,
            # Several images were never LLaVA-1.5's training: past its positions it is warned about, not refused.
            refuses_overlong=self.is_video_family,
        )

    def encode_vision(self, inputs: ModelInputs, spans: StageClock) -> torch.Tensor:
        """Stage 3: [T · N, hidden], frame after frame."""
        with spans.child("tower") as span:
            span.input("pixel_values", inputs.pixel_values)
            features = self.network.tower_features(inputs.pixel_values)
            span.output("features", features)
        with spans.child("projector") as span:
            span.input("features", features)
            projected = self.network.project(features).flatten(0, 1)
            span.output("visual embeddings", projected)
        return projected

    def embed_prompt(self, inputs: ModelInputs, visual: torch.Tensor) -> torch.Tensor:
        """Part of stage 4: [1, S, hidden]."""
        text = self.language_model.embed(inputs.text_ids)
        return splice(text, visual, inputs.slots)
