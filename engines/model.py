"""What every family's model is to the pipeline: five stages' worth of methods, and what is handed between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import torch

from engines.llama import LlamaDecoder
from engines.preprocessing import thumbnails
from engines.timing import StageClock
from engines.tokenization import Vocabulary
from evprof.core.events import EventArray
from evprof.core.request import GenerationSettings
from evprof.core.run_info import LengthFacts, ModelFacts
from evprof.core.sample import Sample
from evprof.loaders.render import Picture

EVENTS, VIDEO = "events", "video"
"""The inputs a model can want."""


@dataclass(frozen=True, eq=False)
class HostInputs:
    """What stage load leaves on the host: camera events, or RGB pictures with their time in µs (start, end)."""

    path: str
    events: EventArray | None = None
    pictures: tuple[Picture, ...] = ()
    times_us: tuple[tuple[int, int], ...] = ()
    labels: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class SeenFrame:
    """One picture the model read, as PNG; see FrameRecord."""

    label: str
    start_us: int
    end_us: int
    png: bytes


@dataclass(frozen=True, eq=False)
class ModelInputs:
    """What stage preprocess leaves on the device.

    `pixel_values` [T, 3, H, W]; `token_ids` with `prompts.SLOT` for visual embeddings; `text_ids` [S_text], the same
    without slots; `slots`: for each slot how many text ids come before it. `warnings` are sentences for the reader
    of the figures, those of stage load included.
    """

    pixel_values: torch.Tensor
    token_ids: tuple[int, ...]
    text_ids: torch.Tensor
    slots: tuple[int, ...]
    lengths: LengthFacts
    pictures: tuple[Picture, ...] = ()
    times_us: tuple[tuple[int, int], ...] = ()
    labels: tuple[str, ...] = ()
    warnings: tuple[str, ...] = field(default=())

    @cached_property
    def frames(self) -> list[SeenFrame]:
        """The pictures the tower saw, encoded as PNG on first use: ask for them outside the measured stages."""
        encoded = thumbnails(self.pictures)
        return [
            SeenFrame(label, start_us, end_us, png)
            for label, (start_us, end_us), png in zip(self.labels, self.times_us, encoded, strict=True)
        ]


class VisionLanguageModel(Protocol):
    """A loaded model. `wants` is EVENTS or VIDEO; `visual_tokens_per_frame` is what one more frame adds to a prompt."""

    facts: ModelFacts
    wants: str
    device: torch.device
    dtype: torch.dtype
    vocabulary: Vocabulary
    visual_tokens_per_frame: int
    warnings: tuple[str, ...]
    language_model: LlamaDecoder

    def load(self, sample: Sample, settings: GenerationSettings, spans: StageClock) -> HostInputs:
        """Stage 1: reads the sample's half this model wants. Raises UserError naming the file."""

    def preprocess(self, host: HostInputs, prompt: str, settings: GenerationSettings, spans: StageClock) -> ModelInputs:
        """Stage 2: pictures, pixel values and token ids, on the device. Raises UserError for an overlong prompt."""

    def encode_vision(self, inputs: ModelInputs, spans: StageClock) -> torch.Tensor:
        """Stage 3: visual embeddings [V, hidden]."""

    def embed_prompt(self, inputs: ModelInputs, visual: torch.Tensor) -> torch.Tensor:
        """Part of stage 4: the whole prompt as [1, S, hidden]; visual embeddings come in, they are not made here."""


def splice(text: torch.Tensor, visual: torch.Tensor, slots: Sequence[int]) -> torch.Tensor:
    """Text [S, hidden] with visual embeddings [V, hidden] put in at `slots` in equal shares -> [1, S + V, hidden].

    `slots` counts, for each slot, the text rows before it.
    """
    share = visual.shape[0] // len(slots)
    parts: list[torch.Tensor] = []
    last = 0
    for number, position in enumerate(slots):
        parts += [text[last:position], visual[number * share : (number + 1) * share]]
        last = position
    return torch.cat([*parts, text[last:]]).unsqueeze(0)
