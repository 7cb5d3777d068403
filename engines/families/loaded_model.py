"""The code that loaded models of all families share: modules, input, kept embeddings, the prompt."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import nn

from engines.checkpoints.config import ModelConfig, edge, is_qwen2
from engines.decoder.llama import LlamaDecoder
from engines.decoder.step_choice import EAGER, is_on_cuda
from engines.families.clip_tower import CapturedTower
from engines.measuring.timing import StageClock
from engines.stages.model import HostInputs, ModelInputs, VisionRecipe, splice
from engines.stages.pixel_values import ClipTransform
from engines.stages.reading import read_input
from engines.stages.vision_cache import KeptVision, Rehearsal
from engines.tokens.prompts import PromptTemplate
from engines.tokens.tokenization import Vocabulary
from evprof.core.run_info import ModelFacts
from evprof.core.sample import Sample
from evprof.core.vocabulary.families import FAMILIES
from evprof.core.vocabulary.generation import GenerationSettings

if TYPE_CHECKING:
    from transformers import CLIPVisionModel, LlamaConfig, LlamaForCausalLM


def make_language_model(text: LlamaConfig) -> LlamaForCausalLM:
    from transformers import LlamaForCausalLM

    model: LlamaForCausalLM = LlamaForCausalLM(text)
    if is_qwen2(text):
        for layer in model.model.layers:
            layer.self_attn.o_proj.register_parameter("bias", None)
    return model


class Network(nn.Module):
    """A family's network as it is loaded: transformers' modules side by side."""

    config: ModelConfig
    language_model: LlamaForCausalLM

    @property
    def frame_tower(self) -> CLIPVisionModel:
        raise NotImplementedError

    @cached_property
    def tower(self) -> CapturedTower:
        """The pass over that tower, up to the layer that is read. Its first use fuses weights, where they lie then."""
        return CapturedTower(self.frame_tower, self.config.feature_layer)

    @property
    def tokens_per_frame(self) -> int:
        return self.config.tokens_per_frame

    def encode_frames(self, pixel_values: torch.Tensor) -> torch.Tensor:
        """[T, 3, H, W] -> [T, N, hidden], frame by frame alike."""
        raise NotImplementedError


class LoadedModel(ABC):
    """A `VisionLanguageModel`. `identity` tells its weights from all others (default: its name)."""

    network: Network

    def __init__(
        self,
        network: Network,
        language_model: LlamaDecoder,
        vocabulary: Vocabulary,
        transform: ClipTransform,
        *,
        facts: ModelFacts,
        template: PromptTemplate,
        warnings: tuple[str, ...] = (),
        identity: str = "",
    ) -> None:
        self.network, self.vocabulary, self.transform, self.facts = network, vocabulary, transform, facts
        self.language_model = language_model
        self.template = template
        self._warnings = warnings
        self.record = FAMILIES[network.config.family]
        self.wants = self.record.reads
        # Pooled frames each add their mean; what they share is there once.
        self.visual_tokens_per_frame = 1 if self.record.pools_frames else network.tokens_per_frame
        parameter = next(network.parameters())
        self.device, self.dtype = parameter.device, parameter.dtype
        self.kept = KeptVision(identity or facts.name, self.spelled(), transform, device=self.device, dtype=self.dtype)
        self._rehearsal = Rehearsal(edge(network.config.vision), device=self.device, dtype=self.dtype)
        self._seen_frames = 0

    @property
    def warnings(self) -> tuple[str, ...]:
        if (problem := self.network.tower.problem) is None:
            return self._warnings
        return (*self._warnings, f"The vision tower is not captured as a CUDA graph but runs eagerly: {problem}.")

    @property
    def vision_pass(self) -> str:
        return self.network.tower.taken

    @abstractmethod
    def spelled(self) -> str:
        """What the configuration makes of the tower's weights, beside the weights."""

    @staticmethod
    @abstractmethod
    def recipe_of(settings: GenerationSettings) -> VisionRecipe:
        """How stage vision computes under these settings."""

    @abstractmethod
    def template_of(self, settings: GenerationSettings) -> PromptTemplate:
        """The prompt's layout under these settings."""

    @abstractmethod
    def preprocess(self, host: HostInputs, prompt: str, settings: GenerationSettings, spans: StageClock) -> ModelInputs:
        """Stage 2: pictures, pixel values and token ids, on the device."""

    @abstractmethod
    def compute_vision(self, inputs: ModelInputs, spans: StageClock) -> torch.Tensor:
        """Stage vision without kept embeddings: [V, hidden]."""

    def frames_of(self, settings: GenerationSettings) -> int | None:
        asked: int | None = getattr(settings, self.record.frames_setting)
        return asked

    def make_ready(self, settings: GenerationSettings) -> None:
        if settings.switches.step == EAGER or not is_on_cuda(self.language_model):
            self.release()
        else:
            expected = self.frames_of(settings) or self.record.frames
            self.network.tower.capture_for({expected, self._seen_frames or expected}, self.language_model)
        self._rehearsal.perform(self.recipe_of(settings), self.compute_vision)

    def release(self) -> None:
        self.network.tower.release()

    def load(
        self, sample: Sample, settings: GenerationSettings, spans: StageClock, *, kind: str | None = None
    ) -> HostInputs:
        frames = self.frames_of(settings)
        return read_input(
            kind or self.wants,
            sample,
            spans,
            event_frames=frames,
            video_frames=frames or self.record.frames,
        )

    def encode_vision(self, inputs: ModelInputs, spans: StageClock) -> torch.Tensor:
        """Stage 3: [V, hidden], less what is pruned."""
        self._seen_frames = len(inputs.pixel_values)
        return self.kept.encode(inputs, spans, lambda: self.compute_vision(inputs, spans))

    def embed_prompt(self, inputs: ModelInputs, visual: torch.Tensor) -> torch.Tensor:
        text = self.language_model.embed(inputs.text_ids)
        return splice(text, visual[: inputs.lengths.visual], inputs.slots)
