"""The settings of a run as they are offered: names, choices, ranges, and in one line what each changes.

What may not be chosen just now is `setting_limits`' business; how a control looks is the popover's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from evprof.core.vocabulary.generation import GenerationSettings
from evprof.core.vocabulary.inputs import InputSettings
from evprof.core.vocabulary.speculation import SpeculationSettings
from evprof.core.vocabulary.switches import Switches
from ui.settings.drafter_choice import UNTRAINED, chosen, settings_of

SAME = "Same answer."
ROUNDED = "Same answer but for rounding."
OTHER = "May change the answer."

DRAFTER = "drafter"
"""The control that stands for two settings: the drafter and its adapter."""


@dataclass(frozen=True)
class Control:
    """One setting: a list of `choices` (value, word), or a number from `least` to `most`.

    `is_free`: other words than the choices may be typed. A number is shown times `scale`; the lowest one may have a
    `low` name, and with `has_none` it stands for None.
    """

    key: str
    name: str
    tip: str
    choices: tuple[tuple[Any, str], ...] = ()
    is_free: bool = False
    least: float = 0
    most: float = 0
    step: float = 1
    decimals: int = 0
    scale: int = 1
    suffix: str = ""
    low: str = ""
    has_none: bool = False

    def number(self, value: Any) -> float:
        """What the field shows for a value."""
        return self.least if value is None else float(value) * self.scale

    def value(self, number: float) -> Any:
        """The value behind what the field shows."""
        if self.has_none and number <= self.least:
            return None
        found = number / self.scale
        return found if self.decimals or self.scale != 1 else round(found)


@dataclass(frozen=True)
class Group:
    """Controls under a head."""

    head: str
    controls: tuple[Control, ...]


def _words(*names: str, **others: str) -> tuple[tuple[Any, str], ...]:
    return (*((name, name) for name in names), *others.items())


RUN = (
    Group(
        "Measuring",
        (
            Control(
                "warmup",
                "warm-up runs",
                "Runs before the measured ones, in no figure; auto: one where a model has to be loaded.",
                least=-1,
                most=20,
                low="auto",
                has_none=True,
            ),
            Control("repeat", "repetitions", "How often the same is measured.", least=1, most=100),
        ),
    ),
    Group(
        "Sampling",
        (
            Control(
                "temperature",
                "temperature",
                f"0 takes the likeliest token; above, tokens are drawn by their odds. {OTHER}",
                most=5,
                step=0.1,
                decimals=2,
                low="greedy",
            ),
            Control(
                "top_p",
                "top p",
                f"Draws among the likeliest tokens that together have this share of the odds. {OTHER}",
                least=0.01,
                most=1,
                step=0.05,
                decimals=2,
            ),
            Control(
                "top_k", "top k", f"Draws among this many of the likeliest tokens. {OTHER}", most=32_000, low="all"
            ),
            Control("seed", "seed", "Where the draws begin: the same seed gives the same answer.", most=2**31 - 1),
            Control(
                "ignore_eos",
                "end of sequence",
                "Whether the answer ends where the model ends it, or goes on up to the token limit.",
                ((False, "ends it"), (True, "ignored")),
            ),
        ),
    ),
)

SPECULATION = (
    Group(
        "Speculation",
        (
            Control(
                DRAFTER,
                "drafter",
                f"Who proposes the tokens that the target checks; some must be trained first. {SAME}",
                UNTRAINED,
            ),
            Control("gamma", "drafted tokens γ", f"Tokens the draft proposes per round. {SAME}", least=1, most=64),
            Control(
                "length",
                "draft length",
                f"Always γ; more after full rounds and less after others; or what costs and acceptance ask. {SAME}",
                _words("fixed", "heuristic", "budgeted"),
            ),
            Control(
                "tree",
                "draft tree",
                f"Children of a node on each level, such as 3,2,1, where an EAGLE head drafts. {SAME}",
                (("", "chain"), ("2,2,1", "2,2,1"), ("3,2,1", "3,2,1"), ("4,2,1,1", "4,2,1,1")),
                is_free=True,
            ),
            Control(
                "judges",
                "probabilities",
                f"Whether what both models gave each judged token is kept for the acceptance clinic. {SAME}",
                ((True, "kept"), (False, "left out")),
            ),
        ),
    ),
    Group(
        "Parallel prefill",
        (
            Control(
                "begins",
                "draft begins with",
                f"Whether the draft starts as the target loads its input, or with the target's prefill. {SAME}",
                _words("load", "prefill"),
            ),
            Control(
                "hidden",
                "hidden tokens",
                f"Tokens to draft while the target prefills; auto: as many as there is time for. {SAME}",
                least=-1,
                most=512,
                low="auto",
                has_none=True,
            ),
            Control(
                "verify",
                "verified",
                f"Hidden tokens are checked in a pass of their own, or within the prefill's last chunk. {SAME}",
                (("after", "in a pass"), ("last-chunk", "in last chunk")),
            ),
            Control(
                "afterwards",
                "afterwards",
                f"Decoding goes on token by token, or in rounds as in speculative mode. {SAME}",
                (("plain", "plain"), ("rounds", "in rounds")),
            ),
        ),
    ),
)

INPUT = (
    Group(
        "What models read",
        (
            Control(
                "draft_input",
                "draft reads",
                "The half of the sample that the draft is shown; auto: events. Video goes in as event frames.",
                _words("auto", "events", "video"),
            ),
            Control(
                "target_input",
                "target reads",
                "The half of the sample that the target is shown; auto: video. Events go in as drawn frames.",
                _words("auto", "events", "video"),
            ),
            Control(
                "event_frames",
                "draft's frames",
                "Frames that the draft is shown: event frames, or video frames where it reads video.",
                most=64,
                low="model's own",
                has_none=True,
            ),
            Control(
                "frames",
                "target's frames",
                "Frames that the target is shown: video frames, or event frames where it reads events.",
                most=256,
                low="model's own",
                has_none=True,
            ),
            Control(
                "canvas",
                "event canvas",
                "Width x height of drawn event frames; auto: as large as each frame's own events need.",
                (("auto", "auto"), ("346x260", "346x260"), ("640x480", "640x480"), ("1280x720", "1280x720")),
                is_free=True,
            ),
        ),
    ),
    Group(
        "EventGPT",
        (
            Control(
                "prompt_style",
                "prompt",
                "The words around the question: as released for use, or as in training.",
                _words("released", "training"),
            ),
            Control(
                "event_markers",
                "event markers",
                "Whether the events stand between a start and an end marker in the prompt.",
                ((True, "on"), (False, "off")),
            ),
            Control(
                "pooling",
                "pooling",
                "Means over time and over space, as published, or every token of a single frame.",
                (("spatio-temporal", "space-time"), ("none", "none")),
            ),
        ),
    ),
    Group(
        "LLaVA-1.5",
        (
            Control(
                "image_layout",
                "frames shown as",
                "So many images, or one image of tiles, which takes fewer tokens and shows less of each.",
                (("frames", "images"), ("grid", "one grid")),
            ),
        ),
    ),
)

OPTIMIZATIONS = (
    Group(
        "Language model",
        (
            Control(
                "attention",
                "attention",
                f"The kernel that computes attention. {ROUNDED}",
                (("auto", "auto"), ("sdpa", "SDPA"), ("flash", "flash"), ("eager", "eager")),
            ),
            Control(
                "cache",
                "KV cache",
                "Dynamic grows, static is set aside once: same answer. fp8 and hqq keep less: may change the answer.",
                (
                    ("auto", "auto"),
                    ("dynamic", "dynamic"),
                    ("static", "static"),
                    ("fp8", "fp8"),
                    ("hqq8", "hqq 8 bit"),
                    ("hqq4", "hqq 4 bit"),
                ),
            ),
            Control(
                "step",
                "decode step",
                f"One kernel at a time, compiled, or as a recorded CUDA graph. {ROUNDED}",
                (("auto", "auto"), ("eager", "eager"), ("compiled", "compiled"), ("graphs", "CUDA graphs")),
            ),
            Control(
                "prefill_chunk",
                "prefill chunk",
                f"Positions per prefill pass: smaller takes less memory and more time. {ROUNDED}",
                most=65_536,
                step=256,
                low="all at once",
            ),
            Control(
                "early_exit",
                "early exit after",
                f"Lets a token leave after this layer when the model is sure enough. {OTHER}",
                most=256,
                low="never",
                has_none=True,
            ),
            Control(
                "exit_confidence",
                "when sure by",
                f"The probability from which a token may leave early. {OTHER}",
                most=100,
                step=5,
                scale=100,
                suffix=" %",
            ),
        ),
    ),
    Group(
        "Vision",
        (
            Control(
                "vision_cache",
                "vision cache",
                f"Keeps visual embeddings for the next run on the same input. {SAME}",
                _words("off", "memory", "disk"),
            ),
            Control(
                "frame_cache",
                "frame cache",
                f"Keeps decoded video frames for the next run on the same video. {SAME}",
                _words("off", "disk"),
            ),
            Control(
                "prefetch",
                "input files",
                f"Before every run the input's files are read into memory, or dropped from it. {SAME}",
                _words("off", "warm", "cold"),
            ),
            Control(
                "video_decoder",
                "video decoder",
                f"The library that decodes video files; auto is PyAV. {SAME}",
                _words("auto", "pyav", "torchcodec"),
            ),
            Control(
                "visual_keep",
                "tokens kept",
                f"Share of the visual tokens that reach the language model. Below 100 %: {OTHER.lower()}",
                least=1,
                most=100,
                step=5,
                scale=100,
                suffix=" %",
            ),
            Control(
                "prune_by",
                "chosen by",
                f"Keeps what the tower attends to most, or what is least alike. {OTHER}",
                _words("attention", "similarity"),
            ),
            Control(
                "projector",
                "projector",
                f"EventGPT's projector before pooling, as published, or fused behind it: less work. {ROUNDED}",
                _words("reference", "fused"),
            ),
        ),
    ),
)

COLUMNS = (RUN, SPECULATION, INPUT, OPTIMIZATIONS)
"""All groups, as they stand beside each other."""

MEASURING: dict[str, int | None] = {"warmup": None, "repeat": 1}
"""What is no setting of a run but how often it is repeated, with its defaults."""


def controls() -> Iterator[Control]:
    """Every control, in order."""
    for column in COLUMNS:
        for group in column:
            yield from group.controls


def value_of(settings: GenerationSettings, key: str) -> Any:
    """A setting by its name, wherever it belongs; DRAFTER is a pair of drafter and adapter."""
    if key == DRAFTER:
        return chosen(settings.speculation)
    for holder in (settings, settings.input, settings.switches, settings.speculation):
        if key in holder.__dataclass_fields__:
            return getattr(holder, key)
    raise KeyError(key)


def with_value(settings: GenerationSettings, key: str, value: Any) -> GenerationSettings:
    """The same settings but for one."""
    if key in InputSettings.__dataclass_fields__:
        return replace(settings, input=replace(settings.input, **{key: value}))
    if key in Switches.__dataclass_fields__:
        return replace(settings, switches=replace(settings.switches, **{key: value}))
    if key in SpeculationSettings.__dataclass_fields__:
        changes = settings_of(value) if key == DRAFTER else {key: value}
        return replace(settings, speculation=replace(settings.speculation, **changes))
    return replace(settings, **{key: value})


def default_of(key: str) -> Any:
    """What a setting is when nobody touched it."""
    return MEASURING[key] if key in MEASURING else value_of(GenerationSettings(), key)
