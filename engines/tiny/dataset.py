"""Scenes by the thousand, as the pixels each model sees, rendered once and kept in a cache folder.

The arithmetic between a scene and the pixels is the shipped readers' own; only the files in between are skipped.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from engines.tiny.attributes import Attributes, draw, draw_balanced
from engines.tiny.recordings import event_columns, through_h264, video_frame, video_times
from engines.tiny.scenes import Scene, draw_scene

EVENT_FRAMES, EVENT_SIZE = 5, 64
VIDEO_SAMPLES, VIDEO_SIZE = 8, 48
CLIP_MEAN = (0.48145466, 0.4578275, 0.40821073)
CLIP_STD = (0.26862954, 0.26130258, 0.27577711)


@dataclass(frozen=True, slots=True)
class SceneSet:
    """N scenes: RGB pixels [N, 5, 64, 64, 3] and [N, 8, 48, 48, 3], and the attribute indices [N, 6]."""

    event_pixels: NDArray[np.uint8]
    video_pixels: NDArray[np.uint8]
    labels: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.labels)


def training_scene(seed: int, index: int) -> Scene:
    rng = np.random.default_rng((seed, 0, index))
    return draw_scene(draw(rng), rng)


def held_out_scenes(count: int, seed: int) -> list[Scene]:
    """Scenes no training set holds, every attribute value equally often."""
    rng = np.random.default_rng((seed, 1))
    return [draw_scene(attributes, rng) for attributes in draw_balanced(count, rng)]


def load_or_render(cache: Path, count: int, seed: int, workers: int) -> SceneSet:
    """The first ``count`` training scenes of ``seed``, from ``cache`` if they were rendered before."""
    path = cache / f"scenes-{seed}-{count}.npz"
    if not path.exists():
        scenes = render([(seed, index) for index in range(count)], workers)
        cache.mkdir(parents=True, exist_ok=True)
        np.savez(path, event_pixels=scenes.event_pixels, video_pixels=scenes.video_pixels, labels=scenes.labels)
        return scenes
    with np.load(path) as arrays:
        return SceneSet(arrays["event_pixels"], arrays["video_pixels"], arrays["labels"])


def render(keys: Sequence[tuple[int, int]], workers: int) -> SceneSet:
    """The scenes of ``keys`` (seed, index), rendered by ``workers`` processes."""
    with ProcessPoolExecutor(workers) as pool:
        rows = list(pool.map(_render_one, keys, chunksize=16))
    events, videos, labels = zip(*rows, strict=True)
    return SceneSet(np.stack(events), np.stack(videos), np.array(labels, dtype=np.int64))


def _render_one(key: tuple[int, int]) -> tuple[NDArray[np.uint8], NDArray[np.uint8], list[int]]:
    scene = training_scene(*key)
    return event_pixels(scene), video_pixels(scene), labels_of(scene.attributes)


def labels_of(attributes: Attributes) -> list[int]:
    return attributes.indices()


def event_pixels(scene: Scene) -> NDArray[np.uint8]:
    events = event_columns(scene)
    step = len(events) // EVENT_FRAMES
    bounds = [step * index for index in range(EVENT_FRAMES)] + [len(events)]
    frames = []
    for start, stop in pairwise(bounds):
        x, y, p = events.x[start:stop].astype(np.int64), events.y[start:stop].astype(np.int64), events.p[start:stop]
        canvas = np.full((y.max() + 1, x.max() + 1, 3), 255, np.uint8)
        canvas[y, x] = np.where(p[:, None] == 0, np.uint8([0, 0, 255]), np.uint8([255, 0, 0]))
        frames.append(fit(Image.fromarray(canvas), EVENT_SIZE))
    return np.stack(frames)


def video_pixels(scene: Scene) -> NDArray[np.uint8]:
    """The frames the reader would pick, encoded and decoded as a clip of their own."""
    times = video_times()
    chosen = np.linspace(0, len(times) - 1, VIDEO_SAMPLES).round().astype(int)
    frames = through_h264(video_frame(scene, float(times[index])) for index in chosen)
    return np.stack([fit(frame, VIDEO_SIZE) for frame in frames])


def fit(image: Image.Image, size: int) -> NDArray[np.uint8]:
    """CLIP's resize (bicubic, shortest edge) and centre crop."""
    width, height = image.size
    short = min(width, height)
    resized = image.resize((int(size * width / short), int(size * height / short)), Image.Resampling.BICUBIC)
    left, top = (resized.width - size) // 2, (resized.height - size) // 2
    return np.asarray(resized.crop((left, top, left + size, top + size)))
