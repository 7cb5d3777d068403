"""A shipped model in front of held-out scenes: files through its first three stages, then many questions at once."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from threading import Event

import torch

from bundled_pair.samples import write_scene
from bundled_pair.scenes import Scene
from engines.decoder.kv_cache import DynamicKv
from engines.families.event_model import EVENTGPT_V1
from engines.families.video_llava import VideoLlavaFamily
from engines.loading.weights import load_model
from engines.measuring.timing import NullClock
from engines.stages.model import VisionLanguageModel, splice
from engines.tokens.prompts import SLOT, prompt_ids
from evprof.core.records import DRAFT
from evprof.core.sample import Sample
from evprof.core.vocabulary.generation import GenerationSettings, ModelChoice

_LONGEST_ANSWER = 64
_BATCH = 40


def write_scenes(folder: Path, scenes: Sequence[Scene], workers: int) -> list[Sample]:
    """Every scene as an event recording and a video below ``folder``."""
    folders = [folder / f"{index:04d}" for index in range(len(scenes))]
    if workers > 1:
        with ProcessPoolExecutor(workers) as pool:
            paths = list(pool.map(write_scene, folders, scenes, chunksize=8))
    else:
        paths = [write_scene(*pair) for pair in zip(folders, scenes, strict=True)]
    return [Sample(events_path=str(events), video_path=str(video)) for events, video in paths]


def load(folder: Path, role: str) -> VisionLanguageModel:
    """A checkpoint as the product loads it, in float32 on the CPU."""
    return load_model(ModelChoice(str(folder), "cpu", "float32"), role, lambda done, total: None, Event())


class Witness:
    """A model that has seen some samples and can be asked about them."""

    def __init__(self, model: VisionLanguageModel, role: str, samples: Sequence[Sample]) -> None:
        self.model = model
        self.language = model.language_model
        self.template = EVENTGPT_V1 if role == DRAFT else VideoLlavaFamily.template
        self.visual = torch.stack([self._look(sample) for sample in samples])

    @torch.no_grad()
    def _look(self, sample: Sample) -> torch.Tensor:
        """[V, hidden]: stages load, preprocess and vision."""
        model, settings, clock = self.model, GenerationSettings(), NullClock()
        host = model.load(sample, settings, clock)
        return model.encode_vision(model.preprocess(host, "?", settings, clock), clock)

    @torch.no_grad()
    def prompt(self, question: str, scene: int) -> torch.Tensor:
        """[1, S, hidden] embeddings of a question about one sample."""
        ids = prompt_ids(self.model.vocabulary, self.template, question).ids
        text = torch.tensor([index for index in ids if index != SLOT])
        return splice(self.language.embed(text), self.visual[scene], [ids.index(SLOT)])

    def answers(self, question: str) -> list[str]:
        """The greedy answer for every sample."""
        scenes = range(len(self.visual))
        batches = [scenes[start : start + _BATCH] for start in range(0, len(scenes), _BATCH)]
        return [text for batch in batches for text in self._answer_batch(question, batch)]

    @torch.no_grad()
    def _answer_batch(self, question: str, scenes: Sequence[int]) -> list[str]:
        language, vocabulary = self.language, self.model.vocabulary
        embeddings = torch.cat([self.prompt(question, scene) for scene in scenes])
        cache = DynamicKv(len(language.layers))
        logits = language(embeddings, cache)
        rows: list[list[int]] = [[] for _ in scenes]
        open_rows = set(range(len(scenes)))
        while open_rows and len(rows[0]) < _LONGEST_ANSWER:
            chosen = logits[:, -1].argmax(dim=-1)
            for row, token in enumerate(chosen.tolist()):
                rows[row].append(token)
                if token in vocabulary.eos_ids:
                    open_rows.discard(row)
            logits = language(language.embed(chosen[:, None]), cache)
        return [vocabulary.decode(_until_end(row, vocabulary.eos_ids)) for row in rows]


def _until_end(ids: Sequence[int], eos_ids: frozenset[int]) -> list[int]:
    end = next((place for place, token in enumerate(ids) if token in eos_ids), len(ids))
    return list(ids[:end])
