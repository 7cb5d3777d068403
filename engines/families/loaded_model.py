"""The code that loaded models of all families share: modules, input, kept embeddings, the prompt."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import nn

from engines.checkpoints.config import ModelConfig, edge, is_qwen2
from engines.decoder.llama import LlamaDecoder
from engines.families.clip_tower import ClipTower
from engines.measuring.timing import NullClock, StageClock
from engines.stages.model import EVENTS, HostInputs, ModelInputs, VisionRecipe, splice
from engines.stages.pixel_values import ClipTransform
from engines.stages.reading import OFF, read_events, read_video
from engines.tokens.prompts import PromptTemplate
from engines.tokens.tokenization import Vocabulary
from evprof.core.run_info import LengthFacts, ModelFacts
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
    def tower(self) -> ClipTower:
        """The pass over that tower, up to the layer that is read. Its first use fuses weights, where they lie then."""
        return ClipTower(self.frame_tower, self.config.feature_layer)

    @property
    def tokens_per_frame(self) -> int:
        return self.config.tokens_per_frame

    def encode_frames(self, pixel_values: torch.Tensor) -> torch.Tensor:
        """[T, 3, H, W] -> [T, N, hidden], frame by frame alike."""
        raise NotImplementedError


_CACHE_BYTES = 512 << 20


class VisionCache:
    """Visual embeddings by key, up to a number of bytes; the entry that was used longest ago goes first."""

    def __init__(self, limit_bytes: int = _CACHE_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._held: OrderedDict[str, torch.Tensor] = OrderedDict()

    def get(self, key: str) -> torch.Tensor | None:
        """The tensor, which must not be changed; None on a miss."""
        found = self._held.get(key)
        if found is not None:
            self._held.move_to_end(key)
        return found

    def put(self, key: str, tensor: torch.Tensor) -> None:
        if tensor.nbytes > self._limit_bytes:
            return
        # A view would hold its whole storage, which is not counted.
        is_whole = tensor.untyped_storage().nbytes() == tensor.nbytes
        self._held[key] = tensor if is_whole else tensor.clone()
        while sum(held.nbytes for held in self._held.values()) > self._limit_bytes:
            self._held.popitem(last=False)


class LoadedModel(ABC):
    """A `VisionLanguageModel`."""

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
    ) -> None:
        self.network, self.vocabulary, self.transform, self.facts = network, vocabulary, transform, facts
        self.language_model = language_model
        self.template = template
        self.warnings = warnings
        self.record = FAMILIES[network.config.family]
        self.wants = self.record.reads
        # Pooled frames each add their mean; what they share is there once.
        self.visual_tokens_per_frame = 1 if self.record.pools_frames else network.tokens_per_frame
        parameter = next(network.parameters())
        self.device, self.dtype = parameter.device, parameter.dtype
        self._kept = VisionCache()
        self._rehearsed: set[VisionRecipe] = set()

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
        self._rehearse(replace(self.recipe_of(settings), cache=OFF))

    def _rehearse(self, recipe: VisionRecipe) -> None:
        """Computes stage vision once: libraries load and choose kernels on first use, which belongs to setup."""
        if recipe in self._rehearsed:
            return
        pixels = edge(self.network.config.vision)
        with torch.inference_mode():
            picture = torch.zeros(1, 3, pixels, pixels, device=self.device, dtype=self.dtype)
            text = torch.zeros(0, device=self.device, dtype=torch.long)
            inputs = ModelInputs(picture, (), text, (), LengthFacts(0, 0, 0, 0), recipe=recipe)
            self.compute_vision(inputs, NullClock())
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        self._rehearsed.add(recipe)

    def load(
        self, sample: Sample, settings: GenerationSettings, spans: StageClock, *, kind: str | None = None
    ) -> HostInputs:
        frames = self.frames_of(settings)
        if (kind or self.wants) == EVENTS:
            return read_events(sample, frames, spans)
        return read_video(sample, frames or self.record.frames, spans)

    def encode_vision(self, inputs: ModelInputs, spans: StageClock) -> torch.Tensor:
        """Stage 3: [V, hidden], less what is pruned."""
        recipe = inputs.recipe
        if recipe.cache == OFF:
            return self.compute_vision(inputs, spans)
        with spans.child("vision cache look-up"):
            found = self._kept.get(recipe.key)
        if found is not None:
            with spans.child("vision cache hit") as span:
                span.output("visual embeddings", found)
            return found
        visual = self.compute_vision(inputs, spans)
        with spans.child("vision cache store") as span:
            span.input("visual embeddings", visual)
            self._kept.put(recipe.key, visual)
        return visual

    def embed_prompt(self, inputs: ModelInputs, visual: torch.Tensor) -> torch.Tensor:
        text = self.language_model.embed(inputs.text_ids)
        return splice(text, visual[: inputs.lengths.visual], inputs.slots)
