"""The families of models: what they are called, what they read, and how their published checkpoints name themselves."""

from __future__ import annotations

import math
from dataclasses import dataclass

from evprof.core.records import DRAFT, TARGET
from evprof.core.texts import one_line

EVENTS, VIDEO = "events", "video"
"""The halves of a sample."""

_LONGEST = 60
"""Characters of the name of a family that nobody knows."""

READ_BY = {DRAFT: EVENTS, TARGET: VIDEO}
"""What the model of a role reads unless the settings say otherwise."""


@dataclass(frozen=True)
class Family:
    """A family. `reads` is the half of a sample it was made for; `model_type` what its config.json says.

    `frames` is how many pictures it is shown by default; where the recording's length decides, the fewest, and
    `by_length` says the rest: (µs up to which, frames). `text_positions` is how many positions its prompt has beside
    them for a question of usual length. `takes_images`: pictures are images of their own, so they may form a grid.
    `is_bundled`: a tiny model of it comes along. `other_types` are names that `model_type` has besides.

    Of the published models: a language model of `size`, trained for `context` positions; pictures of `image_size`
    pixels, read after `tower_layers` of CLIP ViT-L/14's layers, each of `frame_tokens` visual tokens. `pools_frames`:
    frames share one mean for each of these tokens and keep one of their own. `pools_projected`: patches are pooled
    after the projector. `has_adaptor`: one more linear layer follows the projector.
    """

    key: str
    title: str
    sentence: str
    reads: str
    model_type: str
    frames: int
    text_positions: int
    image_size: int = 336
    tower_layers: int = 23
    frame_tokens: int = 576
    takes_images: bool = False
    pools_frames: bool = False
    has_adaptor: bool = False
    is_bundled: bool = False
    by_length: tuple[tuple[float, int], ...] = ()
    pools_projected: bool = False
    size: str = "7B"
    context: int = 4096
    other_types: tuple[str, ...] = ()

    @property
    def model_types(self) -> tuple[str, ...]:
        return (self.model_type, *self.other_types)

    @property
    def most_frames(self) -> int:
        return max([self.frames, *(frames for _, frames in self.by_length)])

    @property
    def frames_text(self) -> str:
        """`5`, or `4 to 32` where the recording's length decides."""
        return f"{self.frames} to {self.most_frames}" if self.by_length else str(self.frames)

    def frames_for(self, duration_us: int) -> int:
        return next((frames for longest, frames in self.by_length if duration_us <= longest), self.most_frames)

    @property
    def role(self) -> str:
        return DRAFT if self.reads == EVENTS else TARGET

    @property
    def frames_setting(self) -> str:
        return "event_frames" if self.reads == EVENTS else "frames"

    @property
    def description(self) -> str:
        return f"{self.title}: {self.sentence}"

    @property
    def word(self) -> str:
        """How names of models spell it: `video-llava`."""
        return self.key.replace("_", "-")


_ALL = (
    Family(
        "eventgpt",
        "EventGPT",
        "camera events as a few event frames, CLIP, mean pooling over time and space, Vicuna.",
        EVENTS,
        "EventChat_llama",
        5,
        58,
        tower_layers=24,
        frame_tokens=577,
        pools_frames=True,
        has_adaptor=True,
        is_bundled=True,
    ),
    Family(
        "eventgpt_plus",
        "EventGPT-Plus",
        "camera events as 4 to 32 event frames by the recording's length, CLIP, patches pooled two by two, Qwen2.",
        EVENTS,
        "eventgpt_plus_qwen",
        4,
        66,
        tower_layers=24,
        frame_tokens=144,
        by_length=((100_000, 4), (4_000_000, 8), (16_000_000, 16), (math.inf, 32)),
        pools_projected=True,
        size="1.5B",
        context=32_768,
        other_types=("EventChat_Qwen",),
    ),
    Family(
        "video_llava",
        "Video-LLaVA",
        "eight video frames through CLIP, Vicuna.",
        VIDEO,
        "video_llava",
        8,
        30,
        image_size=224,
        frame_tokens=257,
        is_bundled=True,
    ),
    Family(
        "llava",
        "LLaVA-1.5",
        "video frames as so many images through CLIP, Vicuna.",
        VIDEO,
        "llava",
        8,
        35,
        takes_images=True,
    ),
    Family(
        "llava_next_video",
        "LLaVA-NeXT-Video",
        "video frames through CLIP, patches pooled two by two, Vicuna.",
        VIDEO,
        "llava_next_video",
        8,
        30,
        frame_tokens=144,
    ),
)
FAMILIES: dict[str, Family] = {family.key: family for family in _ALL}


def family_title(key: str, other: str | None = None) -> str:
    """How people call a family; `other` (else the key) for one that nobody knows."""
    if key in FAMILIES:
        return FAMILIES[key].title
    return one_line(key, _LONGEST) if other is None else other


def family_by_type(model_type: str) -> Family | None:
    """The family whose checkpoints say this `model_type`, however its letters are."""
    asked = model_type.lower()
    return next((each for each in _ALL if asked in (each.key, *map(str.lower, each.model_types))), None)


def family_by_word(name: str) -> Family | None:
    """The family that a model's name ends in, such as `random:7b-video-llava`."""
    longest_first = sorted(FAMILIES.values(), key=lambda family: -len(family.word))
    return next((family for family in longest_first if name.endswith(family.word)), None)


@dataclass(frozen=True)
class TextShape:
    """A Llama's sizes. `head_dim` · `heads` need not be `hidden`; `is_tied`: the head is the embedding table."""

    layers: int
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int
    is_tied: bool = False

    @property
    def layer_weights(self) -> int:
        """Elements of all layers' matrices: queries and output, keys and values, the MLP's three."""
        attention = 2 * self.hidden * self.head_dim * (self.heads + self.kv_heads)
        return self.layers * (attention + 3 * self.hidden * self.intermediate)

    @property
    def head_weights(self) -> int:
        return self.vocabulary * self.hidden

    @property
    def norm_weights(self) -> int:
        """Elements of the norms: two a layer and the last."""
        return (2 * self.layers + 1) * self.hidden

    @property
    def streamed_weights(self) -> int:
        """Elements every step reads: all but the embedding table, of which a step gathers one row."""
        return self.layer_weights + self.norm_weights + self.head_weights

    @property
    def parameters(self) -> int:
        return self.streamed_weights + (0 if self.is_tied else self.head_weights)


@dataclass(frozen=True)
class VisionShape:
    """A CLIP tower and what follows it, for `frames` frames.

    `layers` are those whose output is used; `kept` the tokens of a frame that go on to the language model, `projected`
    those that go through the projector where they are pooled after it (None: the same); `projections` the (in, out)
    of the linear layers after the tower.
    """

    frames: int
    layers: int
    width: int
    intermediate: int
    patch: int
    patches: int
    kept: int
    projections: tuple[tuple[int, int], ...]
    channels: int = 3
    projected: int | None = None
