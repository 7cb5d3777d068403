"""The adapters that come along, from the seed: scenes, examples, trainings and their evaluation on held-out scenes.

The same steps as `evprof adapter collect`, `train` and `evaluate`, one after the other; half done, they go on.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bundled_pair.export import EVENTGPT_NAME, VIDEO_LLAVA_NAME
from bundled_pair.scene_files import MANIFEST, write_scene_files
from engines.training.collect_plan import CollectPlan
from engines.training.collecting import Collecting
from engines.training.evaluating import write_evaluation
from engines.training.loop import Curves, TrainingOptions
from engines.training.making import TrainPlan, train_adapter
from evprof.core.errors import UserError
from evprof.core.units import percent_text, times_text
from evprof.core.vocabulary.drafters import EAGLE, HIDDEN, KV, LORA, NGRAM
from evprof.core.vocabulary.generation import GenerationSettings, ModelChoice
from evprof.loaders.adapters import read_adapter
from evprof.loaders.manifests.manifest import read_manifest

SCENES, HELD_OUT = 160, 24
GAMMA, REPEAT = 5, 3
HELD_OUT_FOLDER = "held-out"

Note = Callable[[str], None]


@dataclass(frozen=True)
class Recipe:
    """How one adapter is trained; `gamma` is what it is evaluated with."""

    options: TrainingOptions = field(default_factory=TrainingOptions)
    gamma: int = GAMMA


RECIPES: dict[str, Recipe] = {
    NGRAM: Recipe(gamma=3),
    EAGLE: Recipe(TrainingOptions(steps=800, batch=16, learning_rate=2e-3, every=100, seed=7), gamma=4),
    HIDDEN: Recipe(TrainingOptions(steps=600, batch=16, learning_rate=2e-3, every=100), gamma=3),
    LORA: Recipe(TrainingOptions(steps=160, batch=12, learning_rate=6e-3, every=40, patience=20, seed=2), gamma=3),
    KV: Recipe(TrainingOptions(steps=1000, batch=8)),
}


BUNDLED = [kind for kind in RECIPES if kind != KV]
"""Whose adapters come along."""


def adapter_name(kind: str) -> str:
    """What the shipped adapter of a kind is called."""
    return f"evprof-tiny-{kind}"


def make_adapters(
    out: Path,
    work: Path,
    seed: int,
    *,
    kinds: Sequence[str] = BUNDLED,
    scenes: int = SCENES,
    held_out: int = HELD_OUT,
    note: Note = print,
) -> list[Path]:
    """Trains and evaluates adapters of these kinds for the bundled pair into `out`; what is in `work` is gone on with.

    Returns their folders. Raises UserError when something cannot be written.
    """
    training = write_scene_files(work / f"scenes-{seed}", scenes, seed, held_out=False)
    write_scene_files(work / HELD_OUT_FOLDER, held_out, seed, held_out=True)
    note(f"{scenes} scenes to learn from and {held_out} held out: {work}")
    data = work / "examples"
    plan = CollectPlan(
        read_manifest(training).samples, _choice(VIDEO_LLAVA_NAME), _choice(EVENTGPT_NAME), GenerationSettings(), data
    )
    end = Collecting(plan).run(_Telling(note), threading.Event())
    note(f"{end.examples:,} examples, {end.tokens:,} answer tokens: {data}")
    made = []
    for kind in kinds:
        folder = out / adapter_name(kind)
        train_adapter(
            TrainPlan(data, kind, folder, RECIPES[kind].options, device="cpu", overwrite=True),
            _Telling(note),
            threading.Event(),
        )
        evaluate_shipped(folder, work, held_out, seed, note)
        made.append(folder)
    return made


def evaluate_adapters(
    out: Path, work: Path, seed: int, *, kinds: Sequence[str], held_out: int = HELD_OUT, note: Note = print
) -> list[Path]:
    """Evaluates the adapters of these kinds that lie in `out` anew; returns their folders."""
    write_scene_files(work / HELD_OUT_FOLDER, held_out, seed, held_out=True)
    made = [folder for kind in kinds if (folder := out / adapter_name(kind)).is_dir()]
    for folder in made:
        evaluate_shipped(folder, work, held_out, seed, note)
    return made


def evaluate_shipped(folder: Path, work: Path, count: int, seed: int, note: Note = print) -> None:
    """Measures one adapter on the held-out scenes below `work` by `evprof adapter evaluate` itself, whose figures and
    command the card then holds, beside the command that made the scenes. Raises UserError when that fails."""
    words = [str(folder.resolve()), f"{HELD_OUT_FOLDER}/{MANIFEST}", "--gamma"]
    words += [str(RECIPES[read_adapter(str(folder)).kind].gamma), "--repeat", str(REPEAT)]
    # Started elsewhere, it has to be this evprof and none that is installed.
    places = os.pathsep.join(filter(None, (str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH"))))
    done = subprocess.run(
        [sys.executable, "-m", "evprof", "adapter", "evaluate", *words, "--device", "cpu", "--dtype", "float32"],
        cwd=work,
        env={**os.environ, "PYTHONPATH": places},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise UserError(f"{folder} could not be evaluated: {(done.stderr.splitlines() or ['no reason given'])[-1]}")
    adapter = read_adapter(str(folder))
    found = dict(adapter.evaluation or {})
    made_by = f"python packaging/make_pair.py --seed {seed} scenes --count {count} --held-out -o {HELD_OUT_FOLDER}"
    write_evaluation(adapter, found | {"samples_command": made_by})
    rate, speed = found["draft_acceptance_rate"], found["decode_speedup"]
    told = "lossy" if rate is None else f"{percent_text(rate, 1)} accepted"
    note(f"{adapter.name}: {told}, decoding {times_text(speed)}" if speed else f"{adapter.name}: {told}")


def _choice(name: str) -> ModelChoice:
    return ModelChoice(name, "cpu", "float32")


class _Telling:
    """A line now and then."""

    def __init__(self, note: Note) -> None:
        self._note = note
        self._total = self._done = 0
        self._told_at = time.monotonic()

    def begin(self, what: int | str, *more: object) -> None:
        """Collecting or training begins."""
        if isinstance(what, int):
            self._total, self._done = what, int(str(more[0]))
        else:
            self._note(f"training {what}")

    def end(self, name: str, error: str | None = None) -> None:
        """One example more."""
        self._done += 1
        if error is not None:
            self._note(f"{name}: {error}")
        if time.monotonic() - self._told_at > 20:
            self._told_at = time.monotonic()
            self._note(f"{self._done:,} of {self._total:,} examples")

    def say(self, sentence: str) -> None:
        """A warning."""
        self._note(sentence)

    def step(self, step: int, steps: int, loss: float) -> None:
        """Steps are told by what they lead to."""

    def judged(self, curves: Curves, *, is_best: bool) -> None:
        """The examples held back were looked at."""
        match, loss = curves.validation_match[-1], curves.validation_loss[-1]
        self._note(
            f"step {curves.validation_steps[-1]}: {percent_text(match, 1)} of held-back tokens right, loss {loss:.3f}"
        )
