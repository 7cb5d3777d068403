"""Held-out scenes as files, and what the shipped readers and preparation make of those files."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from engines.preprocessing import ClipTransform
from engines.tiny.dataset import EVENT_FRAMES, VIDEO_SAMPLES
from engines.tiny.samples import write_scene
from engines.tiny.scenes import Scene
from evprof.loaders.npy import read_npy
from evprof.loaders.render import render_frames
from evprof.loaders.video import read_frames


def write_scenes(folder: Path, scenes: list[Scene], workers: int = 2) -> list[Path]:
    """One folder with ``events.npy`` and ``video.mp4`` per scene."""
    folders = [folder / f"{index:04d}" for index in range(len(scenes))]
    with ProcessPoolExecutor(workers) as pool:
        list(pool.map(write_scene, folders, scenes, chunksize=8))
    return folders


def event_pixel_values(path: Path, transform: ClipTransform) -> NDArray[np.float32]:
    """[5, 3, S, S] as EventGPT is given them."""
    return transform.pixel_values(render_frames(read_npy(path), EVENT_FRAMES))[0]


def video_pixel_values(path: Path, transform: ClipTransform) -> NDArray[np.float32]:
    """[8, 3, S, S] as Video-LLaVA is given them."""
    return transform.pixel_values(read_frames(path, VIDEO_SAMPLES))[0]
