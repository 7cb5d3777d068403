"""How inputs are shown to the models."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from evprof.core.plain import Plain
from evprof.core.records import DRAFT, TARGET
from evprof.core.vocabulary.families import EVENTS, FAMILIES, VIDEO
from evprof.core.vocabulary.setting import INPUT, Condition, Situation, setting

READS, OF_EVENTGPT, OF_IMAGES = "What models read", "EventGPT", "LLaVA-1.5"

EVENT_FAMILIES = tuple(key for key, family in FAMILIES.items() if family.reads == EVENTS)
VIDEO_FAMILIES = tuple(key for key, family in FAMILIES.items() if family.reads == VIDEO)
POOLED_FAMILIES = tuple(key for key, family in FAMILIES.items() if family.pools_frames)
IMAGE_FAMILIES = tuple(key for key, family in FAMILIES.items() if family.takes_images)

_SIZE = re.compile(r"([1-9]\d{0,4})x([1-9]\d{0,4})\Z")
_SHOWN_SIZES = ("346x260", "640x480", "1280x720")


def of_families(keys: tuple[str, ...], reason: str) -> Condition:
    """Counts where a model of one of these families reads its half of the sample."""
    return lambda here: "" if any(here.may_be(role, keys) for role in here.reading) else reason


def where_read(kind: str, reason: str) -> Condition:
    return lambda here: "" if any(here.reads(role) == kind for role in here.reading) else reason


of_events = of_families(EVENT_FAMILIES, "No model that reads events runs in this mode.")
_of_pooled = of_families(POOLED_FAMILIES, "Only EventGPT has it.")


def of_eventgpt(here: Situation) -> str:
    return of_events(here) or _of_pooled(here)


def _where_marked(here: Situation) -> str:
    training = here.values["prompt_style"] != "released"
    return of_eventgpt(here) or ("The training prompt has no markers." if training else "")


def _where_read_by(role: str, reason: str) -> Condition:
    return lambda here: "" if role in here.reading else reason


def _one_frame(here: Situation, value: Any) -> str:
    is_missing = value == "none" and here.values["event_frames"] != 1
    return "Shows every token of one frame: set the draft's frames to 1 first." if is_missing else ""


_HALVES = tuple((word, word) for word in ("auto", EVENTS, VIDEO))


@dataclass(frozen=True)
class InputSettings(Plain):
    """How inputs are shown to the models: the words around a question, what is read, and how pictures are drawn."""

    prompt_style: str = setting(
        "released",
        "prompt",
        "The words around the question: as released for use, or as in training.",
        OF_EVENTGPT,
        INPUT,
        choices=(("released", "released"), ("training", "training")),
        idle=of_eventgpt,
        label="{} prompt",
        axis="prompt-style {}",
        is_advanced=True,
    )
    event_markers: bool = setting(
        True,
        "event markers",
        "Whether the events stand between a start and an end marker in the prompt.",
        OF_EVENTGPT,
        INPUT,
        choices=((True, "on"), (False, "off")),
        idle=_where_marked,
        label="no markers",
        text={True: "on", False: "off"},
        is_advanced=True,
    )
    canvas: str = setting(
        "auto",
        "event canvas",
        "Width x height of drawn event frames; auto: as large as each frame's own events need.",
        READS,
        INPUT,
        choices=(("auto", "auto"), *((size, size) for size in _SHOWN_SIZES)),
        is_free=True,
        check=lambda value: "" if value == "auto" or _SIZE.match(value) else "auto or WIDTHxHEIGHT such as 640x480",
        metavar="WxH",
        idle=where_read(EVENTS, "No model reads events."),
        label="canvas {}",
        is_advanced=True,
    )
    pooling: str = setting(
        "spatio-temporal",
        "pooling",
        "Means over time and over space, as published, or every token of a single frame.",
        OF_EVENTGPT,
        INPUT,
        choices=(("spatio-temporal", "space-time"), ("none", "none")),
        idle=of_eventgpt,
        refuses=_one_frame,
        label="unpooled",
        is_advanced=True,
    )
    image_layout: str = setting(
        "frames",
        "image layout",
        "Each frame as an image, or all as tiles of one image, which takes fewer tokens and shows less of each.",
        OF_IMAGES,
        INPUT,
        choices=(("frames", "images"), ("grid", "one grid")),
        idle=of_families(IMAGE_FAMILIES, "The target takes video, not images; only LLaVA-1.5 can be shown a grid."),
        label="{}",
        is_advanced=True,
    )
    draft_input: str = setting(
        "auto",
        "draft reads",
        "The half of the sample that the draft is shown; auto: events. Video goes in as event frames.",
        READS,
        INPUT,
        choices=_HALVES,
        idle=_where_read_by(DRAFT, "The draft model does not run in this mode."),
        label="reads {}",
        axis="draft reads {}",
        row="reads",
    )
    target_input: str = setting(
        "auto",
        "target reads",
        "The half of the sample that the target is shown; auto: video. Events go in as drawn frames.",
        READS,
        INPUT,
        choices=_HALVES,
        idle=_where_read_by(TARGET, "The target model does not run in this mode."),
        label="reads {}",
        axis="target reads {}",
        row="reads",
    )

    @property
    def canvas_size(self) -> tuple[int, int] | None:
        """(width, height) in pixels, or None: as large as a slice's own coordinates ask for."""
        found = _SIZE.match(self.canvas)
        return (int(found[1]), int(found[2])) if found else None
