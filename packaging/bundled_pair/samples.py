"""The samples that ship with the pair: a few chosen scenes, and held-out ones to measure drafters on."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from bundled_pair.attributes import Attributes
from bundled_pair.captions import detailed
from bundled_pair.dataset import held_out_scenes
from bundled_pair.recordings import event_columns, video_frame, video_times, write_events, write_video
from bundled_pair.scenes import Scene, draw_scene

CHOSEN: dict[str, tuple[Attributes, str]] = {
    "bus-approaching": (
        Attributes("left", "trees", "bus", "approaching", "day", "red"),
        "What are the key elements in this scene?",
    ),
    "truck-moving-away": (
        Attributes("right", "buildings", "truck", "moving away", "day", "green"),
        "Describe in detail what happened in the scene.",
    ),
    "car-crossing-at-night": (
        Attributes("straight", "fence", "car", "crossing", "night", "blue"),
        "What is in the scene?",
    ),
}
"""Name, attributes and question; the layouts come from a seed no training or held-out scene uses."""

HELD_OUT_SCENES = 8
KEY_QUESTION = "What are the key elements in this scene?"


def write_scene(folder: Path, scene: Scene) -> tuple[Path, Path]:
    """``events.npy`` and ``video.mp4`` of one scene in ``folder``, which is made if need be."""
    folder.mkdir(parents=True, exist_ok=True)
    events, video = folder / "events.npy", folder / "video.mp4"
    write_events(events, event_columns(scene))
    write_video(video, (video_frame(scene, float(time_s)) for time_s in video_times()))
    return events, video


def write_samples(folder: Path, seed: int) -> list[Path]:
    """The chosen scenes below ``folder/samples``, the held-out ones below ``folder/held-out``."""
    written = []
    for index, (name, (attributes, prompt)) in enumerate(CHOSEN.items()):
        scene = draw_scene(attributes, np.random.default_rng((seed, 2, index)))
        written.append(_write_sample(folder / "samples" / name, name, prompt, scene))
    for number, scene in enumerate(held_out_scenes(HELD_OUT_SCENES, seed), 1):
        written.append(_write_sample(folder / "held-out" / f"scene-{number}", f"scene {number}", KEY_QUESTION, scene))
    return written


def _write_sample(folder: Path, name: str, prompt: str, scene: Scene) -> Path:
    """``events.npy``, ``video.mp4`` and ``sample.json`` in ``folder``; returns the last."""
    events, video = write_scene(folder, scene)
    record = {
        "name": name,
        "events": events.name,
        "video": video.name,
        "prompt": prompt,
        "reference": detailed(scene.attributes),
    }
    path = folder / "sample.json"
    path.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    return path
