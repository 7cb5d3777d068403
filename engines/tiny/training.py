"""The whole training from a seed: scenes, vocabulary, then both models side by side, one core each.

Each model's parts are kept in the work folder when they are done, so that an interrupted training goes on from there.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from torch import nn
from transformers import CLIPVisionModel

from engines.tiny import assembly, captions, export, prompts, tokenizer
from engines.tiny.attributes import EVENT_VISIBLE, VALUES, VIDEO_VISIBLE
from engines.tiny.conversations import Conversations
from engines.tiny.dataset import EVENT_FRAMES, VIDEO_SAMPLES, SceneSet, load_or_render
from engines.tiny.language_training import fold_standardisation, train_reader
from engines.tiny.tower_training import features, train_tower

SCENES = 6000
QUESTIONS_PER_SCENE = 3


@dataclass(frozen=True, slots=True)
class Effort:
    """How long one model is trained."""

    tower_steps: int
    tower_batch: int
    reader_steps: int
    reader_batch: int


EVENT_EFFORT = Effort(tower_steps=1400, tower_batch=96, reader_steps=900, reader_batch=32)
VIDEO_EFFORT = Effort(tower_steps=1400, tower_batch=96, reader_steps=450, reader_batch=24)


def train_pair(models: Path, work: Path, seed: int, scenes: int = SCENES) -> None:
    """Train both models and write their checkpoints below ``models``; caches and logs go to ``work``."""
    work.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    load_or_render(work, scenes, seed, workers=2)
    print(f"{scenes} scenes ready after {time.monotonic() - started:.0f} s", flush=True)
    # A process and a core each: two threads on one tiny model cost more than they bring.
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        jobs = [pool.submit(job, models, work, seed, scenes) for job in (train_video_llava, train_eventgpt)]
        for job in jobs:
            job.result()
    print(f"both models written after {time.monotonic() - started:.0f} s", flush=True)


def train_eventgpt(models: Path, work: Path, seed: int, scenes: int) -> None:
    data, vocabulary = _start(work, seed, scenes)
    tower = _tower("eventgpt", assembly.event_tower(), data, work, seed)
    seen = _features("eventgpt", tower, data)
    reader = assembly.EventReader()
    talk = Conversations(
        tokenizer.load(vocabulary).encode,
        prompts.event_pieces,
        captions.concise,
        visual=EVENT_FRAMES + seen.shape[2],
        questions=QUESTIONS_PER_SCENE,
    )
    _read("eventgpt", reader, seen, data, talk, seed)
    export.export_eventgpt(models / export.EVENTGPT_NAME, tower, reader, vocabulary)


def train_video_llava(models: Path, work: Path, seed: int, scenes: int) -> None:
    data, vocabulary = _start(work, seed, scenes)
    tower = _tower("video-llava", assembly.video_tower(), data, work, seed)
    seen = _features("video-llava", tower, data)
    reader = assembly.VideoReader()
    talk = Conversations(
        tokenizer.load(vocabulary).encode,
        prompts.video_pieces,
        captions.detailed,
        visual=VIDEO_SAMPLES * seen.shape[2],
        questions=QUESTIONS_PER_SCENE,
    )
    _read("video-llava", reader, seen, data, talk, seed)
    export.export_video_llava(models / export.VIDEO_LLAVA_NAME, tower, reader, vocabulary)


def _start(work: Path, seed: int, scenes: int) -> tuple[SceneSet, bytes]:
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    return load_or_render(work, scenes, seed, workers=1), tokenizer.train()


def _tower(model: str, tower: CLIPVisionModel, data: SceneSet, work: Path, seed: int) -> CLIPVisionModel:
    """``tower`` trained, or as it was trained before from this seed; its weights are rounded to bf16 as they will ship."""
    path = work / f"tower-{model}-{seed}-{len(data)}.pt"
    if path.exists():
        tower.load_state_dict(torch.load(path, weights_only=True))
        return tower
    effort = EVENT_EFFORT if model == "eventgpt" else VIDEO_EFFORT
    train_tower(
        tower,
        pixels=data.event_pixels if model == "eventgpt" else data.video_pixels,
        labels=data.labels,
        names=EVENT_VISIBLE if model == "eventgpt" else VIDEO_VISIBLE,
        steps=effort.tower_steps,
        batch=effort.tower_batch,
        seed=seed,
        report=_reporter(model),
    )
    round_to_bf16(tower)
    torch.save(tower.state_dict(), path)
    return tower


def _features(model: str, tower: CLIPVisionModel, data: SceneSet) -> torch.Tensor:
    _reporter(model)("reading all scenes once")
    return features(tower, data.event_pixels if model == "eventgpt" else data.video_pixels)


def _read(
    model: str,
    reader: assembly.EventReader | assembly.VideoReader,
    seen: torch.Tensor,
    data: SceneSet,
    talk: Conversations,
    seed: int,
) -> None:
    effort = EVENT_EFFORT if model == "eventgpt" else VIDEO_EFFORT
    visible = EVENT_VISIBLE if model == "eventgpt" else VIDEO_VISIBLE
    fold_standardisation(reader.projector, seen)
    train_reader(
        reader,
        features=seen,
        labels=data.labels,
        conversations=talk,
        blind=[name for name in VALUES if name not in visible],
        steps=effort.reader_steps,
        batch=effort.reader_batch,
        seed=seed,
        report=_reporter(model),
    )


@torch.no_grad()
def round_to_bf16(module: nn.Module) -> None:
    """Round every weight to the precision it is stored in, so that nothing later is fitted to lost digits."""
    for parameter in module.parameters():
        parameter.copy_(parameter.to(torch.bfloat16).to(parameter.dtype))


def _reporter(model: str) -> Callable[[str], None]:
    return partial(_print_line, model)


def _print_line(model: str, line: str) -> None:
    print(f"{model}: {line}", flush=True)
