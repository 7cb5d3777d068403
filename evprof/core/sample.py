"""What a run is asked about: an event recording, a video, or both, and a prompt. Paths only, never arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from evprof.core.errors import UsageError
from evprof.core.plain import Plain
from evprof.core.vocabulary.scoring import ExpectedAnswer


@dataclass(frozen=True)
class Sample(Plain):
    """One scene, or a clip of it. At least one of `events_path` and `video_path` is given.

    `events_path`: any event recording, a folder of PNG event frames, or a set of them in a folder
    (`drive/000001_*.png`); `video_path`: anything FFmpeg opens, or a folder of pictures, whose times may stand in
    `video_times_path`, a text with one time in µs for each. `rectify_path`: a DSEC rectification map for the events.
    `name` tells samples of one dataset apart; `reference` is the answer a dataset gives, None where it gives none,
    and `expected` what else it says of the right answer.

    Both halves lie on one clock, the sample's: its zero is the earliest event, without events the first video frame.
    A clip is `duration_us` from `start_us` on; None: from the beginning, to the end. `video_offset_us` is when the
    video's first frame is shown on that clock. `events_hash` and `video_hash` name the content a run found, where it
    is known.
    """

    events_path: str | None = None
    video_path: str | None = None
    prompt: str = "What are the key elements in this scene?"
    name: str = ""
    reference: str | None = None
    start_us: int | None = None
    duration_us: int | None = None
    video_offset_us: int = 0
    video_times_path: str | None = None
    rectify_path: str | None = None
    expected: ExpectedAnswer | None = None
    events_hash: str | None = field(default=None, compare=False)
    video_hash: str | None = field(default=None, compare=False)

    @property
    def is_clip(self) -> bool:
        return self.start_us is not None or self.duration_us is not None

    def validate(self) -> None:
        """Raises UserError (exit code 2) for a clip that cannot be."""
        if self.start_us is not None and not 0 <= self.start_us < _LONGEST_US:
            raise UsageError(f"A clip starts at 0 ms or later, not at {self.start_us / 1000:g} ms.")
        if self.duration_us is not None and not 0 < self.duration_us < _LONGEST_US:
            raise UsageError(f"A clip lasts longer than 0 ms, not {self.duration_us / 1000:g} ms.")
        if abs(self.video_offset_us) >= _LONGEST_US:
            raise UsageError(
                f"The video cannot lie {self.video_offset_us / 1e6:g} s from the events; check its offset."
            )

    def window_us(self, zero_us: int = 0) -> tuple[int, int] | None:
        """The clip [start, stop) on a clock on which the sample's zero is `zero_us`; None without a clip.

        For events `zero_us` is the earliest event's time, for the video's own clock `-video_offset_us`.
        """
        if not self.is_clip:
            return None
        start = self.start_us or 0
        stop = _LONGEST_US if self.duration_us is None else start + self.duration_us
        return zero_us + start, zero_us + stop

    @property
    def clip_text(self) -> str:
        """What part is meant, for people: `12.50 s to 12.55 s`, `from 12.50 s`; empty without a clip."""
        if not self.is_clip:
            return ""
        start = self.start_us or 0
        if self.duration_us is None:
            return f"from {seconds_text(start)}"
        return f"{seconds_text(start)} to {seconds_text(start + self.duration_us)}"

    @property
    def answers(self) -> tuple[str, ...]:
        """Every wording that is right, the dataset's first one before the others."""
        first = () if self.reference is None else (self.reference,)
        return (*first, *(self.expected.also if self.expected else ()))

    @property
    def is_scored(self) -> bool:
        """Whether an answer can be scored: a right wording is known, or which choice is right."""
        if self.expected and self.expected.choices:
            return self.expected.right is not None
        return bool(self.answers)

    @property
    def task(self) -> str:
        """What kind of question it is; "" where no list says so."""
        return self.expected.task if self.expected else ""

    @property
    def whole_name(self) -> str:
        """The name of the whole that a clip was cut of, where the clip is called after it (see `clip_name`)."""
        return self.name.removesuffix(clip_name("", self.start_us or 0)) if self.is_clip else self.name

    def facts(self) -> dict[str, Any]:
        """The sample as a run tells it: its halves with what belongs to each, the clip in ms, the texts."""
        events: dict[str, Any] | None = {"path": self.events_path} if self.events_path else None
        video: dict[str, Any] | None = {"path": self.video_path} if self.video_path else None
        if events is not None and self.rectify_path:
            events["rectify"] = self.rectify_path
        if video is not None:
            video["offset_ms"] = self.video_offset_us / 1000
            if self.video_times_path:
                video["times"] = self.video_times_path
        for described, content_hash in ((events, self.events_hash), (video, self.video_hash)):
            if described is not None and content_hash:
                described["content_hash"] = content_hash
        clip = None
        if self.is_clip:
            clip = {
                "start_ms": None if self.start_us is None else self.start_us / 1000,
                "duration_ms": None if self.duration_us is None else self.duration_us / 1000,
            }
        return {
            "events": events,
            "video": video,
            "clip": clip,
            "prompt": self.prompt,
            "name": self.name,
            "reference": self.reference,
            "expected": self.expected.to_facts() if self.expected else None,
        }

    def imported_facts(self) -> dict[str, Any]:
        """The same of a result file, which tells of no clip and no offset."""
        return {
            "prompt": self.prompt,
            "name": self.name,
            "events_path": self.events_path,
            "video_path": self.video_path,
            "reference": self.reference,
        }

    @classmethod
    def from_facts(cls, facts: object) -> Self:
        """The inverse of both; of what a session tells otherwise (older, damaged) as much as fits.

        Runs are told apart by name, prompt and reference: where these are known they are texts.
        """
        facts = facts if isinstance(facts, dict) else {}
        events, video, clip = _table(facts, "events"), _table(facts, "video"), _table(facts, "clip")
        offset_us = _us(video.get("offset_ms"))
        return cls(
            events_path=_text(events.get("path") or facts.get("events_path")),
            video_path=_text(video.get("path") or facts.get("video_path")),
            prompt=_said(facts.get("prompt")) or "",
            name=_said(facts.get("name")) or "",
            reference=_said(facts.get("reference")),
            start_us=_us(clip.get("start_ms")),
            duration_us=_us(clip.get("duration_ms")),
            video_offset_us=offset_us or 0,
            video_times_path=_text(video.get("times")),
            rectify_path=_text(events.get("rectify")),
            expected=ExpectedAnswer.from_facts(facts.get("expected")),
            events_hash=_text(events.get("content_hash")),
            video_hash=_text(video.get("content_hash")),
        )


UNKNOWN = Sample(prompt="")
"""What a run looked at of which nothing is told."""


def clip_name(name: str, start_us: int) -> str:
    """What a clip of a recording is called: `zurich_city_00_a 12.50 s`."""
    return f"{name} {seconds_text(start_us)}"


def seconds_text(time_us: int) -> str:
    """A time in seconds, exactly: as many decimals as it has, two at least (`12.50 s`, `0.000125 s`)."""
    decimals = next((count for count in range(2, 6) if time_us % 10 ** (6 - count) == 0), 6)
    return f"{time_us / 1e6:.{decimals}f} s"


def ms_number(time_us: int) -> str:
    """A time in ms as a person types it, exactly: `12500`, `0.125`."""
    whole, part = divmod(abs(time_us), 1000)
    return f"{'-' if time_us < 0 else ''}{whole}" + (f".{part:03d}".rstrip("0") if part else "")


def _table(facts: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = facts.get(key)
    return found if isinstance(found, dict) else {}


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _said(value: object) -> str | None:
    return None if value is None else str(value)


def _us(value_ms: object) -> int | None:
    if isinstance(value_ms, bool) or not isinstance(value_ms, int | float) or not abs(value_ms) < _LONGEST_US / 1000:
        return None
    return round(value_ms * 1000)


_LONGEST_US = 2**60
"""Beyond any recording, and sums still fit in 64 bits."""
