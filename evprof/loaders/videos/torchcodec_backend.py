"""Decodes frames of a video file through torchcodec, for those who have it and ask for it.

torchcodec imports torch, which nothing in evprof may do on its own: it is imported here alone, by name, when a file is
opened with this decoder. Everything but the decoding of frames stays with PyAV, so both give the same frames.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np

from evprof.core.errors import UserError
from evprof.loaders.paths import reason
from evprof.loaders.pictures.render import Picture
from evprof.loaders.videos.decoding_plan import MAX_THREADS
from evprof.loaders.videos.file import VideoFile
from evprof.loaders.videos.source import PYAV, TORCHCODEC, Choice, VideoFrames

_SAME_TIME_S = 5e-4
"""Frames closer than this are the same: cameras take 1,000 a second at most."""


class TorchcodecFile(VideoFile):
    """A video file whose frames torchcodec decodes where it finds the same ones; else, and for players, PyAV does."""

    def __init__(self, path: str | Path) -> None:
        self._library = _decoders(path)
        self.decoder = TORCHCODEC
        super().__init__(path)

    def _read(self, choose: Choice) -> VideoFrames:
        self.decoder = TORCHCODEC
        return super()._read(choose)

    def _pictures(self, targets: list[int], pixels: int) -> dict[int, Picture]:
        with self.parts.part("decode"):
            found = self._decoded(targets) if self.table.is_timed else None
        if found is None:
            # The frames that VideoFrames.decoder speaks of.
            self.decoder = PYAV
            return super()._pictures(targets, pixels)
        return found

    def _decoded(self, targets: list[int]) -> dict[int, Picture] | None:
        """The frames; None for a turned video, and where torchcodec counts otherwise or cannot read the file."""
        try:
            decoder = self._library.VideoDecoder(
                str(self._file.resolve()),
                dimension_order="NHWC",
                num_ffmpeg_threads=min(self._threads, MAX_THREADS),
                device="cpu",
                seek_mode="exact",
            )
            if len(decoder) != len(self.table) or getattr(decoder.metadata, "rotation", None):
                return None
            batch = decoder.get_frames_at(indices=targets)
            times = np.asarray(batch.pts_seconds, dtype=np.float64)
            pictures: Picture = batch.data.numpy()
        except (RuntimeError, ValueError, IndexError, TypeError, OSError):
            return None
        expected = self.table.pts[targets] * float(self.table.time_base)
        if pictures.dtype != np.uint8 or pictures.ndim != 4 or np.abs(times - expected).max() > _SAME_TIME_S:
            return None
        # It is not turned, so nothing has to be decoded to learn how.
        self._ready().rotation = 0
        return dict(zip(targets, pictures, strict=True))


def _decoders(path: str | Path) -> Any:
    """The module `torchcodec.decoders`; one UserError for all the ways it can fail to load."""
    try:
        return importlib.import_module("torchcodec.decoders")
    except (ImportError, RuntimeError, OSError) as error:
        raise UserError(
            f"{path}: torchcodec cannot be used here ({reason(error)}); install it beside FFmpeg's shared libraries "
            "and a torch of the version it was built for, or choose the decoder pyav."
        ) from None
