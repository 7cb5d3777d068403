"""EventGPT as the pipeline calls it: events to event frames to visual embeddings to a prompt."""

from __future__ import annotations

from dataclasses import replace

import torch

from engines.families.clip_tower import TowerStates, class_attention
from engines.families.eventgpt_network import EventGptModel
from engines.families.loaded_model import LoadedModel
from engines.measuring.timing import StageClock
from engines.stages.event_frames import draw_event_frames
from engines.stages.model import HostInputs, ModelInputs, VisionRecipe
from engines.stages.preparation import PromptLayout, prepare, without_use
from engines.stages.reading import span_warnings
from engines.stages.visual_pruning import choose_tokens, kept_count, with_class_token
from engines.stages.visual_tokens import framewise_counts, pooled_counts
from engines.tokens.prompts import PromptTemplate
from evprof.core.errors import USAGE, UserError
from evprof.core.sample import Sample
from evprof.core.vocabulary.generation import GenerationSettings

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
"""Positions EventGPT's own program cuts every prompt off at."""


class EventLanguageModel(LoadedModel):
    """A loaded EventGPT."""

    network: EventGptModel

    def spelled(self) -> str:
        """The tower's shape: the rest is the same for every EventGPT."""
        return f"{self.record.key} {self.network.config.vision.to_json_string()}"

    @staticmethod
    def recipe_of(settings: GenerationSettings) -> VisionRecipe:
        """With a fused projector its two matrices are multiplied when it is first used."""
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
        """Stage 1, with what is to be said of the recording's span."""
        host = super().load(sample, settings, spans, kind=kind)
        return replace(host, warnings=span_warnings(host))

    def template_of(self, settings: GenerationSettings) -> PromptTemplate:
        """The released layout, the same without markers, or the one training used (which had none)."""
        if settings.input.prompt_style == "training":
            return EVENTGPT_TRAINING
        return EVENTGPT_V1 if settings.input.event_markers else EVENTGPT_UNMARKED

    def preprocess(self, host: HostInputs, prompt: str, settings: GenerationSettings, spans: StageClock) -> ModelInputs:
        """Stage 2: event frames are drawn unless the sample brought pictures, then CLIP's preparation and the prompt.

        Raises UserError when more than one frame would have to go unpooled.
        """
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
        """The same algebra with the means moved to where all that follows is linear."""
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
