"""What can be switched about a run: how inputs are shown to the models, and which optimizations compute the answer.

Every default is the published behaviour of the models, or what changes no token of the answer.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from evprof.core.errors import USAGE, UserError
from evprof.core.plain import Plain

PROMPT_STYLES = ("released", "training")
POOLINGS = ("spatio-temporal", "none")
IMAGE_LAYOUTS = ("frames", "grid")
INPUTS = ("auto", "events", "video")

PROJECTORS = ("reference", "fused")
VISION_CACHES = ("off", "memory", "disk")
FRAME_CACHES = ("off", "disk")
VIDEO_DECODERS = ("auto", "pyav", "torchcodec")
PREFETCHES = ("off", "warm", "cold")
"""What becomes of the input's files before a run, outside its measured time: nothing; read through; out of memory."""

PRUNINGS = ("attention", "similarity")
ATTENTIONS = ("auto", "sdpa", "flash", "eager")
CACHES = ("auto", "dynamic", "static", "fp8", "hqq8", "hqq4")
STEPS = ("auto", "eager", "compiled", "graphs")
QUANTIZATIONS = ("int8", "int4", "nf4")

_SIZE = re.compile(r"([1-9]\d{0,4})x([1-9]\d{0,4})\Z")


@dataclass(frozen=True)
class InputSettings(Plain):
    """How inputs are shown to the models.

    `prompt_style`, `event_markers`, `canvas` ("auto" or "WIDTHxHEIGHT"), `pooling` ("none": one frame, every token) are
    EventGPT's; `image_layout` is LLaVA's: frames as so many images, or as one image of tiles. `draft_input` and
    `target_input` name the half of the sample a model reads; "auto" is the kind its family was made for.
    """

    prompt_style: str = "released"
    event_markers: bool = True
    canvas: str = "auto"
    pooling: str = "spatio-temporal"
    image_layout: str = "frames"
    draft_input: str = "auto"
    target_input: str = "auto"

    @property
    def canvas_size(self) -> tuple[int, int] | None:
        """(width, height) in pixels, or None: as large as a slice's own coordinates ask for."""
        found = _SIZE.match(self.canvas)
        return (int(found[1]), int(found[2])) if found else None

    def validate(self) -> None:
        """Raises UserError (exit code 2) for values that mean nothing."""
        _check_choice("--prompt-style", self.prompt_style, PROMPT_STYLES)
        _check_choice("--pooling", self.pooling, POOLINGS)
        _check_choice("--image-layout", self.image_layout, IMAGE_LAYOUTS)
        _check_choice("--draft-input", self.draft_input, INPUTS)
        _check_choice("--target-input", self.target_input, INPUTS)
        if self.canvas != "auto" and self.canvas_size is None:
            raise UserError(
                f"--canvas must be auto or WIDTHxHEIGHT such as 640x480, not {self.canvas}.", exit_code=USAGE
            )


@dataclass(frozen=True)
class Switches(Plain):
    """Which optimizations are on. "auto" leaves the choice to the engine, which reports what it took.

    `attention`, `cache`, `step` say how the language model computes; `prefill_chunk` is the number of positions per
    prefill pass (0: all at once). `early_exit` is the layer after which a token may be chosen when its probability
    reaches `exit_confidence` (None: never). `visual_keep` is the share of visual tokens kept, chosen by `prune_by`.
    `frame_cache` keeps decoded video frames, `vision_cache` what the tower made of them. `prefetch` has the input's
    files in the page cache before a run, or out of it; `video_decoder` is the library that decodes video files.
    """

    attention: str = "auto"
    cache: str = "auto"
    step: str = "auto"
    prefill_chunk: int = 0
    early_exit: int | None = None
    exit_confidence: float = 0.9
    vision_cache: str = "off"
    visual_keep: float = 1.0
    prune_by: str = "attention"
    projector: str = "reference"
    frame_cache: str = "off"
    prefetch: str = "off"
    video_decoder: str = "auto"

    def validate(self) -> None:
        """Raises UserError (exit code 2) for values that mean nothing."""
        _check_choice("--frame-cache", self.frame_cache, FRAME_CACHES)
        _check_choice("--prefetch", self.prefetch, PREFETCHES)
        _check_choice("--video-decoder", self.video_decoder, VIDEO_DECODERS)
        _check_choice("--attention", self.attention, ATTENTIONS)
        _check_choice("--cache", self.cache, CACHES)
        _check_choice("--step", self.step, STEPS)
        _check_choice("--vision-cache", self.vision_cache, VISION_CACHES)
        _check_choice("--prune-by", self.prune_by, PRUNINGS)
        _check_choice("--projector", self.projector, PROJECTORS)
        checks = (
            (self.prefill_chunk >= 0, f"--prefill-chunk must be 0 (off) or more, not {self.prefill_chunk}."),
            (0 < self.visual_keep <= 1, f"--visual-keep must lie above 0 and up to 1, not {self.visual_keep}."),
            (
                self.early_exit is None or self.early_exit >= 1,
                f"--early-exit must be at least 1, not {self.early_exit}.",
            ),
            (0 <= self.exit_confidence <= 1, f"--exit-confidence must lie from 0 to 1, not {self.exit_confidence}."),
        )
        for holds, sentence in checks:
            if not holds:
                raise UserError(sentence, exit_code=USAGE)


def _check_choice(option: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise UserError(f"{option} must be one of {', '.join(known)}, not {value}.", exit_code=USAGE)
