"""What a run is asked about: an event recording, a video, or both, and a prompt. Paths only, never arrays."""

from __future__ import annotations

from dataclasses import dataclass

from evprof.core.plain import Plain


@dataclass(frozen=True)
class Sample(Plain):
    """One scene. At least one of `events_path` and `video_path` is given.

    `events_path`: `.npy`, `.npz`, a folder of PNG event frames, or a set of them in a folder (`drive/000001_*.png`);
    `video_path`: anything FFmpeg opens. `name` tells samples of one dataset apart; `reference` is the answer a
    dataset gives, None where it gives none.
    """

    events_path: str | None = None
    video_path: str | None = None
    prompt: str = "What are the key elements in this scene?"
    name: str = ""
    reference: str | None = None
