"""Decodes videos in a helper process: a file that makes FFmpeg crash or hang ends the helper, and gives a sentence.

Programs that must survive untrusted files (the window, `evprof inspect`) call `keep_apart` once. From then on
`open_video` returns ApartVideo for video files. Engines decode in their own process.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import signal
import subprocess
import threading
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import IO, Any, NoReturn, cast

import numpy as np

from evprof.core.errors import UserError
from evprof.loaders.paths import readable_file, reason
from evprof.loaders.pictures.render import Picture
from evprof.loaders.videos.frame_table import FrameTable
from evprof.loaders.videos.source import MAX_READ_BYTES, PYAV, Choice, VideoFrames, VideoInfo, VideoSource

ANSWER_SECONDS = 60.0
"""Time limit of one request, plus a second for each READ_BYTES_S of the file."""

READ_BYTES_S = 20 << 20
_KEPT = 2
"""Idle helpers that wait for the next video; each takes 60 MB."""

_LONGEST_LINE = 256 << 20
_ENDING_S = 2.0


class Helpers:
    """Processes started from `argv` that decode: one for each open video, and a few idle ones."""

    def __init__(self, argv: Sequence[str]) -> None:
        self._argv = list(argv)
        self._idle: list[_Helper] = []
        self._lock = threading.Lock()
        self._is_over = False

    def take(self) -> _Helper:
        """An idle helper, or a new one. Raises UserError when none starts."""
        with self._lock:
            helper = self._idle.pop() if self._idle else None
        if helper is not None and helper.process.poll() is None:
            return helper
        return _Helper(self._argv)

    def put_back(self, helper: _Helper) -> None:
        with self._lock:
            is_kept = not self._is_over and len(self._idle) < _KEPT
            if is_kept:
                self._idle.append(helper)
        if not is_kept:
            helper.end()

    def end(self) -> None:
        """Ends the idle helpers, and from now on each that is put back."""
        with self._lock:
            self._is_over = True
            helpers, self._idle = self._idle, []
        for helper in helpers:
            helper.end()


_helpers: Helpers | None = None
_crashes: dict[Path, str] = {}
"""By file, the sentence about how it ended a helper."""


def keep_apart(argv: Sequence[str], *, soon: bool = False) -> None:
    """From now on `argv` (`evprof _video`) decodes videos; with `soon` one helper starts at once."""
    global _helpers  # noqa: PLW0603 - a setting of the whole program
    decode_here()
    _helpers = Helpers(argv)
    if soon:
        with contextlib.suppress(UserError):
            _helpers.put_back(_helpers.take())


def decode_here() -> None:
    """Reverts `keep_apart`, forgets crashes, and ends idle helpers."""
    global _helpers
    helpers, _helpers = _helpers, None
    _crashes.clear()
    if helpers is not None:
        helpers.end()


def is_kept_apart() -> bool:
    return _helpers is not None


def crash_of(path: str | Path) -> str | None:
    """The sentence about how this file ended a helper; None for other files."""
    return _crashes.get(Path(path).absolute())


atexit.register(decode_here)


class ApartVideo(VideoSource):
    """One video file, opened by a helper. Raises UserError, also when the helper crashes, hangs or fills its memory.

    After that every call raises the same error. Another video, or the same one reopened, gets a new helper.
    """

    decoder = PYAV

    def __init__(self, path: str | Path, helpers: Helpers | None = None) -> None:
        """`helpers` defaults to those of `keep_apart`."""
        self.path = str(path)
        pool = helpers or _helpers
        if pool is None:
            raise UserError(f"{path}: no helper process is set up to decode videos.")
        self._helpers = pool
        self._seconds = ANSWER_SECONDS + readable_file(path).stat().st_size / READ_BYTES_S
        self._bytes_read = 0
        self._over = f"{path}: is closed; open the video again."
        self._helper: _Helper | None = pool.take()
        try:
            self._ask("open", path=str(Path(path).absolute()))
        except UserError:
            self.close()
            raise

    @property
    def bytes_read(self) -> int:
        return self._bytes_read

    def index(self) -> FrameTable:
        answer, _ = self._ask("index")
        keys = np.zeros(len(answer["pts"]), np.bool_)
        keys[answer["keys"]] = True
        pts, time_base = np.array(answer["pts"], np.int64), Fraction(*answer["time_base"])
        self._table = FrameTable(pts, keys, answer["end_pts"], time_base, answer["is_timed"])
        return self._table

    def info(self) -> VideoInfo:
        return _info(self._ask("info")[0])

    def passing(self, index: int, *, most: int, longest_edge: int | None = None) -> dict[int, Picture]:
        answer, pictures = self._ask("passing", index=index, most=most, longest_edge=longest_edge)
        return dict(zip(answer["passed"], pictures, strict=True))

    def read_uniform(self, count: int, window_us: tuple[int, int] | None = None) -> VideoFrames:
        return _frames(*self._ask("read_uniform", count=count, window_us=window_us))

    def read_at(self, times_us: Sequence[int]) -> VideoFrames:
        return _frames(*self._ask("read_at", times_us=[int(time_us) for time_us in times_us]))

    def walk(self, index: int) -> Iterator[tuple[int, Any]]:
        raise NotImplementedError("only the helper holds decoded frames")

    def to_rgb(self, frame: Any, *, longest_edge: int | None = None) -> NoReturn:
        raise NotImplementedError("only the helper holds decoded frames")

    def _read(self, choose: Choice) -> VideoFrames:
        raise NotImplementedError("the helper chooses: its table can change while it decodes")

    def close(self) -> None:
        helper, self._helper = self._helper, None
        if helper is None:
            return
        try:
            helper.ask("close", ANSWER_SECONDS)
        except _GoneError:
            helper.end()
        else:
            self._helpers.put_back(helper)

    def _ask(self, what: str, **about: Any) -> tuple[dict[str, Any], list[Picture]]:
        if self._helper is None:
            raise UserError(self._over)
        try:
            answer, pictures = self._helper.ask(what, self._seconds, **about)
        except _GoneError as gone:
            self._helper.end()
            self._helper = None
            self._over = f"{self.path}: the program that decodes it {gone}."
            _crashes[Path(self.path).absolute()] = self._over
            raise UserError(self._over) from None
        self._bytes_read = answer["bytes_read"]
        if "refused" in answer:
            raise UserError(answer["refused"])
        if "failed" in answer:
            raise RuntimeError(answer["failed"])
        return answer, pictures


class _GoneError(Exception):
    """How a helper ended, and whose fault it is, as the end of a sentence."""


_FAULT_OF_VIDEO = "the video is damaged or was made to do that, so copy or export it again"


class _Helper:
    """One process that decodes, and the pipes to it. One request at a time."""

    def __init__(self, argv: Sequence[str]) -> None:
        try:
            self.process = subprocess.Popen(
                list(argv),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
            )
        except OSError as error:
            raise UserError(f"The program that decodes videos cannot be started ({reason(error)}).") from None
        self._is_late = False

    def ask(self, what: str, seconds: float, **about: Any) -> tuple[dict[str, Any], list[Picture]]:
        """The answer, and the pictures that follow it. Raises _GoneError."""
        timer = threading.Timer(seconds, self._give_up)
        timer.daemon = True
        timer.start()
        try:
            sink, source = cast("IO[bytes]", self.process.stdin), cast("IO[bytes]", self.process.stdout)
            sink.write(json.dumps({"ask": what, **about}).encode() + b"\n")
            sink.flush()
            answer: dict[str, Any] = json.loads(source.readline(_LONGEST_LINE))
            return answer, [_picture(source, shape) for shape in answer["shapes"]]
        except (OSError, ValueError, EOFError):
            raise self._gone(seconds) from None
        finally:
            timer.cancel()

    def end(self) -> None:
        """Ends the process; may be called twice."""
        self.process.kill()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        self.process.wait()

    def _give_up(self) -> None:
        self._is_late = True
        self.process.kill()

    def _gone(self, seconds: float) -> _GoneError:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(_ENDING_S)  # a helper that ends by itself has an exit code of its own
        self.process.kill()
        code = self.process.wait()
        if self._is_late:
            return _GoneError(f"took longer than {seconds:.0f} s; {_FAULT_OF_VIDEO}")
        if code == -getattr(signal, "SIGXCPU", 0):
            return _GoneError(f"took too much processor time; {_FAULT_OF_VIDEO}")
        if code < 0:
            with contextlib.suppress(ValueError):
                return _GoneError(f"crashed ({signal.Signals(-code).name}); {_FAULT_OF_VIDEO}")
        return _GoneError(f"ended with code {code}; this is a fault of evprof, not of the video")


def _picture(source: IO[bytes], shape: Sequence[int]) -> Picture:
    """uint8 of this shape. Raises EOFError where the helper ends, ValueError for more than one reading returns."""
    size = int(np.prod(shape))
    if size > MAX_READ_BYTES:
        raise ValueError("larger than any reading")
    content = source.read(size)
    if len(content) < size:
        raise EOFError
    return np.frombuffer(bytearray(content), np.uint8).reshape(shape)


def _frames(answer: dict[str, Any], pictures: list[Picture]) -> VideoFrames:
    shown = dict(zip(answer["order"], pictures, strict=True))
    frames = [shown[index] for index in answer["indices"]]
    return VideoFrames(frames, answer["indices"], answer["times_us"], _info(answer))


def _info(answer: dict[str, Any]) -> VideoInfo:
    facts = answer["info"]
    return VideoInfo(**{**facts, "problems": tuple(facts["problems"])})
