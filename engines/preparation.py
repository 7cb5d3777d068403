"""Stage preprocess, as far as every family shares it: pictures to pixel values, a prompt to ids, lengths checked."""

from __future__ import annotations

from typing import Protocol

import torch

from engines.model import HostInputs, ModelInputs
from engines.preprocessing import ClipTransform
from engines.prompts import SLOT, PromptTemplate, prompt_ids
from engines.timing import StageClock
from engines.tokenization import Vocabulary
from evprof.core.errors import UserError
from evprof.core.request import GenerationSettings
from evprof.core.run_info import LengthFacts, ModelFacts


class _Prepared(Protocol):
    facts: ModelFacts
    device: torch.device
    dtype: torch.dtype
    vocabulary: Vocabulary
    transform: ClipTransform


def prepare(
    model: _Prepared,
    host: HostInputs,
    prompt: str,
    settings: GenerationSettings,
    spans: StageClock,
    *,
    template: PromptTemplate,
    slots: int,
    visual: int,
    refuses_overlong: bool = True,
) -> ModelInputs:
    """Pixel values [T, 3, H, W] and ids on the model's device, in its dtype.

    `visual` positions come from the input, spread over `slots` slots. Raises UserError when the prompt does not fit
    the model's positions; with `refuses_overlong` off, only text that does not fit by itself is refused.
    """
    with spans.child("resize+normalise") as span:
        values, cuts = model.transform.pixel_values(host.pictures)
        span.output("pixel_values", values)
    with spans.child("tokenize") as span:
        tokens = prompt_ids(model.vocabulary, template, prompt, slots)
        text = [index for index in tokens.ids if index != SLOT]
        lengths = LengthFacts(input=len(text) + visual, system=tokens.system, text=tokens.text, visual=visual)
        warnings = _check_lengths(model.facts, lengths, settings, len(host.pictures), refuses_overlong)
    with spans.child("to device") as span:
        pixel_values = torch.from_numpy(values).to(model.device, model.dtype)
        text_ids = torch.tensor(text, device=model.device)
        span.output("pixel_values", pixel_values)
        span.output("text_ids", text_ids)
    positions = [index for index, token in enumerate(tokens.ids) if token == SLOT]
    return ModelInputs(
        pixel_values,
        tokens.ids,
        text_ids,
        # Slots before this one are no text ids.
        tuple(position - number for number, position in enumerate(positions)),
        lengths,
        tuple(cuts),
        host.times_us,
        host.labels,
        (*host.warnings, *warnings),
    )


def _check_lengths(
    facts: ModelFacts, lengths: LengthFacts, settings: GenerationSettings, frames: int, refuses_overlong: bool
) -> list[str]:
    limit = facts.context_limit
    text = lengths.input - lengths.visual
    if text >= limit or (refuses_overlong and lengths.input >= limit):
        raise UserError(
            f"The prompt takes {lengths.input} positions ({lengths.visual} for {frames} frames, {text} for text), "
            f"but {facts.name} has {limit}; shorten the prompt or use fewer frames."
        )
    if lengths.input + settings.max_new_tokens > limit:
        return [
            f"Prompt ({lengths.input}) and answer (up to {settings.max_new_tokens} tokens) can pass the {limit} "
            f"positions {facts.name} was trained for; text beyond them degrades."
        ]
    return []
