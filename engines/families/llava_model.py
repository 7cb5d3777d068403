"""LLaVA-1.5, Video-LLaVA and LLaVA-NeXT-Video: a CLIP tower, a two-layer projector, Llama or Qwen2.

The parts are transformers' modules side by side, so that each can be called, timed and shown on its own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn import functional

from engines.checkpoints.config import ModelConfig, edge, number, patches
from engines.families.clip_tower import TowerStates, class_attention
from engines.families.loaded_model import LoadedModel, Network, make_language_model
from engines.measuring.timing import StageClock
from engines.stages.frames import draw_event_frames, tile_frames
from engines.stages.model import HostInputs, ModelInputs, VisionRecipe
from engines.stages.preparation import PromptLayout, prepare, without_use
from engines.stages.visual_tokens import choose_tokens, framewise_counts, gather_tokens, kept_count, with_class_token
from engines.tokens.prompts import PromptTemplate
from evprof.core.vocabulary.generation import GenerationSettings

if TYPE_CHECKING:
    from transformers import CLIPVisionModel


@dataclass(frozen=True)
class LlavaConfig(ModelConfig):
    """CLIP, two linear layers, Llama. `keeps_cls`: the class token stays. `pooling` is None or how squares of
    `pool_stride` x `pool_stride` patches become one token. `slot_id` replaces the prompt's slot."""

    slot_id: int = field(kw_only=True)
    feature_layer: int = field(default=-2, kw_only=True)
    keeps_cls: bool = False
    projector_bias: bool = True
    image_token_id: int = 32_000
    pooling: str | None = None
    pool_stride: int = 2

    @property
    def tokens_per_frame(self) -> int:
        """Visual tokens of one frame; where patches are pooled, what does not fill a square is dropped."""
        if self.pooling is None:
            return patches(self.vision) + int(self.keeps_cls)
        side: int = edge(self.vision) // number(self.vision.patch_size)
        return (side // self.pool_stride) ** 2

    @property
    def patch_pooling(self) -> str:
        return f"{self.pooling} of {self.pool_stride} x {self.pool_stride} patches" if self.pooling else ""


class Projector(nn.Module):
    def __init__(self, config: LlavaConfig) -> None:
        from transformers.activations import ACT2FN

        super().__init__()
        hidden = config.text.hidden_size
        self.linear_1 = nn.Linear(config.vision.hidden_size, hidden, bias=config.projector_bias)
        self.act = ACT2FN[config.projector_act]
        self.linear_2 = nn.Linear(hidden, hidden, bias=config.projector_bias)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """[T, N, width] -> [T, N, hidden]."""
        projected: torch.Tensor = self.linear_2(self.act(self.linear_1(features)))
        return projected


class LlavaModel(Network):
    config: LlavaConfig

    def __init__(self, config: LlavaConfig) -> None:
        super().__init__()
        self.config = config
        self._build_towers()
        self.multi_modal_projector = Projector(config)
        self.language_model = make_language_model(config.text)

    def _build_towers(self) -> None:
        from transformers import CLIPVisionModel

        self.vision_tower = CLIPVisionModel(self.config.vision)

    @property
    def frame_tower(self) -> CLIPVisionModel:
        return self.vision_tower

    @property
    def pools(self) -> bool:
        return self.config.pooling is not None

    def tower_features(self, pixel_values: torch.Tensor) -> torch.Tensor:
        """[T, 3, H, W] -> [T, N, width]: hidden states of the configured layer."""
        return self.read_tokens(self.tower(pixel_values).last)

    def read_tokens(self, states: torch.Tensor) -> torch.Tensor:
        """All tokens [T, 1 + P, width] -> those that are read, [T, N, width]."""
        return states if self.config.keeps_cls else states[:, 1:]

    def project(self, features: torch.Tensor) -> torch.Tensor:
        """[T, N, width] -> [T, N, hidden]."""
        projected: torch.Tensor = self.multi_modal_projector(features)
        return projected

    def pool_patches(self, features: torch.Tensor) -> torch.Tensor:
        """[T, P, width] -> [T, N, width]: pools squares of patches, dropping rows and columns that fill no square."""
        if not self.pools:
            return features
        frames, count, width = features.shape
        side, stride = math.isqrt(count), self.config.pool_stride
        grid = features.view(frames, side, side, width).permute(0, 3, 1, 2)
        pool = functional.max_pool2d if self.config.pooling == "max" else functional.avg_pool2d
        return pool(grid, stride, stride).flatten(2).transpose(1, 2)

    def encode_frames(self, pixel_values: torch.Tensor) -> torch.Tensor:
        """[T, 3, H, W] -> [T, N, hidden]."""
        return self.project(self.pool_patches(self.tower_features(pixel_values)))


class VideoLanguageModel(LoadedModel):
    network: LlavaModel

    @property
    def cut_at(self) -> int | None:
        return None

    @staticmethod
    def recipe_of(settings: GenerationSettings) -> VisionRecipe:
        switches = settings.switches
        return VisionRecipe(
            pooled=False, keep=switches.visual_keep, prune_by=switches.prune_by, cache=switches.vision_cache
        )

    def template_of(self, settings: GenerationSettings) -> PromptTemplate:
        return self.template

    def preprocess(self, host: HostInputs, prompt: str, settings: GenerationSettings, spans: StageClock) -> ModelInputs:
        """Stage 2: draws event frames, tiles them for a grid, then CLIP's preparation and the prompt."""
        shown = self.shown(host, settings, spans)
        frames = len(shown.pictures)
        return prepare(
            self,
            replace(shown, warnings=(*shown.warnings, *without_use(self, settings, host.kind))),
            prompt,
            settings,
            spans,
            layout=PromptLayout(
                self.template_of(settings),
                frames if self.record.takes_images else 1,
                framewise_counts(frames, self.visual_tokens_per_frame, settings.switches.visual_keep),
                self.cut_at,
            ),
            recipe=self.recipe_of(settings),
        )

    def shown(self, host: HostInputs, settings: GenerationSettings, spans: StageClock) -> HostInputs:
        drawn = draw_event_frames(host, settings.frames or self.record.frames, settings.input.canvas_size, spans)
        if self.record.takes_images and settings.input.image_layout == "grid":
            return self._tile(drawn, spans)
        return drawn

    def _tile(self, host: HostInputs, spans: StageClock) -> HostInputs:
        with spans.child("tile") as span:
            span.input("frames", list(host.pictures))
            grid = tile_frames(host.pictures, self.transform)
            span.output("grid", grid)
        label = f"grid of {len(host.pictures)}: {host.labels[0]} to {host.labels[-1]}"
        return replace(host, pictures=(grid,), times_us=((host.times_us[0][0], host.times_us[-1][1]),), labels=(label,))

    def compute_vision(self, inputs: ModelInputs, spans: StageClock) -> torch.Tensor:
        """[T · N, hidden], frame after frame, less what is pruned."""
        with spans.child("tower") as span:
            span.input("pixel_values", inputs.pixel_values)
            states = self.network.tower(inputs.pixel_values)
            features = self.network.read_tokens(states.last)
            span.output("features", features)
        if self.network.pools:
            features = self.pool(features, spans)
        if inputs.recipe.keep < 1:
            features = self.prune(features, states, inputs.recipe, spans)
        with spans.child("projector") as span:
            span.input("features", features)
            projected = self.network.project(features).flatten(0, 1)
            span.output("visual embeddings", projected)
        return projected

    def pool(self, features: torch.Tensor, spans: StageClock) -> torch.Tensor:
        """[T, P, width] -> [T, N, width]."""
        with spans.child("pooling") as span:
            span.input("features", features)
            pooled = self.network.pool_patches(features)
            span.output("features", pooled)
        return pooled

    def prune(
        self, features: torch.Tensor, states: TowerStates, recipe: VisionRecipe, spans: StageClock
    ) -> torch.Tensor:
        """[T, N, width] -> [T, K, width]; a class token that is read always stays."""
        keeps_cls = self.network.config.keeps_cls
        with spans.child("pruning") as span:
            span.input("features", features)
            chosen = choose_tokens(
                recipe.prune_by,
                kept_count(self.visual_tokens_per_frame, recipe.keep) - int(keeps_cls),
                scores=lambda: self._scores(states),
                features=features[:, int(keeps_cls) :],
            )
            kept = gather_tokens(features, with_class_token(chosen) if keeps_cls else chosen)
            span.output("features", kept)
        return kept

    def _scores(self, states: TowerStates) -> torch.Tensor:
        """The class token's attention to each token that is read, [T, N]: squares of patches count as their mean."""
        scores, config = class_attention(states), self.network.config
        if config.pooling is None:
            return scores
        side = edge(config.vision) // number(config.vision.patch_size)
        return F.avg_pool2d(scores.view(-1, 1, side, side), config.pool_stride).flatten(1)
