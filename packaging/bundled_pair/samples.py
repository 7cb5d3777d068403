"""The samples that ship with the pair: a few chosen scenes, and held-out ones to measure drafters on."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from bundled_pair.attributes import VIDEO_VISIBLE, Attributes
from bundled_pair.dataset import held_out_scenes
from bundled_pair.grammar import SUBJECTS, Question, draw_answer, draw_question
from bundled_pair.productions import DESCRIBE, KINDS
from bundled_pair.recordings import event_columns, video_frame, video_times, write_events, write_video
from bundled_pair.scenes import Scene, draw_scene

CHOSEN: dict[str, tuple[Attributes, str]] = {
    "bus-approaching": (
        Attributes("left", "trees", "bus", "approaching", "day", "red"),
        "What is in the scene?",
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


def write_scene(folder: Path, scene: Scene) -> tuple[Path, Path]:
    """``events.npy`` and ``video.mp4`` of one scene in ``folder``, which is made if need be."""
    folder.mkdir(parents=True, exist_ok=True)
    events, video = folder / "events.npy", folder / "video.mp4"
    write_events(events, event_columns(scene))
    write_video(video, (video_frame(scene, float(time_s)) for time_s in video_times()))
    return events, video


def held_out_question(number: int, scene: Scene, seed: int) -> tuple[Question, str]:
    """What the scene of this number is asked, and one right answer: kinds take turns, wordings are held out."""
    kind, turn = KINDS[number % len(KINDS)], number // len(KINDS)
    subjects = [subject for subject in SUBJECTS if subject[0] == kind]
    rng = np.random.default_rng((seed, 5, number))
    question = draw_question(rng, scene.attributes, subjects[turn % len(subjects)], held_out=True)
    return question, draw_answer(rng, scene.attributes, question, VIDEO_VISIBLE, held_out=True).text


def write_samples(folder: Path, seed: int) -> list[Path]:
    """The chosen scenes below ``folder/samples``, the held-out ones below ``folder/held-out``."""
    written = []
    for index, (name, (attributes, prompt)) in enumerate(CHOSEN.items()):
        scene = draw_scene(attributes, np.random.default_rng((seed, 2, index)))
        question = Question(prompt, DESCRIBE, "")
        rng = np.random.default_rng((seed, 5, 1000 + index))
        reply = draw_answer(rng, attributes, question, VIDEO_VISIBLE, held_out=False).text
        written.append(_write_sample(folder / "samples" / name, name, prompt, reply, scene))
    for number, scene in enumerate(held_out_scenes(HELD_OUT_SCENES, seed)):
        question, reply = held_out_question(number, scene, seed)
        name = f"scene {number + 1}"
        written.append(_write_sample(folder / "held-out" / f"scene-{number + 1}", name, question.text, reply, scene))
    return written


def _write_sample(folder: Path, name: str, prompt: str, reply: str, scene: Scene) -> Path:
    """``events.npy``, ``video.mp4`` and ``sample.json`` in ``folder``; returns the last."""
    events, video = write_scene(folder, scene)
    record = {"name": name, "events": events.name, "video": video.name, "prompt": prompt, "reference": reply}
    path = folder / "sample.json"
    path.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    return path
