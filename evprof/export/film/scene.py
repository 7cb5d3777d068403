"""What there is to see of a scene at any of its moments: its files where they are, else what a run kept of them."""

from __future__ import annotations

import io
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol, Self

import numpy as np

from evprof.core.errors import UserError
from evprof.core.run_log import RunLog
from evprof.loaders.pictures.palette import PALETTES
from evprof.loaders.pictures.render import Picture
from evprof.metrics.configurations.settings_text import kind_read
from evprof.metrics.costs.two_clocks import slice_at, slices_of

ACCUMULATED_US = 10_000
"""What one picture of events gathers."""

_LONGEST_EDGE = 720
_MOST_EDGE = 4096
"""Of a picture that a session keeps; models are shown none as large, and a stranger's file might fill the memory."""


class Scene(Protocol):
    """Pictures of one half of a sample. `note` says what they are where that is not the file itself."""

    note: str

    def at(self, moment_us: int) -> Picture | None:
        """uint8 [H, W, 3] RGB at a moment on the sample's clock; None where there is none. Raises UserError."""

    def close(self) -> None:
        """Lets go of the file."""


class KeptScene:
    """The pictures that a model was shown, as the session keeps them."""

    def __init__(self, run: RunLog, role: str) -> None:
        self._records = run.frames.get(role, [])
        self._slices = slices_of(run, role)
        self._shown: tuple[int, Picture] | None = None
        self.note = "as the model saw it" if self._records else ""

    def at(self, moment_us: int) -> Picture | None:
        """The picture on show."""
        from PIL import Image

        index = slice_at(self._slices, moment_us)
        if index is None:
            return None
        if self._shown is None or self._shown[0] != index:
            try:
                with Image.open(io.BytesIO(self._records[index].png), formats=["PNG"]) as image:
                    if max(image.size) > _MOST_EDGE:
                        return None
                    self._shown = index, np.asarray(image.convert("RGB"))
            except (OSError, ValueError, Image.DecompressionBombError):
                return None
        return self._shown[1]

    def close(self) -> None:
        """Nothing is held open."""


class EventScene:
    """The events of the last 10 ms before a moment; the last ones stay when they are over."""

    def __init__(self, path: str, rectify_path: str | None, stop_us: int | None) -> None:
        """`stop_us` is when the part of them that a run took ends, None where nobody knows. Raises UserError."""
        from evprof.loaders.events.opening import open_recording
        from evprof.loaders.pictures.renderings import Painter

        self._stop_us: int | None
        with ExitStack() as stack:
            recording = stack.enter_context(open_recording(path))
            if rectify_path is not None:
                from evprof.loaders.events.rectification import Rectified, RectifyMap

                recording = Rectified(recording, RectifyMap.load(rectify_path))
            self._zero_us = recording.origin_us()
            info = recording.info
            if info.width is None or info.height is None:
                chunk = next(recording.chunks())
                size = chunk.width, chunk.height
            else:
                size = info.width, info.height
            self._painter = Painter(*size, palette=PALETTES["dark"])
            ends = [stop_us] if info.t_max_us is None else [info.t_max_us - self._zero_us, stop_us]
            self._stop_us = min((end for end in ends if end is not None), default=None)
            self._recording = recording
            self.note = ""
            self._files = stack.pop_all()

    def at(self, moment_us: int) -> Picture | None:
        """Drawn anew."""
        is_over = self._stop_us is not None and moment_us > self._stop_us
        self.note = f"ended at {self._stop_us / 1000:g} ms" if is_over and self._stop_us else "events of the last 10 ms"
        moment_us = self._stop_us if is_over and self._stop_us is not None else max(moment_us, 0)
        stop = self._zero_us + moment_us + 1
        start = stop - ACCUMULATED_US
        return self._painter.paint(self._recording.read_time(start, stop), start, stop)

    def close(self) -> None:
        """Lets go of the recording."""
        self._files.close()


class VideoScene:
    """The frame on show."""

    note = ""

    def __init__(self, path: str, times_path: str | None, offset_us: int) -> None:
        """Raises UserError."""
        from evprof.loaders.videos.player import SeekableVideo

        self._video = SeekableVideo(path, longest_edge=_LONGEST_EDGE, times_path=times_path)
        self._offset_us = offset_us

    def at(self, moment_us: int) -> Picture | None:
        """The first or the last frame outside the video."""
        return self._video.frame_at(moment_us - self._offset_us).picture

    def close(self) -> None:
        """Lets go of the file."""
        self._video.close()


class SafeScene:
    """A scene that goes over to what the run kept when its file cannot be read (any longer)."""

    def __init__(self, run: RunLog, role: str) -> None:
        self._kept = KeptScene(run, role)
        self._scene: Scene = self._kept
        try:
            self._scene = _of_files(run, role) or self._kept
        except UserError:
            return

    @property
    def note(self) -> str:
        """What the pictures are."""
        return self._scene.note

    def at(self, moment_us: int) -> Picture | None:
        """The file's picture, else the run's."""
        try:
            return self._scene.at(moment_us)
        except UserError:
            self._scene.close()
            self._scene = self._kept
            return self._kept.at(moment_us)

    def close(self) -> None:
        """Lets go of what is open."""
        self._scene.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _of_files(run: RunLog, role: str) -> Scene | None:
    """The sample's own files; None where they are gone, or are no recording. Raises UserError."""
    sample = run.info.sample
    if kind_read(run, role) == "video":
        path = sample.video_path
        if path is None or not Path(path).exists():
            return None
        return VideoScene(path, sample.video_times_path, sample.video_offset_us)
    path = sample.events_path
    if path is None or not Path(path).is_file():
        return None
    slices = slices_of(run, role)
    return EventScene(path, sample.rectify_path, max((one.stop_us for one in slices), default=None))
