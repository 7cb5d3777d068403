"""Decodes each video of a suite once in a process of its own, before the engine does.

The engine of a suite shares its process, so that a video which makes FFmpeg crash or hang would end all of it. Once a
helper ended with a file, `open_video` refuses it: its rows fail with the reason, and the others are measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from evprof.core.errors import UserError
from evprof.core.sample import Sample
from evprof.loaders.clips import clip_frames
from evprof.loaders.videos.apart import ApartVideo, Helpers

_FRAMES = 8
"""As many as models are shown; how many exactly matters little to what a damaged file does."""


class VideoTrials:
    """Tries videos, each once. `argv` starts a helper (`evprof _video`)."""

    def __init__(self, argv: Sequence[str]) -> None:
        self._helpers = Helpers(argv)
        self._tried: set[str] = set()

    def try_video(self, sample: Sample) -> None:
        """Decodes the sample's video if it is a file that was not tried yet; what is wrong the engine will say."""
        path = sample.video_path
        if path is None or path in self._tried or not Path(path).is_file():
            return
        self._tried.add(path)
        with suppress(UserError), ApartVideo(path, self._helpers) as video:
            clip_frames(video, sample, _FRAMES)

    def close(self) -> None:
        """Ends the helper."""
        self._helpers.end()
