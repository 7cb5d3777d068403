"""What families share: how checkpoints are read and named, and loaded models with their input and kept embeddings.

`evprof.core.vocabulary.families` has the part of a family that needs no torch. A `LentTowerFamily` has a config.json
that describes the language model only and names its CLIP tower by path. The shape of the tower comes from that folder,
or is that of CLIP ViT-L/14 at the family's image size. Its weights come from there if the checkpoint holds none.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from engines.checkpoints.config import (
    CLIP_L14,
    PUBLISHED,
    ModelConfig,
    edge,
    given_folder,
    is_qwen2,
    named_folder,
    tower_tensors,
    vision_config,
)
from engines.checkpoints.naming import Naming
from engines.checkpoints.shards import StoredTensor, has_weights, read_json
from engines.decoder.llama import LlamaDecoder
from engines.decoder.step_choice import EAGER, is_on_cuda
from engines.families.clip_tower import CapturedTower
from engines.measuring.timing import NullClock, StageClock
from engines.stages.model import EVENTS, HostInputs, ModelInputs, VisionRecipe, splice
from engines.stages.pixel_values import ClipTransform
from engines.stages.reading import OFF, read_events, read_video
from engines.stages.visual_tokens import VisualCounts, framewise_counts
from engines.tokens.prompts import PromptTemplate
from engines.tokens.tokenization import Vocabulary
from evprof.core.errors import UserError
from evprof.core.run_info import LengthFacts, ModelFacts
from evprof.core.sample import Sample
from evprof.core.vocabulary.families import FAMILIES
from evprof.core.vocabulary.generation import GenerationSettings

if TYPE_CHECKING:
    from transformers import CLIPVisionConfig, CLIPVisionModel, LlamaConfig, LlamaForCausalLM


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
        self._warnings = warnings
        self.record = FAMILIES[network.config.family]
        self.wants = self.record.reads
        # Pooled frames each add their mean; what they share is there once.
        self.visual_tokens_per_frame = 1 if self.record.pools_frames else network.tokens_per_frame
        parameter = next(network.parameters())
        self.device, self.dtype = parameter.device, parameter.dtype
        self._kept = VisionCache()
        self._rehearsed: set[VisionRecipe] = set()
        self._seen_frames = 0

    @property
    def warnings(self) -> tuple[str, ...]:
        if (problem := self.network.tower.problem) is None:
            return self._warnings
        return (*self._warnings, f"The vision tower is not captured as a CUDA graph but runs eagerly: {problem}.")

    @property
    def vision_pass(self) -> str:
        return self.network.tower.taken

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

    def release(self) -> None:
        self.network.tower.release()

    def load(
        self, sample: Sample, settings: GenerationSettings, spans: StageClock, *, kind: str | None = None
    ) -> HostInputs:
        frames = self.frames_of(settings)
        if (kind or self.wants) == EVENTS:
            return read_events(sample, frames, spans)
        return read_video(sample, frames or self.record.frames, spans)

    def encode_vision(self, inputs: ModelInputs, spans: StageClock) -> torch.Tensor:
        """Stage 3: [V, hidden], less what is pruned."""
        self._seen_frames = len(inputs.pixel_values)
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


_INSIDE = "vision_model."


class ModelFamily(ABC):
    """One family. `names` are its tensors' names, `template` its prompt, `network` and `model` its classes.
    `extra_tokens` follow the 32,000 shared ones. `writes_tokenizer_file`: its checkpoints have a tokenizer.json; else a
    sentencepiece model with `published_rows` entries."""

    names: Naming
    template: PromptTemplate
    network: type[Any]
    model: type[LoadedModel]
    extra_tokens: tuple[str, ...] = ()
    writes_tokenizer_file = True
    published_rows = 0

    def __init__(self, key: str) -> None:
        self.key = key
        self.record = FAMILIES[key]

    @abstractmethod
    def read(self, folder: Path, values: dict[str, Any], clip: str | None, *, holds_tower: bool) -> ModelConfig:
        """The configuration in `folder`/config.json with these `values`; see `read_config`. Raises UserError or
        ValueError."""

    @abstractmethod
    def random(self, vision: CLIPVisionConfig, text: Mapping[str, Any]) -> ModelConfig:
        """The configuration of a model with random weights of these sizes."""

    def layout(self, config: ModelConfig) -> PromptTemplate:
        """The prompt's layout, which may depend on the language model."""
        return self.template

    def check(self, config: Any) -> None:
        """Raises ValueError for a configuration that makes no model of this family."""
        return

    def canonical(self, stored_name: str) -> str:
        return stored_name

    def holds_tower(self, stored: Collection[str]) -> bool:
        return True

    def completed(
        self, folder: Path, config: ModelConfig, stored: dict[str, StoredTensor]
    ) -> tuple[dict[str, StoredTensor], tuple[str, ...]]:
        """The stored tensors with what another folder lends them, and what is said about it."""
        return stored, ()

    def is_lent(self, published_name: str) -> bool:
        return False

    def visual_counts(self, config: ModelConfig, pictures: int, settings: GenerationSettings) -> VisualCounts:
        """Positions of the prompt that so many pictures take under these settings, after pooling and pruning."""
        return framewise_counts(pictures, config.tokens_per_frame, settings.switches.visual_keep)


class LentTowerFamily(ModelFamily):
    """`tower_key` names the tower's folder in config.json; `tower_prefix` is the prefix of its tensors."""

    tower_key: str
    tower_prefix: str

    def read_tower(
        self, folder: Path, values: dict[str, Any], clip: str | None, *, holds_tower: bool
    ) -> tuple[CLIPVisionConfig, dict[str, Any]]:
        """The tower's configuration, and what a `ModelConfig` tells of where it was found, `assumptions` with it."""
        assumptions: tuple[str, ...] = ()
        tower = values.get(self.tower_key)
        named, given = named_folder(folder, tower), given_folder(clip) if clip is not None else None
        is_given = given is not None and (named is None or not holds_tower)
        tower_folder = given if is_given else named
        if given is not None and holds_tower:
            assumptions += (f"The weights hold a CLIP tower of their own, which is used instead of that in {given}.",)
        if tower_folder is None:
            assumptions += (
                f"{self.tower_key} '{tower}' is not on this machine; the tower is taken to be CLIP ViT-L/14 at "
                f"{self.record.image_size} pixels.",
            )
            vision = vision_config({**CLIP_L14, "image_size": self.record.image_size})
        else:
            tower_values = read_json(tower_folder / "config.json")
            vision = vision_config(tower_values.get("vision_config") or tower_values)
        return vision, {
            "tower_folder": tower_folder,
            "tower_is_given": is_given,
            "tower_name": tower if isinstance(tower, str) else None,
            "assumptions": assumptions,
        }

    def canonical(self, stored_name: str) -> str:
        outside = self.tower_prefix.removesuffix(_INSIDE)
        if stored_name.startswith(outside) and not stored_name.startswith(self.tower_prefix):
            return self.tower_prefix + stored_name.removeprefix(outside)
        return stored_name

    def is_lent(self, published_name: str) -> bool:
        return published_name.startswith(self.tower_prefix)

    def holds_tower(self, stored: Collection[str]) -> bool:
        return any(self.is_lent(self.canonical(name)) for name in stored)

    def completed(
        self, folder: Path, config: ModelConfig, stored: dict[str, StoredTensor]
    ) -> tuple[dict[str, StoredTensor], tuple[str, ...]]:
        """Adds the tower of a CLIP folder if the files hold none: the user's, or the one that config.json names.
        Raises UserError, naming --clip, if there is none."""
        if self.holds_tower(stored):
            return stored, ()
        source = config.tower_folder if config.tower_folder is not None and has_weights(config.tower_folder) else None
        if source is None:
            raise UserError(_no_tower(folder, config))
        borrowed = {self.tower_prefix + name: tensor for name, tensor in tower_tensors(source).items()}
        if not borrowed:
            raise UserError(f"{source} holds no CLIP vision tower; name another CLIP folder with --clip FOLDER.")
        whose = "given with --clip" if config.tower_is_given else f"that config.json names ('{config.tower_name}')"
        return {**stored, **borrowed}, (f"The weights hold no CLIP tower; the one in {source} {whose} is used.",)


def _no_tower(folder: Path, config: ModelConfig) -> str:
    if config.tower_is_given:
        return (
            f"{folder} holds no CLIP tower, and {config.tower_folder} holds no weights either; name another CLIP "
            "folder with --clip FOLDER."
        )
    named = "names none"
    if config.tower_name is not None:
        empty = f"but {config.tower_folder} holds no weights"
        named = f"names '{config.tower_name}', {empty if config.tower_folder else 'which is not on this machine'}"
    return (
        f"{folder} holds no CLIP tower, and its config.json {named}; get it with hf download {PUBLISHED}, or name a "
        "CLIP folder with --clip FOLDER."
    )
