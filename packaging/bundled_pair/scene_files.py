"""Scenes as files with a list of samples beside them, so that anyone can collect, train and evaluate on them.

Training scenes and held-out ones come from different streams of the seed: no scene is ever both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

from bundled_pair.attributes import VIDEO_VISIBLE
from bundled_pair.dataset import held_out_scenes, training_scene
from bundled_pair.grammar import SUBJECTS, draw_answer, draw_question
from bundled_pair.samples import held_out_question, write_scene
from bundled_pair.scenes import Scene
from evprof.core.files.whole_file import whole_folder
from evprof.core.sample import Sample
from evprof.loaders.writers.manifest import write_manifest

MANIFEST = "scenes.csv"

FIRST_TRAINING_SCENE = 1_000_000
"""Training scenes written here are none of those the models themselves were trained on."""

_QUESTIONS = 9
"""The stream of the seed that questions are drawn from."""

_OTHERS = 3


def write_scene_files(
    folder: Path,
    count: int,
    seed: int,
    *,
    held_out: bool,
    workers: int = 1,
    note: Callable[[int], None] = lambda _: None,
) -> Path:
    """Writes `count` scenes below `folder` and their list; returns the list. Training scenes that are there are kept.

    A held-out scene is asked one question of held-out wording; a training scene a general question and three others.
    `note` hears how many are written.
    """
    if held_out:
        scenes = held_out_scenes(count, seed)
    else:
        scenes = [training_scene(seed, FIRST_TRAINING_SCENE + index) for index in range(count)]
    places = [folder / f"{'held-out' if held_out else 'scene'}-{index:04}" for index in range(count)]
    # The nth of so many held-out scenes is another among fewer: attributes are dealt out evenly.
    left = [pair for pair in zip(places, scenes, strict=True) if held_out or not pair[0].is_dir()]
    _write(left, workers, lambda done: note(count - len(left) + done))
    rng = np.random.default_rng((seed, _QUESTIONS))
    samples = [
        sample
        for number, (place, scene) in enumerate(zip(places, scenes, strict=True))
        for sample in _samples(place, _held_out(number, scene, seed) if held_out else _asked(scene, rng))
    ]
    manifest = folder / MANIFEST
    write_manifest(manifest, samples)
    return manifest


def _write(left: Sequence[tuple[Path, Scene]], workers: int, note: Callable[[int], None]) -> None:
    note(0)
    if workers > 1 and left:
        with ProcessPoolExecutor(workers) as pool:
            for done, _ in enumerate(pool.map(_write_one, *zip(*left, strict=True), chunksize=4), start=1):
                note(done)
        return
    for done, (place, scene) in enumerate(left, start=1):
        _write_one(place, scene)
        note(done)


def _write_one(place: Path, scene: Scene) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    with whole_folder(place) as unfinished:
        write_scene(unfinished, scene)


def _asked(scene: Scene, rng: np.random.Generator) -> list[tuple[str, str]]:
    """A general question and some on single facts, each with a right answer."""
    others = rng.choice(np.arange(1, len(SUBJECTS)), size=_OTHERS, replace=False)
    asked = []
    for subject in (SUBJECTS[0], *(SUBJECTS[int(index)] for index in others)):
        question = draw_question(rng, scene.attributes, subject, held_out=False)
        asked.append((question.text, draw_answer(rng, scene.attributes, question, VIDEO_VISIBLE, held_out=False).text))
    return asked


def _held_out(number: int, scene: Scene, seed: int) -> list[tuple[str, str]]:
    question, reply = held_out_question(number, scene, seed)
    return [(question.text, reply)]


def _samples(place: Path, asked: Sequence[tuple[str, str]]) -> list[Sample]:
    return [
        Sample(
            events_path=str(place / "events.npy"),
            video_path=str(place / "video.mp4"),
            prompt=question,
            name=place.name if number == 1 else f"{place.name} question {number}",
            reference=reference,
        )
        for number, (question, reference) in enumerate(asked, start=1)
    ]
