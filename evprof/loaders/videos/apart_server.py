"""The helper process that decodes one video after another (see `apart`).

It reads one JSON object a line and answers each with one, followed by the bytes of pictures. Output of libraries does
not get among the answers. The process ends with its parent, or when a request takes more than MOST_CPU_SECONDS, or
more memory than SPARE_BYTES.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from evprof.core.errors import UsageError, UserError
from evprof.core.installation import missing_package
from evprof.loaders.videos.source import VideoFrames, VideoSource

MOST_CPU_SECONDS = 300
SPARE_BYTES = 4 << 30
"""Address space beyond that at the start: the largest frames that are read, in all threads of a decoder."""

Answer = tuple[dict[str, Any], list[Any]]
"""The facts, and the pictures that follow."""


def main() -> int:
    """Answers until there are no more requests. Raises UserError when a person starts it."""
    if sys.stdin.isatty():
        raise UsageError("evprof _video is started by evprof, not by people.")
    answers = os.fdopen(os.dup(1), "wb")
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), 1)
    # Ctrl-C is for the parent. This process ends when its requests end.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(ModuleNotFoundError):  # the first request reports it
        import av  # noqa: F401 - before the first request, and before the limits

    _limit_memory()
    served = _Served()
    for line in sys.stdin.buffer:
        _limit_time()
        _answer(served, json.loads(line), answers)
    return 0


def _answer(served: _Served, request: dict[str, Any], answers: BinaryIO) -> None:
    try:
        facts, pictures = served.answer(**request)
    except UserError as error:
        facts, pictures = {"refused": error.sentence}, []
    except ModuleNotFoundError as error:
        facts, pictures = {"refused": missing_package(str(error.name))}, []
    except Exception as error:  # noqa: BLE001 - the parent raises it
        facts, pictures = {"failed": f"{type(error).__name__}: {error}"}, []
    facts |= {"bytes_read": served.bytes_read, "shapes": [picture.shape for picture in pictures]}
    answers.write(json.dumps(facts).encode() + b"\n")
    for picture in pictures:
        answers.write(memoryview(picture).cast("B"))
    answers.flush()


class _Served:
    def __init__(self) -> None:
        self._video: VideoSource | None = None

    @property
    def bytes_read(self) -> int:
        return 0 if self._video is None else self._video.bytes_read

    def answer(self, ask: str, **about: Any) -> Answer:
        """The answer to one request. Raises UserError."""
        if ask in ("open", "close"):
            self._replace(**about)
            return {}, []
        video = self._video
        if video is None:
            raise UserError("No video is open.")
        if ask in ("read_uniform", "read_at"):
            return _frames(getattr(video, ask)(**about))
        if ask == "passing":
            passed = video.passing(**about)
            return {"passed": list(passed)}, list(passed.values())
        return (_table_facts(video) if ask == "index" else {"info": vars(video.info())}), []

    def _replace(self, path: str | None = None) -> None:
        from evprof.loaders.videos.file import VideoFile

        if self._video is not None:
            self._video.close()
        self._video = None
        self._video = None if path is None else VideoFile(path)


def _frames(frames: VideoFrames) -> Answer:
    """Each picture once, however often it is requested."""
    shown = dict(zip(frames.indices, frames.frames, strict=True))
    facts = {
        "indices": frames.indices,
        "times_us": frames.times_us,
        "order": list(shown),
        "info": vars(frames.info),
    }
    return facts, list(shown.values())


def _table_facts(video: VideoSource) -> dict[str, Any]:
    table = video.index()
    return {
        "pts": table.pts.tolist(),
        "keys": table.key_indices.tolist(),
        "end_pts": table.end_pts,
        "time_base": [table.time_base.numerator, table.time_base.denominator],
        "is_timed": table.is_timed,
    }


def _limit_memory() -> None:
    try:
        import resource

        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    except (ImportError, OSError, ValueError):
        return
    limit = pages * os.sysconf("SC_PAGE_SIZE") + SPARE_BYTES
    _lower(resource.RLIMIT_AS, limit)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _limit_time() -> None:
    """MOST_CPU_SECONDS beyond those used so far; the system ends the process after that."""
    try:
        import resource
    except ImportError:
        return
    used = resource.getrusage(resource.RUSAGE_SELF)
    _lower(resource.RLIMIT_CPU, int(used.ru_utime + used.ru_stime) + MOST_CPU_SECONDS)


def _lower(kind: int, limit: int) -> None:
    """Sets a soft limit of the system, below a hard one that a shell may have set."""
    import resource

    _, hard = resource.getrlimit(kind)
    resource.setrlimit(kind, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))
