"""Opens videos: files, and folders of pictures."""

from __future__ import annotations

from pathlib import Path

from evprof.core.errors import UserError
from evprof.loaders.pictures.frame_folder import is_frame_set
from evprof.loaders.videos.apart import ApartVideo, crash_of, is_kept_apart
from evprof.loaders.videos.file import VideoFile
from evprof.loaders.videos.folder import ImageFolder, is_picture
from evprof.loaders.videos.source import VideoSource


def open_video(path: str | Path, times_path: str | Path | None = None) -> VideoSource:
    """Opens a video file, a folder of pictures, a set of them (`drive/000001_*.png`) or one; the caller closes it.

    `times_path` names a text with the time of every picture (see `videos/times.py`), for folders and sets alone.
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
