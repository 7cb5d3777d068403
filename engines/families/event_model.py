"""EventGPT as the pipeline calls it: events to event frames to visual embeddings to a prompt."""

from __future__ import annotations

from dataclasses import replace

import torch

from engines.checkpoints.config import edge
from engines.decoder.llama import LlamaDecoder
from engines.families.clip_tower import TowerStates, class_attention
from engines.families.eventgpt import EventGptModel
from engines.measuring.timing import StageClock
from engines.stages.event_frames import draw_event_frames
from engines.stages.model import EVENTS, HostInputs, ModelInputs, VisionRecipe, splice
from engines.stages.pixel_values import ClipTransform
from engines.stages.preparation import PromptLayout, prepare, without_use
from engines.stages.reading import read_input, span_warnings
from engines.stages.rehearsal import Rehearsal
from engines.stages.vision_stage import KeptVision
from engines.stages.visual_pruning import choose_tokens, kept_count, with_class_token
from engines.stages.visual_tokens import framewise_counts, pooled_counts
from engines.tokens.prompts import EVENTGPT_TRAINING, EVENTGPT_UNMARKED, EVENTGPT_V1, PromptTemplate
from engines.tokens.tokenization import Vocabulary
from evprof.core.errors import USAGE, UserError
from evprof.core.run_info import ModelFacts
from evprof.core.sample import Sample
from evprof.core.vocabulary.generation import GenerationSettings

DEFAULT_EVENT_FRAMES = 5
"""EventGPT's own number of slices."""

SEQUENCE_LIMIT = 2048
"""Positions EventGPT's own program cuts every prompt off at."""


class EventLanguageModel:
    """A loaded EventGPT."""

    wants = EVENTS

    def __init__(
        self,
        network: EventGptModel,
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
        # One more frame adds one temporal mean; the spatial means are there once.
        self.visual_tokens_per_frame = 1
        spelled = f"eventgpt {network.config.vision.to_json_string()}"
        self.kept = KeptVision(identity or facts.name, spelled, transform, device=self.device, dtype=self.dtype)
        pixels = edge(network.config.vision)
        self._rehearsal = Rehearsal(pixels, device=self.device, dtype=self.dtype)

    def make_ready(self, settings: GenerationSettings) -> None:
        """A blank frame through stage vision; with a fused projector its two matrices are multiplied on the way."""
        self._rehearsal.perform(_recipe(settings), self._encode)

    def load(
        self, sample: Sample, settings: GenerationSettings, spans: StageClock, *, kind: str | None = None
    ) -> HostInputs:
        """Stage 1."""
        frames = settings.event_frames
        host = read_input(
            kind or self.wants,
            sample,
            spans,
            event_frames=frames,
            video_frames=frames or DEFAULT_EVENT_FRAMES,
            switches=settings.switches,
        )
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
        frames = (settings.event_frames or DEFAULT_EVENT_FRAMES) if renders else len(host.pictures)
        pooled = _recipe(settings).pooled
        if not pooled and frames != 1:
            raise UserError(
                f"Pooling none shows {self.facts.name} every token of a single frame, not of {frames}; "
                "add --event-frames 1.",
                exit_code=USAGE,
            )
        count = pooled_counts if pooled else framewise_counts
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
            recipe=_recipe(settings),
        )

    def encode_vision(self, inputs: ModelInputs, spans: StageClock) -> torch.Tensor:
        """Stage 3: [T + N, hidden], less what is pruned; [N, hidden] when a single frame is not pooled."""
        return self.kept.encode(inputs, spans, lambda: self._encode(inputs, spans))

    def _encode(self, inputs: ModelInputs, spans: StageClock) -> torch.Tensor:
        network, recipe = self.network, inputs.recipe
        with spans.child("tower") as span:
            span.input("pixel_values", inputs.pixel_values)
            states = network.tower_states(inputs.pixel_values)
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

    def embed_prompt(self, inputs: ModelInputs, visual: torch.Tensor) -> torch.Tensor:
        """Part of stage 4: [1, S, hidden]; visual rows past the sequence's limit are left out."""
        text = self.language_model.embed(inputs.text_ids)
        return splice(text, visual[: inputs.lengths.visual], inputs.slots)


def _recipe(settings: GenerationSettings) -> VisionRecipe:
    switches = settings.switches
    return VisionRecipe(
        pooled=settings.input.pooling != "none",
        fused=switches.projector == "fused",
        keep=switches.visual_keep,
        prune_by=switches.prune_by,
        cache=switches.vision_cache,
    )
