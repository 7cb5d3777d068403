"""Video-LLaVA and LLaVA as the pipeline calls them: pictures to visual embeddings to a prompt."""

from __future__ import annotations

from dataclasses import replace

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own convention

from engines.checkpoints.config import edge, number
from engines.checkpoints.naming import LLAVA, VIDEO_LLAVA
from engines.decoder.llama import LlamaDecoder
from engines.families.clip_tower import TowerStates, class_attention
from engines.families.llava import LlavaModel
from engines.measuring.timing import StageClock
from engines.stages.event_frames import draw_event_frames
from engines.stages.image_grid import tile_frames
from engines.stages.model import VIDEO, HostInputs, ModelInputs, VisionRecipe, splice
from engines.stages.pixel_values import ClipTransform
from engines.stages.preparation import PromptLayout, prepare, without_use
from engines.stages.reading import read_input
from engines.stages.rehearsal import Rehearsal
from engines.stages.vision_stage import KeptVision
from engines.stages.visual_pruning import choose_tokens, gather_tokens, kept_count, with_class_token
from engines.stages.visual_tokens import framewise_counts
from engines.tokens.prompts import LLAVA_NEXT_VIDEO, LLAVA_V1_5, PromptTemplate
from engines.tokens.prompts import VIDEO_LLAVA as VIDEO_LLAVA_PROMPT
from engines.tokens.tokenization import Vocabulary
from evprof.core.run_info import ModelFacts
from evprof.core.sample import Sample
from evprof.core.vocabulary.generation import GenerationSettings

DEFAULT_FRAMES = 8
"""Frames Video-LLaVA was trained with; LLaVA-1.5 gets as many, as so many images."""


_TEMPLATES = {LLAVA: LLAVA_V1_5, VIDEO_LLAVA: VIDEO_LLAVA_PROMPT}


class VideoLanguageModel:
    """A loaded model that reads frames: with one slot for all of them, or, LLaVA-1.5, one slot per image."""

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
        identity: str = "",
    ) -> None:
        self.network, self.vocabulary, self.transform, self.facts = network, vocabulary, transform, facts
        self.language_model = language_model
        self.warnings = warnings
        parameter = next(network.parameters())
        self.device, self.dtype = parameter.device, parameter.dtype
        self.visual_tokens_per_frame = network.tokens_per_frame
        self.reads_images = network.config.family == LLAVA
        self.template = _TEMPLATES.get(network.config.family, LLAVA_NEXT_VIDEO)
        self.kept = KeptVision(
            identity or facts.name, _spelled(network), transform, device=self.device, dtype=self.dtype
        )
        pixels = edge(network.config.vision)
        self._rehearsal = Rehearsal(pixels, device=self.device, dtype=self.dtype)

    def make_ready(self, settings: GenerationSettings) -> None:
        """A blank frame through stage vision."""
        self._rehearsal.perform(_recipe(settings), self._encode)

    def load(
        self, sample: Sample, settings: GenerationSettings, spans: StageClock, *, kind: str | None = None
    ) -> HostInputs:
        """Stage 1."""
        frames = settings.frames
        return read_input(
            kind or self.wants,
            sample,
            spans,
            event_frames=frames,
            video_frames=frames or DEFAULT_FRAMES,
            switches=settings.switches,
        )

    def template_of(self, settings: GenerationSettings) -> PromptTemplate:
        """The family's one layout."""
        return self.template

    def preprocess(self, host: HostInputs, prompt: str, settings: GenerationSettings, spans: StageClock) -> ModelInputs:
        """Stage 2: renders event frames where events are shown, tiles them for a grid, then CLIP's preparation and the
        prompt."""
        shown = draw_event_frames(host, settings.frames or DEFAULT_FRAMES, settings.input.canvas_size, spans)
        if self.reads_images and settings.input.image_layout == "grid":
            shown = self._tile(shown, spans)
        frames = len(shown.pictures)
        return prepare(
            self,
            replace(shown, warnings=(*shown.warnings, *without_use(self, settings, host.kind))),
            prompt,
            settings,
            spans,
            layout=PromptLayout(
                self.template,
                frames if self.reads_images else 1,
                framewise_counts(frames, self.visual_tokens_per_frame, settings.switches.visual_keep),
            ),
            recipe=_recipe(settings),
        )

    def _tile(self, host: HostInputs, spans: StageClock) -> HostInputs:
        with spans.child("tile") as span:
            span.input("frames", list(host.pictures))
            grid = tile_frames(host.pictures, self.transform)
            span.output("grid", grid)
        label = f"grid of {len(host.pictures)}: {host.labels[0]} to {host.labels[-1]}"
        return replace(host, pictures=(grid,), times_us=((host.times_us[0][0], host.times_us[-1][1]),), labels=(label,))

    def encode_vision(self, inputs: ModelInputs, spans: StageClock) -> torch.Tensor:
        """Stage 3: [T · N, hidden], frame after frame, less what is pruned."""
        return self.kept.encode(inputs, spans, lambda: self._encode(inputs, spans))

    def _encode(self, inputs: ModelInputs, spans: StageClock) -> torch.Tensor:
        with spans.child("tower") as span:
            span.input("pixel_values", inputs.pixel_values)
            states = self.network.tower_states(inputs.pixel_values)
            features = self.network.read_tokens(states.last)
            span.output("features", features)
        if self.network.pools:
            features = self._pool(features, spans)
        if inputs.recipe.keep < 1:
            features = self._prune(features, states, inputs.recipe, spans)
        with spans.child("projector") as span:
            span.input("features", features)
            projected = self.network.project(features).flatten(0, 1)
            span.output("visual embeddings", projected)
        return projected

    def _pool(self, features: torch.Tensor, spans: StageClock) -> torch.Tensor:
        with spans.child("pooling") as span:
            span.input("features", features)
            pooled = self.network.pool_patches(features)
            span.output("features", pooled)
        return pooled

    def _prune(
        self, features: torch.Tensor, states: TowerStates, recipe: VisionRecipe, spans: StageClock
    ) -> torch.Tensor:
        """[T, N, width] -> [T, K, width], before the projector; a class token that is read always stays."""
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

    def embed_prompt(self, inputs: ModelInputs, visual: torch.Tensor) -> torch.Tensor:
        """Part of stage 4: [1, S, hidden]."""
        text = self.language_model.embed(inputs.text_ids)
        return splice(text, visual, inputs.slots)


def _recipe(settings: GenerationSettings) -> VisionRecipe:
    switches = settings.switches
    return VisionRecipe(
        pooled=False, keep=switches.visual_keep, prune_by=switches.prune_by, cache=switches.vision_cache
    )


def _spelled(network: LlavaModel) -> str:
    """What the configuration makes of the tower's weights, besides the weights."""
    config = network.config
    reads = (config.family, config.feature_layer, config.keeps_cls, config.pooling, config.pool_stride)
    return f"{reads} {config.projector_act} {config.vision.to_json_string()}"
