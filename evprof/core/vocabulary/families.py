"""The families of models: what they are called, what they read, and how their published checkpoints name themselves."""

from __future__ import annotations

from dataclasses import dataclass

from evprof.core.records import DRAFT, TARGET
from evprof.core.safe_text import one_line

EVENTS, VIDEO = "events", "video"
"""The halves of a sample."""

_LONGEST = 60
"""Characters of the name of a family that nobody knows."""

READ_BY = {DRAFT: EVENTS, TARGET: VIDEO}
"""What the model of a role reads unless the settings say otherwise."""


@dataclass(frozen=True)
class Family:
    """A family. `reads` is the half of a sample it was made for; `model_type` what its config.json says.

    `frames` is how many pictures it is shown by default, `text_positions` how many positions its prompt has beside
    them for a question of usual length. `takes_images`: pictures are images of their own, so they may form a grid.
    `is_bundled`: a tiny model of it comes along.

    Of the published 7B models: pictures of `image_size` pixels, read after `tower_layers` of CLIP ViT-L/14's layers,
    each of `frame_tokens` visual tokens. `pools_frames`: frames share one mean for each of these tokens and keep one of
    their own. `has_adaptor`: one more linear layer follows the projector.
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

    @property
    def role(self) -> str:
        """The role it is offered for."""
        return DRAFT if self.reads == EVENTS else TARGET

    @property
    def frames_setting(self) -> str:
        """The setting that says how many pictures it is shown."""
        return "event_frames" if self.reads == EVENTS else "frames"

    @property
    def description(self) -> str:
        """Its name and its sentence."""
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
"""Families by name."""


def family_title(key: str, other: str | None = None) -> str:
    """How people call a family; `other` (else the key) for one that nobody knows."""
    if key in FAMILIES:
        return FAMILIES[key].title
    return one_line(key, _LONGEST) if other is None else other


def family_by_type(model_type: str) -> Family | None:
    """The family whose checkpoints say this `model_type`, however its letters are."""
    return next((family for family in _ALL if model_type.lower() in (family.model_type.lower(), family.key)), None)


def family_by_word(name: str) -> Family | None:
    """The family that a model's name ends in, such as `random:7b-video-llava`."""
    longest_first = sorted(FAMILIES.values(), key=lambda family: -len(family.word))
    return next((family for family in longest_first if name.endswith(family.word)), None)
