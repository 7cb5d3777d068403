"""A scene as files: an event camera's recording (EventGPT's ``.npy``) and a colour camera's (H.264 MP4)."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import IO

import av
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from bundled_pair.materials import ILLUMINATION, luminance_table, rgb_table
from bundled_pair.scenes import DURATION_S, SUPERSAMPLE, Scene
from bundled_pair.simulator import EventColumns, background, merge, simulate

EVENT_WIDTH, EVENT_HEIGHT = 240, 180
EVENT_WINDOW_US = 50_000
SENSOR_STEP_US = 2_000
CONTRAST_THRESHOLD = 0.2
NOISE_EVENTS = 700
"""Enough that every slice has events near the sensor's last column and row: its canvas ends at its largest x and y."""

VIDEO_WIDTH, VIDEO_HEIGHT = 320, 240
VIDEO_FRAMES = 24
VIDEO_FPS = 20

# Without its look-ahead thread x264 writes the same bytes for the same pictures every time.
_ENCODER = {
    "crf": "20",
    "preset": "veryfast",
    "x264-params": "threads=1:rc-lookahead=0:sync-lookahead=0:mbtree=0",
}


def event_columns(scene: Scene) -> EventColumns:
    """What a 240x180 contrast sensor reports during the scene's 50 ms window, t from 0."""
    signal = simulate(_log_intensity(scene), CONTRAST_THRESHOLD)
    noise_rng = np.random.default_rng(scene.layout.seed)
    noise = background(noise_rng, NOISE_EVENTS, EVENT_WIDTH, EVENT_HEIGHT, EVENT_WINDOW_US)
    return merge([signal, noise])


def _log_intensity(scene: Scene) -> Iterator[tuple[float, NDArray[np.float32]]]:
    table = luminance_table(scene.attributes.colour).tobytes()
    light = ILLUMINATION[scene.attributes.daylight]
    for time_us in range(0, EVENT_WINDOW_US + 1, SENSOR_STEP_US):
        painted = scene.paint(scene.event_start_s + time_us * 1e-6, EVENT_WIDTH, EVENT_HEIGHT)
        seen = np.asarray(painted.point(table).reduce(SUPERSAMPLE), dtype=np.float32)
        yield float(time_us), np.log(light * seen)


def video_frame(scene: Scene, time_s: float) -> Image.Image:
    """What a 320x240 colour camera sees at ``time_s``."""
    painted = scene.paint(time_s, VIDEO_WIDTH, VIDEO_HEIGHT)
    table = rgb_table(scene.attributes.colour, scene.attributes.daylight)
    channels = [painted.point(table[:, channel].tobytes()) for channel in range(3)]
    return Image.merge("RGB", channels).reduce(SUPERSAMPLE)


def video_times() -> NDArray[np.float64]:
    """Instants of the video's frames in seconds."""
    return np.linspace(0.0, DURATION_S, VIDEO_FRAMES)


def write_events(path: Path, events: EventColumns) -> None:
    """EventGPT's layout: a pickled dict of x, y, t (microseconds) and p in a 0-d object array."""
    columns = {"x": events.x, "y": events.y, "t": events.t_us.astype(np.uint16), "p": events.p}
    np.save(path, np.array(columns, dtype=object), allow_pickle=True)


def write_video(target: Path | IO[bytes], frames: Iterable[Image.Image]) -> None:
    """H.264 in MP4 at 20 frames a second, 4:2:0, one slice per picture."""
    with av.open(str(target) if isinstance(target, Path) else target, "w", format="mp4") as container:
        stream = container.add_stream("libx264", rate=Fraction(VIDEO_FPS), options=_ENCODER)
        stream.width, stream.height, stream.pix_fmt = VIDEO_WIDTH, VIDEO_HEIGHT, "yuv420p"
        stream.codec_context.thread_count = 1
        for frame in frames:
            container.mux(stream.encode(av.VideoFrame.from_image(frame)))
        container.mux(stream.encode())


def through_h264(frames: Iterable[Image.Image]) -> list[Image.Image]:
    """The frames as a player would see them: encoded like :func:`write_video` and decoded again."""
    buffer = io.BytesIO()
    write_video(buffer, frames)
    buffer.seek(0)
    with av.open(buffer, "r") as container:
        return [frame.to_image() for frame in container.decode(video=0)]
