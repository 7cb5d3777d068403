"""EventGPT: camera events as event frames, CLIP, a projector, an adaptor, means over time and space, Vicuna."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn import functional

from engines.checkpoints.config import ModelConfig, text_config
from engines.checkpoints.naming import Naming
from engines.families.clip_tower import TowerStates, class_attention
from engines.families.loaded_model import LentTowerFamily, LoadedModel, Network, make_language_model
from engines.measuring.timing import StageClock
from engines.stages.frames import draw_event_frames
from engines.stages.model import HostInputs, ModelInputs, VisionRecipe
from engines.stages.preparation import PromptLayout, prepare, without_use
from engines.stages.reading import span_warnings
from engines.stages.visual_tokens import (
    VisualCounts,
    choose_tokens,
    framewise_counts,
    kept_count,
    pooled_counts,
    with_class_token,
)
from engines.tokens.prompts import PromptTemplate
from evprof.core.errors import USAGE, UserError
from evprof.core.sample import Sample
from evprof.core.vocabulary.generation import GenerationSettings

if TYPE_CHECKING:
    from transformers import CLIPVisionConfig, CLIPVisionModel


class EventGptModel(Network):
    def __init__(self, config: ModelConfig) -> None:
        from transformers import CLIPVisionModel

        super().__init__()
        self.config = config
        hidden = config.text.hidden_size
        self.visual_tower = CLIPVisionModel(config.vision)
        self.visual_projector = nn.Sequential(
            nn.Linear(config.vision.hidden_size, hidden), nn.GELU(), nn.Linear(hidden, hidden)
        )
        self.feature_adaptor = nn.Linear(hidden, hidden) if config.has_adaptor else None
        self.language_model = make_language_model(config.text)

    @property
    def frame_tower(self) -> CLIPVisionModel:
        return self.visual_tower

    def tower_features(self, pixel_values: torch.Tensor) -> torch.Tensor:
        """[T, 3, H, W] -> [T, N, width]: the last layer's output for all tokens, before the final layer norm."""
        return self.tower(pixel_values).last

    def project(self, features: torch.Tensor) -> torch.Tensor:
        """[T, N, width] -> [T, N, hidden] through the two-layer projector."""
        projected: torch.Tensor = self.visual_projector(features)
        return projected

    def adapt(self, projected: torch.Tensor) -> torch.Tensor:
        """[T, N, hidden] -> [T, N, hidden] through the adaptor, or unchanged without one."""
        if self.feature_adaptor is None:
            return projected
        adapted: torch.Tensor = self.feature_adaptor(projected)
        return adapted

    def activate(self, features: torch.Tensor) -> torch.Tensor:
        """[T, N, width] -> [T, N, hidden]: the projector's first Linear and its GELU, after which all is linear."""
        inner: torch.Tensor = self.visual_projector[1](self.visual_projector[0](features))
        return inner

    def map_fused(self, pooled: torch.Tensor) -> torch.Tensor:
        """[..., hidden] -> [..., hidden]: the projector's second Linear and the adaptor as one Linear, A(Wx + b) + c =
        (AW)x + (Ab + c). Means commute with it, so it may follow the pooling. In bf16 it rounds differently."""
        weight, bias = self.fused_map
        return functional.linear(pooled, weight, bias)

    @cached_property
    def fused_map(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Weight [hidden, hidden] and bias [hidden] of the two, computed in float32 on first use."""
        second = self.visual_projector[2]
        if not isinstance(second, nn.Linear):
            raise TypeError(f"the projector's last part is {type(second).__name__}, not Linear")
        if self.feature_adaptor is None:
            return second.weight, second.bias
        with torch.inference_mode(False), torch.no_grad():
            outer, inner = self.feature_adaptor.weight.float(), second.weight.float()
            bias = outer @ second.bias.float() + self.feature_adaptor.bias.float()
            return (outer @ inner).to(second.weight.dtype), bias.to(second.weight.dtype)

    def encode_frames(self, pixel_values: torch.Tensor) -> torch.Tensor:
        """[T, 3, H, W] -> [T, N, hidden]: tower, projector, adaptor, frame by frame alike."""
        return self.adapt(self.project(self.tower_features(pixel_values)))

    @staticmethod
    def pool(features: torch.Tensor) -> torch.Tensor:
        """[T, N, hidden] -> [T + N, hidden]: means over tokens (one per frame) first, then means over frames."""
        return torch.cat([features.mean(dim=1), features.mean(dim=0)])


_EVENTGPT_SYSTEM = (
    "A chat between a curious human and an artificial intelligence assistant. "
    "The assistant gives helpful, detailed, and polite answers to the human's questions."
)
_VICUNA_SYSTEM = (
    "A chat between a curious user and an artificial intelligence assistant. "
    "The assistant gives helpful, detailed, and polite answers to the user's questions."
)

EVENTGPT_V1 = PromptTemplate(
    "eventgpt_v1",
    "<event>",
    f"{_EVENTGPT_SYSTEM} USER: <ev_start>",
    "<ev_end>\n{question} ASSISTANT:",
    system=_EVENTGPT_SYSTEM,
)
EVENTGPT_UNMARKED = PromptTemplate(
    "eventgpt_v1_unmarked",
    "<event>",
    f"{_EVENTGPT_SYSTEM} USER: ",
    "\n{question} ASSISTANT:",
    system=_EVENTGPT_SYSTEM,
)
EVENTGPT_TRAINING = PromptTemplate(
    "eventgpt_training",
    "<event>",
    f"{_VICUNA_SYSTEM} USER: ",
    "\n{question} ASSISTANT:",
    system=_VICUNA_SYSTEM,
)
"""The published layout of EventGPT, the same without its markers, and the one its training code wrote."""

SEQUENCE_LIMIT = 2048


class EventLanguageModel(LoadedModel):
    network: EventGptModel

    @staticmethod
    def recipe_of(settings: GenerationSettings) -> VisionRecipe:
        switches = settings.switches
        return VisionRecipe(
            pooled=settings.input.pooling != "none",
            fused=switches.projector == "fused",
            keep=switches.visual_keep,
            prune_by=switches.prune_by,
            cache=switches.vision_cache,
        )

    def load(
        self, sample: Sample, settings: GenerationSettings, spans: StageClock, *, kind: str | None = None
    ) -> HostInputs:
        host = super().load(sample, settings, spans, kind=kind)
        return replace(host, warnings=span_warnings(host))

    def template_of(self, settings: GenerationSettings) -> PromptTemplate:
        if settings.input.prompt_style == "training":
            return EVENTGPT_TRAINING
        return EVENTGPT_V1 if settings.input.event_markers else EVENTGPT_UNMARKED

    def preprocess(self, host: HostInputs, prompt: str, settings: GenerationSettings, spans: StageClock) -> ModelInputs:
        """Stage 2: draws event frames unless the sample brought pictures, then CLIP's preparation and the prompt.
        Raises UserError for more than one unpooled frame."""
        renders = host.events is not None
        frames = (settings.event_frames or self.record.frames) if renders else len(host.pictures)
        recipe = self.recipe_of(settings)
        if not recipe.pooled and frames != 1:
            raise UserError(
                f"Pooling none shows {self.facts.name} every token of a single frame, not of {frames}; "
                "add --event-frames 1.",
                exit_code=USAGE,
            )
        count = pooled_counts if recipe.pooled else framewise_counts
        drawn = draw_event_frames(host, frames, settings.input.canvas_size, spans)
        said = (*host.warnings, *without_use(self, settings, host.kind))
        return prepare(
            self,
            replace(drawn, warnings=said),
            prompt,
            settings,
            spans,
            layout=PromptLayout(
                self.template_of(settings),
                1,
                count(frames, self.network.tokens_per_frame, settings.switches.visual_keep),
                SEQUENCE_LIMIT,
            ),
            recipe=recipe,
        )

    def compute_vision(self, inputs: ModelInputs, spans: StageClock) -> torch.Tensor:
        """[T + N, hidden], less what is pruned; [N, hidden] when a single frame is not pooled."""
        network, recipe = self.network, inputs.recipe
        with spans.child("tower") as span:
            span.input("pixel_values", inputs.pixel_values)
            states = network.tower(inputs.pixel_values)
            span.output("features", states.last)
        if recipe.fused:
            return self._map_after_means(states, recipe, spans)
        with spans.child("projector") as span:
            span.input("features", states.last)
            projected = network.project(states.last)
            span.output("projected", projected)
        with spans.child("adaptor") as span:
            span.input("projected", projected)
            adapted = network.adapt(projected)
            span.output("adapted", adapted)
        return self._prune(self._pool(adapted, recipe, spans), states, recipe, spans)

    def _map_after_means(self, states: TowerStates, recipe: VisionRecipe, spans: StageClock) -> torch.Tensor:
        with spans.child("projector") as span:
            span.input("features", states.last)
            inner = self.network.activate(states.last)
            span.output("activated", inner)
        rows = self._prune(self._pool(inner, recipe, spans), states, recipe, spans)
        with spans.child("fused map") as span:
            span.input("pooled", rows)
            visual = self.network.map_fused(rows)
            span.output("visual embeddings", visual)
        return visual

    def _pool(self, frames: torch.Tensor, recipe: VisionRecipe, spans: StageClock) -> torch.Tensor:
        """[T, N, width] -> [T + N, width], or the single frame's [N, width]."""
        if not recipe.pooled:
            return frames[0]
        with spans.child("pooling") as span:
            span.input("frames", frames)
            pooled = self.network.pool(frames)
            span.output("pooled", pooled)
        return pooled

    @staticmethod
    def _prune(rows: torch.Tensor, states: TowerStates, recipe: VisionRecipe, spans: StageClock) -> torch.Tensor:
        """Rows without the tokens pruned; the frames' own means and the class token's row always stay."""
        if recipe.keep == 1:
            return rows
        frames, tokens, _ = states.last.shape
        means = frames if recipe.pooled else 0
        with spans.child("pruning") as span:
            span.input("visual embeddings", rows)
            patches = choose_tokens(
                recipe.prune_by,
                kept_count(tokens, recipe.keep) - 1,
                scores=lambda: class_attention(states).mean(dim=0, keepdim=True),
                features=states.last[:, 1:].mean(dim=0, keepdim=True),
            )
            kept = torch.cat([rows[:means], rows[means:][with_class_token(patches)[0]]])
            span.output("visual embeddings", kept)
        return kept


@dataclass(frozen=True)
class EventGptConfig(ModelConfig):
    """A CLIP tower, a Llama, and between them a projector and (`has_adaptor`) one linear adaptor."""

    has_adaptor: bool = True
    family: str = field(default="eventgpt", kw_only=True)


class EventGptFamily(LentTowerFamily):
    tower_key = "mm_visual_tower"
    tower_prefix = "model.visual_tower.visual_tower.vision_model."
    names = Naming(
        (
            ("visual_tower.", tower_prefix),
            ("visual_projector.", "model.visual_projector."),
            ("feature_adaptor.", "model.feature_adaptor."),
            ("language_model.lm_head.", "lm_head."),
            ("language_model.model.", "model."),
        )
    )
    template = EVENTGPT_V1
    network = EventGptModel
    model = EventLanguageModel
    writes_tokenizer_file = False
    published_rows = 32_000

    def read(self, folder: Path, values: dict[str, Any], clip: str | None, *, holds_tower: bool) -> ModelConfig:
        if values.get("use_event_qformer"):
            raise UserError(
                f"{folder / 'config.json'} asks for a Q-Former (use_event_qformer), which no published code describes; "
                "use a checkpoint without one."
            )
        vision, found = self.read_tower(folder, values, clip, holds_tower=holds_tower)
        assumptions = list(found.pop("assumptions"))
        has_adaptor = "event_feature_adaptor" in values
        if not has_adaptor:
            assumptions.append("config.json has no event_feature_adaptor, so the model is built without an adaptor.")
        assumptions += [
            f"{flag} is set, but event markers are read as ordinary text, as in the released code."
            for flag in ("mm_use_im_start_end", "mm_use_im_patch_token")
            if values.get(flag)
        ]
        return EventGptConfig(vision, text_config(values), has_adaptor, assumptions=tuple(assumptions), **found)

    def random(self, vision: CLIPVisionConfig, text: Mapping[str, Any]) -> ModelConfig:
        return EventGptConfig(vision, text_config(text))

    def visual_counts(self, config: ModelConfig, pictures: int, settings: GenerationSettings) -> VisualCounts:
        if settings.input.pooling == "none":
            return super().visual_counts(config, pictures, settings)
        return pooled_counts(pictures, config.tokens_per_frame, settings.switches.visual_keep)


EVENTGPT = EventGptFamily("eventgpt")
