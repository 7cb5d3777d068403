"""The whole training from a seed: scenes, vocabulary, then both models side by side, one core each.

Scenes and finished towers are kept in the work folder, so that an interrupted training goes on from there.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Sequence
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
from bundled_pair.attributes import EVENT_VISIBLE, VALUES, VIDEO_VISIBLE, Attributes
from bundled_pair.captions import concise, detailed
from bundled_pair.conversations import Conversations
from bundled_pair.dataset import SceneSet, load_or_render
from bundled_pair.export import EVENTGPT_NAME, VIDEO_LLAVA_NAME, export_eventgpt, export_video_llava
from bundled_pair.language_training import fold_standardisation, train_reader
from bundled_pair.tower_training import features, train_tower
from engines.families.event_model import EVENTGPT_V1
from engines.families.video_llava import VideoLlavaFamily
from engines.tokens.prompts import PromptTemplate

SCENES = 6000
QUESTIONS_PER_SCENE = 4


@dataclass(frozen=True, slots=True)
class Course:
    """What one model is taught and for how long."""

    visible: Sequence[str]
    template: PromptTemplate
    caption: Callable[[Attributes], str]
    tower_steps: int
    tower_batch: int
    reader_steps: int
    reader_batch: int


COURSES = {
    EVENTGPT_NAME: Course(EVENT_VISIBLE, EVENTGPT_V1, concise, 1800, 96, 1200, 32),
    VIDEO_LLAVA_NAME: Course(VIDEO_VISIBLE, VideoLlavaFamily.template, detailed, 2000, 96, 750, 24),
}


def train_pair(models: Path, work: Path, seed: int, scenes: int = SCENES) -> None:
    """Train both models and write their checkpoints below ``models``; caches go to ``work``."""
    work.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    load_or_render(work, scenes, seed, workers=2)
    print(f"{scenes} scenes ready after {time.monotonic() - started:.0f} s", flush=True)
    # A process and a core each: two threads on one tiny model cost more than they bring.
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        jobs = [pool.submit(_train_model, name, models, work, seed, scenes) for name in COURSES]
        for job in jobs:
            job.result()
    print(f"both models written after {time.monotonic() - started:.0f} s", flush=True)


def _train_model(name: str, models: Path, work: Path, seed: int, scenes: int) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    vocabulary = tokenizer.train()
    data = load_or_render(work, scenes, seed, workers=1)
    pixels = data.event_pixels if name == EVENTGPT_NAME else data.video_pixels
    tower = _trained_tower(name, data, pixels, work / f"{name}-{seed}-{scenes}.pt", seed)
    _print_line(name, "the tower reads every scene once")
    seen = features(tower, pixels)
    if name == EVENTGPT_NAME:
        event_reader = EventReader()
        _teach(name, event_reader, seen=seen, labels=data.labels, vocabulary=vocabulary, seed=seed)
        export_eventgpt(models / name, tower, event_reader, vocabulary)
    else:
        video_reader = VideoReader()
        _teach(name, video_reader, seen=seen, labels=data.labels, vocabulary=vocabulary, seed=seed)
        export_video_llava(models / name, tower, video_reader, vocabulary)


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


def _teach(
    name: str,
    reader: EventReader | VideoReader,
    *,
    seen: torch.Tensor,
    labels: NDArray[np.int64],
    vocabulary: bytes,
    seed: int,
) -> None:
    course = COURSES[name]
    fold_standardisation(reader.projector, seen)
    talk = Conversations(
        tokenizer.load(vocabulary).encode,
        course.template,
        course.caption,
        visual=reader.visual_embeddings(seen[:1].float()).shape[1],
        questions=QUESTIONS_PER_SCENE,
    )
    train_reader(
        reader,
        features=seen,
        labels=labels,
        conversations=talk,
        blind=[attribute for attribute in VALUES if attribute not in course.visible],
        steps=course.reader_steps,
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
