"""Scenes by the thousand, as the pixels each model sees, rendered once and kept in a cache folder.

The arithmetic between a scene and the pixels is the shipped readers' own; only the files in between are skipped.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bundled_pair.attributes import Attributes, draw, draw_balanced
from bundled_pair.recordings import event_columns, through_h264, video_frame, video_times
from bundled_pair.scenes import Scene, draw_scene
from engines.stages.pixel_values import ClipTransform
from evprof.core.events import EventArray
from evprof.loaders.pictures.render import render_event_frames

EVENT_FRAMES, EVENT_SIZE = 5, 64
VIDEO_SAMPLES, VIDEO_SIZE = 8, 48


@dataclass(frozen=True, slots=True)
class SceneSet:
    """N scenes: RGB pixels [N, 5, 64, 64, 3] and [N, 8, 48, 48, 3], and the attribute indices [N, 8]."""

    event_pixels: NDArray[np.uint8]
    video_pixels: NDArray[np.uint8]
    labels: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.labels)


def training_scene(seed: int, index: int) -> Scene:
    rng = _training_rng(seed, index)
    return draw_scene(draw(rng), rng)


def training_attributes(seed: int, index: int) -> Attributes:
    """Those of a training scene, which are drawn before the rest of it."""
    return draw(_training_rng(seed, index))


def _training_rng(seed: int, index: int) -> np.random.Generator:
    return np.random.default_rng((seed, 0, index))


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
    return event_pixels(scene), video_pixels(scene), scene.attributes.indices()


def event_pixels(scene: Scene) -> NDArray[np.uint8]:
    """[5, 64, 64, 3]: EventGPT's rendering and CLIP's cut of the scene's events."""
    columns = event_columns(scene)
    events = EventArray.from_columns(columns.x, columns.y, columns.t_us, columns.p)
    return np.stack([_EVENT_CUT.cut(picture) for picture in render_event_frames(events, EVENT_FRAMES)])


def video_pixels(scene: Scene) -> NDArray[np.uint8]:
    """[8, 48, 48, 3]: the frames the reader would pick, encoded and decoded as a clip of their own, and cut."""
    times = video_times()
    chosen = np.linspace(0, len(times) - 1, VIDEO_SAMPLES).round().astype(int)
    frames = through_h264(video_frame(scene, float(times[index])) for index in chosen)
    return np.stack([_VIDEO_CUT.cut(np.asarray(frame)) for frame in frames])


_EVENT_CUT = ClipTransform.square(EVENT_SIZE)
_VIDEO_CUT = ClipTransform.square(VIDEO_SIZE)
