"""The program that decodes one video after another for somebody else, who survives it (see `apart`).

It reads one JSON object a line and answers each with one, followed by the bytes of pictures where it says so. Nothing
that a library prints gets among the answers. It ends with who started it, and by itself where one question takes
more than MOST_CPU_SECONDS, or more memory than SPARE_BYTES.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from evprof.core.errors import USAGE, UserError
from evprof.core.installation import missing_package
from evprof.loaders.videos.frame_table import FrameTable
from evprof.loaders.videos.source import VideoFrames, VideoSource

MOST_CPU_SECONDS = 300
SPARE_BYTES = 4 << 30
"""Of addresses, beyond those taken at the start: the largest frames that are read, in all threads of a decoder."""

FRAMES_KEPT = 16
"""Of those passed on the way to a frame, the last ones can still be asked for."""

Answer = tuple[dict[str, Any], list[Any]]
"""What is told, and the pictures that follow."""


def main() -> int:
    """Answers until there are no more questions. Raises UserError when a person starts it."""
    if sys.stdin.isatty():
        raise UserError("evprof _video is started by evprof, not by people.", exit_code=USAGE)
    answers = os.fdopen(os.dup(1), "wb")
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), 1)
    # Ctrl-C is for who started this: it ends when its questions end.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(ModuleNotFoundError):  # the first question says so
        import av  # noqa: F401 - ahead of the first question, and of the limits

    _limit_memory()
    served = _Served()
    for line in sys.stdin.buffer:
        _answer(served, json.loads(line), answers)
    return 0


def _answer(served: _Served, asked: dict[str, Any], answers: BinaryIO) -> None:
    _limit_time()
    try:
        told, pictures = served.asks[asked.pop("ask")](**asked)
    except UserError as error:
        told, pictures = {"refused": error.sentence}, []
    except ModuleNotFoundError as error:
        told, pictures = {"refused": missing_package(str(error.name))}, []
    except Exception as error:  # noqa: BLE001 - told as what it is where it was asked
        told, pictures = {"failed": f"{type(error).__name__}: {error}"}, []
    told |= {"bytes_read": served.bytes_read, "shapes": [picture.shape for picture in pictures]}
    answers.write(json.dumps(told).encode() + b"\n")
    for picture in pictures:
        answers.write(memoryview(picture).cast("B"))
    answers.flush()


class _Served:
    """The video in hand."""

    def __init__(self) -> None:
        self._video: VideoSource | None = None
        self._passed: deque[tuple[int, Any]] = deque(maxlen=FRAMES_KEPT)
        self.asks: dict[str, Callable[..., Answer]] = {
            "open": self._open,
            "close": self._close,
            "index": self._index,
            "info": self._info,
            "walk": self._walk,
            "picture": self._picture,
            "uniform": self._uniform,
            "at": self._at,
        }

    @property
    def bytes_read(self) -> int:
        """Of the video in hand."""
        return 0 if self._video is None else self._video.bytes_read

    @property
    def _opened(self) -> VideoSource:
        if self._video is None:
            raise UserError("No video is open.")
        return self._video

    def _open(self, path: str) -> Answer:
        from evprof.loaders.videos.file import VideoFile

        self._close()
        self._video = VideoFile(path)
        return {"decoder": self._video.decoder}, []

    def _close(self) -> Answer:
        self._passed.clear()
        if self._video is not None:
            self._video.close()
        self._video = None
        return {}, []

    def _index(self) -> Answer:
        return told_table(self._opened.index()), []

    def _info(self) -> Answer:
        return {"info": vars(self._opened.info())}, []

    def _walk(self, index: int) -> Answer:
        self._passed.clear()
        for number, frame in self._opened.walk(index):
            self._passed.append((number, frame))
        return {"passed": [number for number, _ in self._passed]}, []

    def _picture(self, index: int, longest_edge: int | None) -> Answer:
        frame = next(frame for number, frame in self._passed if number == index)
        return {}, [self._opened.to_rgb(frame, longest_edge=longest_edge)]

    def _uniform(self, count: int, window_us: list[int] | None) -> Answer:
        window = None if window_us is None else (window_us[0], window_us[1])
        return _told_frames(self._opened.read_uniform(count, window))

    def _at(self, times_us: list[int]) -> Answer:
        return _told_frames(self._opened.read_at(times_us))


def _told_frames(found: VideoFrames) -> Answer:
    """Each picture once, however often it was asked for."""
    shown = dict(zip(found.indices, found.frames, strict=True))
    told = {
        "indices": found.indices,
        "times_us": found.times_us,
        "order": list(shown),
        "info": vars(found.info),
        "decoder": found.decoder,
    }
    return told, list(shown.values())


def told_table(table: FrameTable) -> dict[str, Any]:
    """A table of frames as JSON; `FrameTable(**…)` of the same is `apart`'s."""
    return {
        "pts": table.pts.tolist(),
        "keys": table.key_indices.tolist(),
        "end_pts": table.end_pts,
        "time_base": [table.time_base.numerator, table.time_base.denominator],
        "is_timed": table.is_timed,
        "spare_pts": sorted(table.spare_pts),
        "reorder_frames": table.reorder_frames,
        "seek_pts": list(table.seek_pts.items()),
    }


def _limit_memory() -> None:
    try:
        import resource

        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    except (ImportError, OSError, ValueError):
        return
    limit = pages * os.sysconf("SC_PAGE_SIZE") + SPARE_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _limit_time() -> None:
    """So much more than was used so far; beyond it the system ends this process."""
    try:
        import resource
    except ImportError:
        return
    used = resource.getrusage(resource.RUSAGE_SELF)
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (int(used.ru_utime + used.ru_stime) + MOST_CPU_SECONDS, hard))
