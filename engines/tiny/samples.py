"""The finished samples that ship with the pair: events, video, question and reference answer of a few chosen scenes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from engines.tiny.attributes import Attributes
from engines.tiny.captions import detailed
from engines.tiny.recordings import event_columns, video_frame, video_times, write_events, write_video
from engines.tiny.scenes import Scene, draw_scene

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


def write_scene(folder: Path, scene: Scene) -> tuple[Path, Path]:
    """``events.npy`` and ``video.mp4`` of one scene in ``folder``, which is made if need be."""
    folder.mkdir(parents=True, exist_ok=True)
    events, video = folder / "events.npy", folder / "video.mp4"
    write_events(events, event_columns(scene))
    write_video(video, (video_frame(scene, float(time_s)) for time_s in video_times()))
    return events, video


def write_samples(folder: Path, seed: int) -> list[Path]:
    """Every sample of :data:`CHOSEN` as ``folder/<name>/{events.npy, video.mp4, sample.json}``."""
    written = []
    for index, (name, (attributes, prompt)) in enumerate(CHOSEN.items()):
        scene = draw_scene(attributes, np.random.default_rng((seed, 2, index)))
        events, video = write_scene(folder / name, scene)
        record = {
            "name": name,
            "events": events.name,
            "video": video.name,
            "prompt": prompt,
            "reference": detailed(attributes),
        }
        path = folder / name / "sample.json"
        path.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
        written.append(path)
    return written
