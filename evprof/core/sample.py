"""What a run is asked about: an event recording, a video, or both, and a prompt. Paths only, never arrays."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Sample:
    """One scene. At least one of `events_path` and `video_path` is given.

    `events_path`: `.npy`, `.npz` or a folder of PNG event frames; `video_path`: anything FFmpeg opens.
    """

    events_path: str | None = None
    video_path: str | None = None
    prompt: str = "What are the key elements in this scene?"
    name: str = ""

    def to_json(self) -> dict[str, Any]:
        """Plain values, for the pipe and the session file."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Sample:
        """The inverse of `to_json`; unknown keys are ignored, so that newer writers stay readable."""
        known = {name: values[name] for name in cls.__dataclass_fields__ if name in values}
        return cls(**known)
