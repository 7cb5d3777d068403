"""The LLaVA families as the pipeline calls them: pictures to visual embeddings to a prompt."""

from __future__ import annotations

from dataclasses import replace

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own convention

from engines.checkpoints.config import edge, number
from engines.families.clip_tower import TowerStates, class_attention
from engines.families.family import engine_family
from engines.families.llava_network import LlavaModel
from engines.families.loaded_model import LoadedModel
from engines.measuring.timing import StageClock
from engines.stages.event_frames import draw_event_frames
from engines.stages.image_grid import tile_frames
from engines.stages.model import HostInputs, ModelInputs, VisionRecipe
from engines.stages.preparation import PromptLayout, prepare, without_use
from engines.stages.visual_pruning import choose_tokens, gather_tokens, kept_count, with_class_token
from engines.stages.visual_tokens import framewise_counts
from engines.tokens.prompts import PromptTemplate
from evprof.core.vocabulary.generation import GenerationSettings


class VideoLanguageModel(LoadedModel):
    """A loaded model that reads frames, in one slot for all of them or, where frames are images, one slot for each."""

    network: LlavaModel

    @property
    def cut_at(self) -> int | None:
        """Positions the family's own program cuts every prompt off at, if it does."""
        return None

    def spelled(self) -> str:
        """All that decides what the tower's output becomes."""
        config = self.network.config
        reads = (config.family, config.feature_layer, config.keeps_cls, config.pooling, config.pool_stride)
        return f"{reads} {config.projector_act} {config.vision.to_json_string()}"

    @staticmethod
    def recipe_of(settings: GenerationSettings) -> VisionRecipe:
        """Pruned or not; frames are never pooled."""
        switches = settings.switches
        return VisionRecipe(
            pooled=False, keep=switches.visual_keep, prune_by=switches.prune_by, cache=switches.vision_cache
        )

    def template_of(self, settings: GenerationSettings) -> PromptTemplate:
        """The layout of the family and its language model."""
        return engine_family(self.record.key).layout(self.network.config)

    def preprocess(self, host: HostInputs, prompt: str, settings: GenerationSettings, spans: StageClock) -> ModelInputs:
        """Stage 2: renders event frames where events are shown, tiles them for a grid, then CLIP's preparation and the
        prompt."""
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
        """The pictures the tower is to see: events as drawn frames; frames that are images as tiles of one if set."""
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
