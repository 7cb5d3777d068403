"""Decoded frames kept on disk, so that reading the same frames of the same video again costs a copy.

A key names all that the frames depend on. Frames are kept as they are: reading them raw takes a few milliseconds, and
any lossless packing measured takes as long as decoding the video again.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from dataclasses import asdict
from importlib import metadata
from io import BufferedReader
from pathlib import Path
from typing import Any

import numpy as np

from evprof.core.files.user_folders import cache_folder
from evprof.loaders.kept_files import KeptFiles
from evprof.loaders.pictures.render import Picture
from evprof.loaders.videos.content_index import ContentIndex
from evprof.loaders.videos.folder import times_among
from evprof.loaders.videos.source import MAX_READ_BYTES, VideoFrames, VideoInfo

LIMIT_BYTES = 2 << 30

_MAGIC = b"evprof frames 1\n"
_MAX_HEADER_BYTES = 16 << 20


class FrameCache:
    """Frames by key, in `folder` within `limit_bytes`; damaged files count as missing. Two programs may share it."""

    def __init__(self, folder: Path | None = None, limit_bytes: int = LIMIT_BYTES) -> None:
        self.folder = folder or cache_folder() / "frames"
        self._files = KeptFiles(self.folder, ".frames", limit_bytes)
        self._contents = ContentIndex(self.folder / "contents.json")

    def key(
        self,
        path: str | Path,
        *,
        count: int,
        window_us: tuple[int, int] | None = None,
        times_path: str | Path | None = None,
    ) -> str:
        """The key of what `read_uniform(count, window_us)` gives: 64 hexadecimal digits. Opens no video.

        It holds the content of the files, not their names, and the versions of what decodes. A file is read for it
        once, and again when its size or times changed. Raises UserError for files that cannot be read.
        """
        times_path = times_path or times_among(path)
        depends_on = {
            "content": self._contents.of(path),
            "times": None if times_path is None else self._contents.of(times_path),
            "count": count,
            "window_us": window_us,
            "versions": [_version(name) for name in ("av", "pillow")],
        }
        return hashlib.sha256(json.dumps(depends_on, sort_keys=True).encode()).hexdigest()

    def get(self, key: str) -> VideoFrames | None:
        """The frames; None on a miss."""
        file = self._files.open(key)
        if file is None:
            return None
        with file:
            frames = _read(file)
        if frames is None:
            self._files.remove(key)
        return frames

    def put(self, key: str, frames: VideoFrames) -> None:
        """Keeps frames and removes those used longest ago past the bound. Raises OSError when the disk refuses."""
        unique = dict(zip(frames.indices, frames.frames, strict=True))
        pixels = np.ascontiguousarray(np.stack(list(unique.values())))
        header = {
            "indices": frames.indices,
            "times_us": frames.times_us,
            "info": asdict(frames.info),
            "decoder": frames.decoder,
            "kept": list(unique),
            "shape": pixels.shape,
            "crc32": zlib.crc32(pixels.data),
        }
        text = json.dumps(header).encode()
        length = len(text).to_bytes(8, "little") + zlib.crc32(text).to_bytes(4, "little")
        self._files.put(key, (_MAGIC, length, text, pixels.data))


def _version(package: str) -> str | None:
    """None of one that is not installed: a folder of pictures is read without av."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _read(file: BufferedReader) -> VideoFrames | None:
    """What `put` wrote; None for anything else."""
    try:
        if file.read(len(_MAGIC)) != _MAGIC:
            return None
        length, crc32 = int.from_bytes(file.read(8), "little"), int.from_bytes(file.read(4), "little")
        text = file.read(length) if length <= _MAX_HEADER_BYTES else b""
        if len(text) != length or zlib.crc32(text) != crc32:
            return None
        # The checksum holds, so this is what was written by some version of evprof.
        header = json.loads(text)
        pixels = _pixels(file, header)
        pictures = dict(zip(header["kept"], pixels, strict=True))
        return VideoFrames(
            frames=[pictures[index] for index in header["indices"]],
            indices=header["indices"],
            times_us=header["times_us"],
            info=VideoInfo(**{**header["info"], "problems": tuple(header["info"]["problems"])}),
            decoder=header["decoder"],
        )
    except (OSError, ValueError, KeyError, TypeError, MemoryError):
        return None


def _pixels(file: BufferedReader, header: dict[str, Any]) -> Picture:
    """uint8 [N, H, W, 3]; raises ValueError when they are not what was written."""
    shape = tuple(header["shape"])
    if int(np.prod(shape, dtype=np.float64)) > MAX_READ_BYTES:
        raise ValueError("larger than any reading")
    pixels = np.empty(shape, dtype=np.uint8)
    if file.readinto(pixels.data.cast("B")) != pixels.nbytes or zlib.crc32(pixels.data) != header["crc32"]:
        raise ValueError("cut short or damaged")
    return pixels
