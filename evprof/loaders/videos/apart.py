"""Videos decoded in a process of their own: a file that makes FFmpeg crash or hang costs that process, and a sentence.

`keep_apart` is said once by programs that must not end with a stranger's file: the window, `evprof inspect`. From then
on `open_video` gives ApartVideo for video files. Engines decode in their own process, which is measured.
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
from typing import IO, Any, cast

import numpy as np

from evprof.core.errors import UserError
from evprof.loaders.paths import readable_file, reason
from evprof.loaders.pictures.render import Picture
from evprof.loaders.videos.frame_table import FrameTable
from evprof.loaders.videos.source import MAX_READ_BYTES, PYAV, Choice, VideoFrames, VideoInfo, VideoSource

ANSWER_SECONDS = 60.0
"""What one question may take, and a second more for each of READ_BYTES_S of the file."""

READ_BYTES_S = 20 << 20
_KEPT = 2
"""Helpers that wait for the next video; each takes 60 MB."""

_LONGEST_LINE = 256 << 20


class Helpers:
    """Processes started from `argv` that decode: one for each open video, a few waiting for the next."""

    def __init__(self, argv: Sequence[str]) -> None:
        self._argv = list(argv)
        self._waiting: list[_Helper] = []
        self._lock = threading.Lock()
        self._is_over = False

    def take(self) -> _Helper:
        """One that waits, or a new one. Raises UserError where none can be started."""
        with self._lock:
            while self._waiting:
                helper = self._waiting.pop()
                if helper.is_alive:
                    return helper
                helper.end()
        return _Helper(self._argv)

    def put_back(self, helper: _Helper) -> None:
        """Keeps it for the next video, or ends it."""
        with self._lock:
            if not self._is_over and len(self._waiting) < _KEPT:
                self._waiting.append(helper)
                return
        helper.end()

    def end(self) -> None:
        """Ends those that wait, and from now on each as it is put back."""
        with self._lock:
            self._is_over = True
            helpers, self._waiting = self._waiting, []
        for helper in helpers:
            helper.end()


_helpers: Helpers | None = None
_crashes: dict[tuple[str, int, int], str] = {}


def keep_apart(argv: Sequence[str], *, soon: bool = False) -> None:
    """From now on videos are decoded by `argv` (`evprof _video`); one is started at once if they will be `soon`."""
    global _helpers  # noqa: PLW0603 - a decision of the whole program
    decode_here()
    _helpers = Helpers(argv)
    if soon:
        with contextlib.suppress(UserError):
            _helpers.put_back(_helpers.take())


def decode_here() -> None:
    """Takes `keep_apart` back, forgets crashes, and ends helpers that wait."""
    global _helpers
    helpers, _helpers = _helpers, None
    _crashes.clear()
    if helpers is not None:
        helpers.end()


def is_kept_apart() -> bool:
    """Whether `keep_apart` was said."""
    return _helpers is not None


def crash_of(path: str | Path) -> str | None:
    """How a helper ended with this very file, as a sentence; None for a file that none ended with."""
    try:
        return _crashes.get(_identity(path))
    except OSError:
        return None


def _identity(path: str | Path) -> tuple[str, int, int]:
    status = Path(path).stat()
    return str(Path(path).resolve()), status.st_size, status.st_mtime_ns


atexit.register(decode_here)


class ApartVideo(VideoSource):
    """One video file, opened by a helper. Raises UserError, also where the helper crashes, hangs or fills its memory.

    After that every call says the same again; another video, or the same one opened anew, has a new helper.
    """

    def __init__(self, path: str | Path, helpers: Helpers | None = None) -> None:
        """`helpers`: whose; by default those of `keep_apart`."""
        self.path = str(path)
        self._helpers = helpers or _helpers
        if self._helpers is None:
            raise UserError(f"{path}: nothing is there to decode videos apart.")
        self._size = readable_file(path).stat().st_size
        self._table: FrameTable | None = None
        self._bytes_read = 0
        self._over: str | None = None
        self._helper: _Helper | None = self._helpers.take()
        try:
            self.decoder = str(self._ask("open", path=str(Path(path).absolute()))[0].get("decoder", PYAV))
        except UserError:
            self.close()
            raise

    @property
    def table(self) -> FrameTable:
        """See `VideoSource`."""
        return self._table if self._table is not None else self.index()

    @property
    def bytes_read(self) -> int:
        """See `VideoSource`."""
        return self._bytes_read

    def index(self) -> FrameTable:
        """See `VideoSource`."""
        self._table = _table(self._ask("index")[0])
        return self._table

    def info(self) -> VideoInfo:
        """See `VideoSource`."""
        return _info(self._ask("info")[0])

    def walk(self, index: int) -> Iterator[tuple[int, int]]:
        """The numbers of the last frames passed, which stand for the frames themselves."""
        yield from ((number, number) for number in self._ask("walk", index=index)[0]["passed"])

    def to_rgb(self, frame: int, *, longest_edge: int | None = None) -> Picture:
        """See `VideoSource`."""
        return self._ask("picture", index=frame, longest_edge=longest_edge)[1][0]

    def close(self) -> None:
        """Gives the helper back for the next video."""
        helper, self._helper = self._helper, None
        if helper is None or self._helpers is None:
            return
        try:
            helper.ask("close", ANSWER_SECONDS)
        except _GoneError:
            helper.end()
        else:
            self._helpers.put_back(helper)

    def read_uniform(self, count: int, window_us: tuple[int, int] | None = None) -> VideoFrames:
        """See `VideoSource`."""
        return _frames(*self._ask("uniform", count=count, window_us=window_us))

    def read_at(self, times_us: Sequence[int]) -> VideoFrames:
        """See `VideoSource`."""
        return _frames(*self._ask("at", times_us=[int(time_us) for time_us in times_us]))

    def _read(self, choose: Choice) -> VideoFrames:
        raise NotImplementedError("the helper chooses: it may find another table while it decodes")

    def _ask(self, what: str, **about: Any) -> tuple[dict[str, Any], list[Picture]]:
        if self._over is not None:
            raise UserError(self._over)
        if self._helper is None:
            raise UserError(f"{self.path}: is closed; open the video again.")
        try:
            told, pictures = self._helper.ask(what, ANSWER_SECONDS + self._size / READ_BYTES_S, **about)
        except _GoneError as gone:
            self._helper.end()
            self._helper = None
            self._over = (
                f"{self.path}: the program that decodes it {gone}; the video is damaged or was made to do that, so "
                "copy or export it again."
            )
            with contextlib.suppress(OSError):
                _crashes[_identity(self.path)] = self._over
            raise UserError(self._over) from None
        self._bytes_read = told["bytes_read"]
        if "refused" in told:
            raise UserError(told["refused"])
        if "failed" in told:
            raise RuntimeError(told["failed"])
        return told, pictures


class _GoneError(Exception):
    """How a helper ended, as the end of a sentence."""


class _Helper:
    """One process that decodes, and the pipes to it. One question at a time."""

    def __init__(self, argv: Sequence[str]) -> None:
        try:
            self._process = subprocess.Popen(
                list(argv),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
            )
        except OSError as error:
            raise UserError(f"The program that decodes videos cannot be started ({reason(error)}).") from None
        self._is_late = False

    @property
    def is_alive(self) -> bool:
        """Whether it can be asked."""
        return self._process.poll() is None

    def ask(self, what: str, seconds: float, **about: Any) -> tuple[dict[str, Any], list[Picture]]:
        """What it tells, and the pictures that come with it. Raises _GoneError."""
        patience = threading.Timer(seconds, self._give_up)
        patience.daemon = True
        patience.start()
        try:
            sink, source = cast("IO[bytes]", self._process.stdin), cast("IO[bytes]", self._process.stdout)
            sink.write(json.dumps({"ask": what, **about}).encode() + b"\n")
            sink.flush()
            line = source.readline(_LONGEST_LINE)
            if not line.endswith(b"\n"):
                raise self._gone(seconds)
            told: dict[str, Any] = json.loads(line)
            return told, [self._picture(source, shape, seconds) for shape in told["shapes"]]
        except (OSError, ValueError):
            raise self._gone(seconds) from None
        finally:
            patience.cancel()

    def end(self) -> None:
        """Ends the process; may be called twice."""
        self._process.kill()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        self._process.wait()

    def _picture(self, source: IO[bytes], shape: Sequence[int], seconds: float) -> Picture:
        if int(np.prod(shape)) > MAX_READ_BYTES:
            raise self._gone(seconds)
        picture = np.empty(shape, np.uint8)
        room = memoryview(picture.data).cast("B")
        while room:
            count = source.readinto(room)  # type: ignore[attr-defined]  # a buffered reader, as Popen makes them
            if not count:
                raise self._gone(seconds)
            room = room[count:]
        return picture

    def _give_up(self) -> None:
        self._is_late = True
        self._process.kill()

    def _gone(self, seconds: float) -> _GoneError:
        if self._is_late:
            return _GoneError(f"took longer than {seconds:.0f} s")
        self._process.kill()
        code = self._process.wait()
        if code == -getattr(signal, "SIGXCPU", 0):
            return _GoneError("took too much processor time")
        if code < 0:
            with contextlib.suppress(ValueError):
                return _GoneError(f"crashed ({signal.Signals(-code).name})")
        return _GoneError(f"ended with code {code}")


def _table(told: dict[str, Any]) -> FrameTable:
    keys = np.zeros(len(told["pts"]), np.bool_)
    keys[told["keys"]] = True
    return FrameTable(
        np.array(told["pts"], np.int64),
        keys,
        told["end_pts"],
        Fraction(*told["time_base"]),
        told["is_timed"],
        frozenset(told["spare_pts"]),
        told["reorder_frames"],
        {int(time): int(place) for time, place in told["seek_pts"]},
    )


def _frames(told: dict[str, Any], pictures: list[Picture]) -> VideoFrames:
    shown = dict(zip(told["order"], pictures, strict=True))
    frames = [shown[index] for index in told["indices"]]
    return VideoFrames(frames, told["indices"], told["times_us"], _info(told), str(told["decoder"]))


def _info(told: dict[str, Any]) -> VideoInfo:
    facts = told["info"]
    return VideoInfo(**{**facts, "problems": tuple(facts["problems"])})
