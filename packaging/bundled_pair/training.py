"""The whole training from a seed: scenes, vocabulary, both towers side by side, one core each, the target, the draft.

Scenes and finished towers are kept in the work folder, so that an interrupted training goes on from there.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from transformers import CLIPVisionModel

from bundled_pair import tokenizer
from bundled_pair.assembly import EventReader, VideoReader, event_tower, video_tower
from bundled_pair.attributes import EVENT_VISIBLE, VIDEO_VISIBLE
from bundled_pair.conversations import Conversations
from bundled_pair.dataset import SceneSet, load_or_render
from bundled_pair.export import EVENTGPT_NAME, VIDEO_LLAVA_NAME, export_eventgpt, export_video_llava
from bundled_pair.language_training import fold_standardisation, train_reader
from bundled_pair.tower_training import features, train_tower
from engines.families.event_model import EVENTGPT_V1
from engines.families.video_llava import VideoLlavaFamily
from engines.tokens.prompts import PromptTemplate

SCENES = 4000
QUESTION_TOKENS = 400
"""Room for questions and answers beside what a scene shows."""


@dataclass(frozen=True, slots=True)
class Course:
    """What one model is taught and for how long."""

    visible: Sequence[str]
    template: PromptTemplate
    tower_steps: int
    reader_steps: int
    few_frames: int
    reader_batch: int
    tower_batch: int = 96


COURSES = {
    EVENTGPT_NAME: Course(EVENT_VISIBLE, EVENTGPT_V1, 1300, 500, 0, 8),
    VIDEO_LLAVA_NAME: Course(VIDEO_VISIBLE, VideoLlavaFamily.template, 1500, 1900, 1840, 8),
}


def train_pair(models: Path, work: Path, seed: int, scenes: int = SCENES) -> None:
    """Train both models and write their checkpoints below ``models``; caches go to ``work``."""
    work.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    load_or_render(work, scenes, seed, workers=2)
    print(f"{scenes} scenes ready after {time.monotonic() - started:.0f} s", flush=True)
    # A process and a core each: two threads on one tiny model cost more than they bring.
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        for job in [pool.submit(_tower, name, work, seed, scenes) for name in COURSES]:
            job.result()
    print(f"both towers trained after {time.monotonic() - started:.0f} s", flush=True)
    train_readers(models, work, seed, scenes)
    print(f"both models written after {time.monotonic() - started:.0f} s", flush=True)


def train_readers(models: Path, work: Path, seed: int, scenes: int = SCENES) -> None:
    """Teach the target to speak, then the draft, which begins as a few of the target's layers."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    vocabulary = tokenizer.train()
    data = load_or_render(work, scenes, seed, workers=1)
    target, draft = VideoReader(), EventReader()
    tower = _tower(VIDEO_LLAVA_NAME, work, seed, scenes)
    _teach(VIDEO_LLAVA_NAME, target, tower, data, seed)
    export_video_llava(models / VIDEO_LLAVA_NAME, tower, target, vocabulary)
    draft.begin_as(target)
    tower = _tower(EVENTGPT_NAME, work, seed, scenes)
    _teach(EVENTGPT_NAME, draft, tower, data, seed)
    export_eventgpt(models / EVENTGPT_NAME, tower, draft, vocabulary)


def _tower(name: str, work: Path, seed: int, scenes: int) -> CLIPVisionModel:
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    data = load_or_render(work, scenes, seed, workers=1)
    pixels = data.event_pixels if name == EVENTGPT_NAME else data.video_pixels
    return _trained_tower(name, data, pixels, work / f"{name}-{seed}-{scenes}.pt", seed)


def _trained_tower(name: str, data: SceneSet, pixels: NDArray[np.uint8], path: Path, seed: int) -> CLIPVisionModel:
    """A trained tower, its weights rounded to bf16 as they will ship; from ``path`` when it was trained before."""
    course = COURSES[name]
    tower = event_tower() if name == EVENTGPT_NAME else video_tower()
    if path.exists():
        tower.load_state_dict(torch.load(path, weights_only=True))
        return tower
    train_tower(
        tower,
        pixels=pixels,
        labels=data.labels,
        names=course.visible,
        steps=course.tower_steps,
        batch=course.tower_batch,
        seed=seed,
        report=partial(_print_line, name),
    )
    _round_to_bf16(tower)
    torch.save(tower.state_dict(), path)
    return tower


def _teach(name: str, reader: EventReader | VideoReader, tower: CLIPVisionModel, data: SceneSet, seed: int) -> None:
    course = COURSES[name]
    _print_line(name, "the tower reads every scene once")
    seen = features(tower, data.event_pixels if name == EVENTGPT_NAME else data.video_pixels)
    fold_standardisation(reader.projector, seen)
    train_reader(
        reader,
        features=seen,
        labels=data.labels,
        conversations=Conversations(
            tokenizer.load(tokenizer.train()).encode, course.template, course.visible, length=QUESTION_TOKENS
        ),
        steps=course.reader_steps,
        few_frames=course.few_frames,
        batch=course.reader_batch,
        seed=seed,
        report=partial(_print_line, name),
    )


@torch.no_grad()
def _round_to_bf16(module: nn.Module) -> None:
    """Round every weight to the precision it is stored in, so that nothing later is fitted to digits that get lost."""
    for parameter in module.parameters():
        parameter.copy_(parameter.to(torch.bfloat16).to(parameter.dtype))


def _print_line(name: str, line: str) -> None:
    print(f"{name}: {line}", flush=True)
