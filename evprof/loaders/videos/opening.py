"""Opens videos: files, and folders of pictures."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path

from evprof.core.errors import UserError
from evprof.loaders.pictures.frame_folder import is_frame_set
from evprof.loaders.pictures.render import Picture
from evprof.loaders.videos.apart import ApartVideo, crash_of, is_kept_apart
from evprof.loaders.videos.file import VideoFile
from evprof.loaders.videos.folder import ImageFolder, is_picture
from evprof.loaders.videos.source import VideoSource


def open_video(path: str | Path, times_path: str | Path | None = None) -> VideoSource:
    """Opens a video file, a folder of pictures, a set of them (`drive/000001_*.png`) or one; the caller closes it.

    `times_path` names a text with the time of every picture (see `read_times_us`), for folders and sets alone.
    Programs that `keep_apart` have it done by a helper.
    """
    if Path(path).is_dir() or is_frame_set(path) or is_picture(path):
        return ImageFolder(path, times_path)
    if times_path is not None:
        raise UserError(
            f"{path}: is no folder of pictures, and only those take their times from another file ({times_path}); "
            "leave the times away, or name the folder."
        )
    if is_kept_apart():
        return ApartVideo(path)
    if (crash := crash_of(path)) is not None:
        raise UserError(crash)
    return VideoFile(path)


_KEPT = 48
_KEPT_ON_THE_WAY = 12
"""Frames that are kept, and those of them before the wanted one: they were decoded anyway."""


@dataclass(frozen=True)
class ShownFrame:
    """One picture, uint8 [H, W, 3] RGB, and when it is shown: µs since the first frame."""

    index: int
    time_us: int
    picture: Picture


class SeekableVideo:
    """Opens the file or folder (see `open_video`) at once and indexes it on first use, in whichever thread asks.

    Raises UserError.
    """

    def __init__(
        self, path: str | Path, *, longest_edge: int | None = None, times_path: str | Path | None = None
    ) -> None:
        self._lock = threading.Lock()
        self._video: VideoSource | None = open_video(path, times_path)
        self._path = str(path)
        self._longest_edge = longest_edge
        self._kept: dict[int, Picture] = {}

    @property
    def duration_us(self) -> int:
        with self._lock:
            return self._opened().table.duration_us

    def frame_at(self, t_us: int) -> ShownFrame:
        """The frame on show `t_us` after the first one; the first or the last outside the video."""
        with self._lock:
            return self._show(self._opened().table.index_at(t_us))

    def close(self) -> None:
        with self._lock:
            if self._video is not None:
                self._video.close()
            self._video = None
            self._kept.clear()

    def _opened(self) -> VideoSource:
        if self._video is None:
            raise UserError(f"{self._path}: the player is closed; open the video again.")
        return self._video

    def _show(self, index: int) -> ShownFrame:
        video = self._opened()
        if index not in self._kept:
            self._kept |= video.passing(index, most=_KEPT_ON_THE_WAY, longest_edge=self._longest_edge)
            for oldest in list(self._kept)[:-_KEPT]:
                del self._kept[oldest]
        return ShownFrame(index, video.table.time_us(index), self._kept[index])
