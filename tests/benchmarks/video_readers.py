"""The ways of reading evenly spread frames that `run.py video` compares: ours, fixed strategies, and libraries.

Each gives the frames as [H, W, 3] arrays; in which order the colours are does not matter here. Libraries are imported
when they are asked for.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from evprof.loaders.pictures.frame_folder import uniform_indices
from evprof.loaders.videos.opening import open_video

if TYPE_CHECKING:
    from av import VideoStream
    from av.container import InputContainer

Frames = Sequence[npt.NDArray[Any]]
Read = Callable[[Path, int], Frames]

OURS = "evprof"
FULL, SEEK, LIBRARY = "full decode", "seek per frame", "library"
"""What kind of way it is: two fixed strategies in PyAV, and whatever a library does."""


@dataclass(frozen=True)
class Reader:
    """One way. `needs` is the module it imports, `kind` one of the above or OURS."""

    name: str
    kind: str
    needs: str
    read: Read


def why_missing(module: str) -> str | None:
    """Why a module cannot be imported; None when it can. Libraries that miss others raise all kinds of things."""
    try:
        importlib.import_module(module)
    except (ImportError, RuntimeError, OSError) as error:
        first = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
        return f"{module} does not load: {first[:160]}"
    return None


def _ours(path: Path, count: int) -> Frames:
    with open_video(path) as video:
        video.index()
        return video.read_uniform(count).frames


def _opened(path: Path, thread_type: str | None) -> tuple[InputContainer, VideoStream]:
    import av

    container = av.open(str(path))
    stream = container.streams.video[0]
    if thread_type is not None:
        stream.thread_type = thread_type
    return container, stream


def _times(container: InputContainer, stream: VideoStream) -> list[int]:
    """Presentation times of all frames, by a pass over the packets."""
    return sorted(packet.pts for packet in container.demux(stream) if packet.size and packet.pts is not None)


def _full(path: Path, count: int, thread_type: str | None) -> Frames:
    """Every frame from the first to the last is decoded, those asked for are converted."""
    container, stream = _opened(path, thread_type)
    with container:
        total = stream.frames
        if not total:
            total = len(_times(container, stream))
            container.seek(0)
        wanted = set(uniform_indices(total, count).tolist())
        found: list[npt.NDArray[Any]] = []
        for number, frame in enumerate(container.decode(stream)):
            if number in wanted:
                found.append(frame.to_ndarray(format="rgb24"))
        return found


def _seek(path: Path, count: int, thread_type: str | None) -> Frames:
    container, stream = _opened(path, thread_type)
    with container:
        times = _times(container, stream)
        found: list[npt.NDArray[Any]] = []
        for index in uniform_indices(len(times), count):
            container.seek(times[index], stream=stream, backward=True)
            for frame in container.decode(stream):
                if frame.pts is not None and frame.pts >= times[index]:
                    found.append(frame.to_ndarray(format="rgb24"))
                    break
        return found


def _opencv_grab(path: Path, count: int) -> Frames:
    cv2 = importlib.import_module("cv2")
    capture = cv2.VideoCapture(str(path))
    wanted = set(uniform_indices(_opencv_total(cv2, capture), count).tolist())
    found: list[npt.NDArray[Any]] = []
    number = 0
    while capture.grab():
        if number in wanted:
            found.append(capture.retrieve()[1])
        number += 1
    capture.release()
    return found


def _opencv_seek(path: Path, count: int) -> Frames:
    cv2 = importlib.import_module("cv2")
    capture = cv2.VideoCapture(str(path))
    found: list[npt.NDArray[Any]] = []
    for index in uniform_indices(_opencv_total(cv2, capture), count):
        capture.set(cv2.CAP_PROP_POS_FRAMES, int(index))
        is_read, picture = capture.read()
        if is_read:
            found.append(picture)
    capture.release()
    return found


def _opencv_total(cv2: Any, capture: Any) -> int:
    return max(1, int(capture.get(cv2.CAP_PROP_FRAME_COUNT)))


def _decord(path: Path, count: int) -> Frames:
    reader = importlib.import_module("decord").VideoReader(str(path))
    batch: npt.NDArray[np.uint8] = reader.get_batch(uniform_indices(len(reader), count).tolist()).asnumpy()
    return list(batch)


def _torchcodec(path: Path, count: int, threads: int, mode: str) -> Frames:
    decoders = importlib.import_module("torchcodec.decoders")
    decoder = decoders.VideoDecoder(str(path), num_ffmpeg_threads=threads, seek_mode=mode, dimension_order="NHWC")
    batch = decoder.get_frames_at(uniform_indices(len(decoder), count).tolist())
    return list(batch.data.numpy())


READERS = (
    Reader(OURS, OURS, "av", _ours),
    Reader("PyAV full decode", FULL, "av", lambda path, count: _full(path, count, None)),
    Reader("PyAV full decode, AUTO threads", FULL, "av", lambda path, count: _full(path, count, "AUTO")),
    Reader("PyAV seek per frame", SEEK, "av", lambda path, count: _seek(path, count, None)),
    Reader("PyAV seek per frame, AUTO threads", SEEK, "av", lambda path, count: _seek(path, count, "AUTO")),
    Reader("OpenCV grab all", LIBRARY, "cv2", _opencv_grab),
    Reader("OpenCV seek per frame", LIBRARY, "cv2", _opencv_seek),
    Reader("decord get_batch", LIBRARY, "decord", _decord),
    Reader(
        "torchcodec approximate, 1 thread",
        LIBRARY,
        "torchcodec.decoders",
        lambda path, count: _torchcodec(path, count, 1, "approximate"),
    ),
    Reader(
        "torchcodec approximate, auto threads",
        LIBRARY,
        "torchcodec.decoders",
        lambda path, count: _torchcodec(path, count, 0, "approximate"),
    ),
)
