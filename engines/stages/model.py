"""What every family's model is to the pipeline: five stages' worth of methods, and what is handed between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch

from engines.decoder.llama import LlamaDecoder
from engines.measuring.timing import StageClock
from engines.stages.pixel_values import thumbnails
from engines.tokens.prompts import PromptTemplate
from engines.tokens.tokenization import Vocabulary
from evprof.core.events import EventArray
from evprof.core.run_info import LengthFacts, LoadingFacts, ModelFacts
from evprof.core.sample import Sample
from evprof.core.vocabulary.generation import GenerationSettings
from evprof.loaders.pictures.render import Picture

EVENTS, VIDEO = "events", "video"
"""The halves of a sample."""


@dataclass(frozen=True, eq=False)
class HostInputs:
    """Camera events, or RGB pictures with their time in µs (start, end). `kind` is EVENTS (drawn or not) or VIDEO;
    `loading` is what reading cost."""

    path: str
    kind: str
    events: EventArray | None = None
    pictures: tuple[Picture, ...] = ()
    times_us: tuple[tuple[int, int], ...] = ()
    labels: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    loading: LoadingFacts = field(default_factory=LoadingFacts)


@dataclass(frozen=True)
class SeenFrame:
    label: str
    start_us: int
    end_us: int
    png: bytes


@dataclass(frozen=True)
class VisionRecipe:
    """How stage vision computes. `pooled`: EventGPT's means; `fused`: one Linear after them instead of two before;
    `keep` is the share of tokens kept by `prune_by`; `cache` keeps embeddings under `key`."""

    pooled: bool = True
    fused: bool = False
    keep: float = 1.0
    prune_by: str = "attention"
    cache: str = "off"
    key: str = ""


@dataclass(frozen=True, eq=False)
class ModelInputs:
    """Inputs on the device. `pixel_values` [T, 3, H, W]; `token_ids` with `prompts.SLOT` for visual embeddings;
    `text_ids` [S_text] without them; `slots` counts the text ids before each slot; `lengths` are the prompt's.
    `image_sizes` [T, 2] are heights and widths before CLIP's preparation. Stages may add `warnings`."""

    pixel_values: torch.Tensor
    token_ids: tuple[int, ...]
    text_ids: torch.Tensor
    slots: tuple[int, ...]
    lengths: LengthFacts
    pictures: tuple[Picture, ...] = ()
    times_us: tuple[tuple[int, int], ...] = ()
    labels: tuple[str, ...] = ()
    recipe: VisionRecipe = field(default_factory=VisionRecipe)
    warnings: list[str] = field(default_factory=list)
    image_sizes: npt.NDArray[np.int64] = field(default_factory=lambda: np.empty((0, 2), dtype=np.int64))

    @cached_property
    def frames(self) -> list[SeenFrame]:
        """The pictures the tower saw, encoded as PNG on first use: ask for them outside the measured stages."""
        encoded = thumbnails(self.pictures)
        return [
            SeenFrame(label, start_us, end_us, png)
            for label, (start_us, end_us), png in zip(self.labels, self.times_us, encoded, strict=True)
        ]


class VisionLanguageModel(Protocol):
    """A loaded model. `wants` is the kind of input its family was made for, EVENTS or VIDEO; it reads both.
    `visual_tokens_per_frame` is what a frame adds to an unpruned prompt."""

    facts: ModelFacts
    wants: str
    device: torch.device
    dtype: torch.dtype
    vocabulary: Vocabulary
    visual_tokens_per_frame: int
    language_model: LlamaDecoder

    @property
    def warnings(self) -> tuple[str, ...]:
        """Sentences for every run of the model."""

    @property
    def vision_pass(self) -> str:
        """How the vision tower's latest pass was computed: "graphs" or "eager"."""

    def release(self) -> None:
        """Releases the memory that captured passes keep between runs."""

    def make_ready(self, settings: GenerationSettings) -> None:
        """Part of setup: computes once what these settings need and no stage should pay for."""

    def load(
        self, sample: Sample, settings: GenerationSettings, spans: StageClock, *, kind: str | None = None
    ) -> HostInputs:
        """Stage 1: reads half `kind` of the sample (default: `wants`). Raises UserError naming the file."""

    def template_of(self, settings: GenerationSettings) -> PromptTemplate:
        """The prompt's layout under these settings."""

    def preprocess(self, host: HostInputs, prompt: str, settings: GenerationSettings, spans: StageClock) -> ModelInputs:
        """Stage 2: pictures, pixel values and token ids, on the device. Raises UserError for an overlong prompt."""

    def encode_vision(self, inputs: ModelInputs, spans: StageClock) -> torch.Tensor:
        """Stage 3: visual embeddings [V, hidden]."""

    def embed_prompt(self, inputs: ModelInputs, visual: torch.Tensor) -> torch.Tensor:
        """Part of stage 4: the whole prompt as [1, S, hidden]; visual embeddings come in, they are not made here."""


def splice(text: torch.Tensor, visual: torch.Tensor, slots: Sequence[int]) -> torch.Tensor:
    """Text [S, hidden] with visual embeddings [V, hidden] in equal shares at `slots` -> [1, S + V, hidden]."""
    share = visual.shape[0] // len(slots)
    parts: list[torch.Tensor] = []
    last = 0
    for number, position in enumerate(slots):
        parts += [text[last:position], visual[number * share : (number + 1) * share]]
        last = position
    return torch.cat([*parts, text[last:]]).unsqueeze(0)
