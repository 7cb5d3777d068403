"""Stage preprocess, as far as every family shares it: pictures to pixel values, a prompt to ids, lengths checked."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import torch

from engines.measuring.timing import StageClock
from engines.stages.model import EVENTS, HostInputs, ModelInputs, VisionRecipe
from engines.stages.pixel_values import ClipTransform, PixelValues
from engines.stages.reading import OFF
from engines.stages.visual_tokens import VisualCounts
from engines.tokens.prompts import SLOT, PromptTemplate, prompt_ids
from engines.tokens.tokenization import Vocabulary
from engines.tokens.uploads import upload
from evprof.core.errors import UserError
from evprof.core.run_info import LengthFacts, ModelFacts
from evprof.core.vocabulary.families import FAMILIES
from evprof.core.vocabulary.generation import GenerationSettings
from evprof.core.vocabulary.setting import Situation
from evprof.core.vocabulary.settings import SETTINGS
from evprof.core.vocabulary.switches import LANGUAGE_MODEL
from evprof.loaders.pictures.render import Picture


class _Spoken(Protocol):
    facts: ModelFacts
    vocabulary: Vocabulary


class _Prepared(_Spoken, Protocol):
    wants: str
    device: torch.device
    dtype: torch.dtype
    transform: ClipTransform


@dataclass(frozen=True)
class PromptLayout:
    """The layout of a prompt: `counts` visual positions over `slots` slots of `template`. The family's program cuts
    prompts off at `cut_at`."""

    template: PromptTemplate
    slots: int
    counts: VisualCounts
    cut_at: int | None = None


def prepare(
    model: _Prepared,
    host: HostInputs,
    prompt: str,
    settings: GenerationSettings,
    spans: StageClock,
    *,
    layout: PromptLayout,
    recipe: VisionRecipe,
) -> ModelInputs:
    """Pixel values [T, 3, H, W] and ids on the model's device. Warns past the trained positions. Raises UserError if
    the text alone does not fit."""
    with spans.child("resize") as span:
        span.input("pictures", list(host.pictures))
        cuts = [model.transform.cut(picture) for picture in host.pictures]
        span.output("pictures", cuts)
    values = PixelValues(model.transform, cuts, model.device, model.dtype)
    values.begin(spans)
    if recipe.cache != OFF:
        with spans.child("cache key"):
            recipe = replace(recipe, key=vision_key(cuts, recipe))
    with spans.child("tokenize") as span:
        span.input("prompt", prompt)
        ids, lengths, warnings = tokenize_prompt(model, prompt, settings, layout)
        span.output("token_ids", ids)
    text = [index for index in ids if index != SLOT]
    with spans.child("to device") as span:
        values.send(span)
        text_ids = upload(text, model.device)
        span.output("text_ids", text_ids)
    pixel_values = values.finish(spans)
    positions = [index for index, token in enumerate(ids) if token == SLOT]
    return ModelInputs(
        pixel_values,
        ids,
        text_ids,
        # Slots before this one are no text ids.
        tuple(position - number for number, position in enumerate(positions)),
        lengths,
        tuple(cuts),
        host.times_us,
        host.labels,
        recipe,
        [*host.warnings, *_other_kind(model, host), *warnings],
        np.array([picture.shape[:2] for picture in host.pictures], dtype=np.int64),
    )


def vision_key(cuts: Sequence[Picture], recipe: VisionRecipe) -> str:
    """Identifies the embeddings that one model makes of these pictures in this way."""
    prunes = (recipe.keep, recipe.prune_by) if recipe.keep < 1 else None
    digest = hashlib.blake2b(repr((recipe.pooled, recipe.fused, prunes)).encode(), digest_size=32)
    for picture in cuts:
        digest.update(repr((picture.shape, str(picture.dtype))).encode())
        digest.update(picture.tobytes())
    return digest.hexdigest()


def tokenize_prompt(
    model: _Spoken, prompt: str, settings: GenerationSettings, layout: PromptLayout
) -> tuple[tuple[int, ...], LengthFacts, list[str]]:
    """Ids with slots, lengths, and what is to be said about them. Raises UserError for an overlong text."""
    tokens = prompt_ids(model.vocabulary, layout.template, prompt, layout.slots)
    ids, counts = tokens.ids, layout.counts
    text = len(ids) - layout.slots
    total = text + counts.total
    if text >= model.facts.context_limit:
        raise UserError(
            f"The prompt's text takes {text:,} positions, but {model.facts.name} has {model.facts.context_limit:,} in "
            "all; shorten the prompt."
        )
    warnings = []
    if layout.cut_at is not None and total > layout.cut_at:
        before = ids.index(SLOT)
        counts = counts.first(max(layout.cut_at - before, 0))
        ids = ids[: before + 1 + max(layout.cut_at - before - counts.total, 0)]
        text = len(ids) - 1
        warnings.append(
            f"The prompt takes {total:,} positions; as in the released code the last {total - layout.cut_at:,} were "
            f"cut off, because {model.facts.name} reads {layout.cut_at}."
        )
    system = min(tokens.system, text)
    visual = counts.total
    lengths = LengthFacts(text + visual, system, text - system, visual, list(counts.per_frame))
    return ids, lengths, [*warnings, *_past_the_limit(model.facts, lengths, settings.max_new_tokens)]


def _past_the_limit(facts: ModelFacts, lengths: LengthFacts, max_new_tokens: int) -> list[str]:
    limit = facts.context_limit
    if lengths.input > limit:
        return [
            f"The prompt takes {lengths.input:,} positions, {lengths.visual:,} of them visual, but {facts.name} was "
            f"trained for {limit:,}; what lies beyond them degrades the answer."
        ]
    if lengths.input + max_new_tokens > limit:
        return [
            f"Prompt ({lengths.input:,}) and answer (up to {max_new_tokens:,} tokens) can pass the {limit:,} "
            f"positions {facts.name} was trained for; text beyond them degrades."
        ]
    return []


def _other_kind(model: _Prepared, host: HostInputs) -> list[str]:
    if host.kind == model.wants:
        return []
    count = len(host.pictures)
    if host.kind == EVENTS:
        shown = f"{count} event frames as video" if count > 1 else "1 event frame as video"
    else:
        shown = f"{count} video frames as event frames" if count > 1 else "1 video frame as an event frame"
    return [f"{model.facts.name} was shown {shown}."]


def without_use(model: _Prepared, settings: GenerationSettings, kind: str) -> tuple[str, ...]:
    family = FAMILIES[model.facts.family]
    values = {**settings.flat(), f"{family.role}_input": kind}
    here = Situation(family.role, values, {family.role: family.key})
    idle = [
        entry.flag
        for key, entry in SETTINGS.items()
        if entry.group in ("input", "switches") and not key.endswith("_input") and entry.head != LANGUAGE_MODEL
        if values[key] != entry.default and entry.idle(here)
    ]
    if not idle:
        return ()
    return (f"{model.facts.name} has no use for {' and '.join(idle)}; the setting changed nothing.",)
