"""A shipped model in front of held-out scenes: files through its first three stages, then many questions at once."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
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

_LONGEST_ANSWER = 96
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


@dataclass(frozen=True, slots=True)
class Said:
    """An answer: its text, its tokens with the end, and how many bits the model left open at each of them."""

    text: str
    ids: tuple[int, ...]
    bits: tuple[float, ...]


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

    def answers(
        self, question: str, scenes: Sequence[int] | None = None, sampled: torch.Generator | None = None
    ) -> list[Said]:
        """The answer for every sample, or some: the likeliest tokens, or drawn at temperature 1 with `sampled`."""
        asked = range(len(self.visual)) if scenes is None else scenes
        batches = [asked[start : start + _BATCH] for start in range(0, len(asked), _BATCH)]
        return [said for batch in batches for said in self._answer_batch(question, batch, sampled)]

    @torch.no_grad()
    def _answer_batch(self, question: str, scenes: Sequence[int], sampled: torch.Generator | None) -> list[Said]:
        language, vocabulary = self.language, self.model.vocabulary
        embeddings = torch.cat([self.prompt(question, scene) for scene in scenes])
        cache = DynamicKv(len(language.layers))
        logits = language(embeddings, cache)
        ids: list[list[int]] = [[] for _ in scenes]
        bits: list[list[float]] = [[] for _ in scenes]
        open_rows = set(range(len(scenes)))
        for _ in range(_LONGEST_ANSWER):
            shares = logits[:, -1].double().softmax(dim=-1)
            entropy = -(shares * shares.clamp_min(1e-300).log2()).sum(dim=-1)
            if sampled is None:
                chosen = logits[:, -1].argmax(dim=-1)
            else:
                chosen = torch.multinomial(shares, 1, generator=sampled)[:, 0]
            for row in tuple(open_rows):
                ids[row].append(int(chosen[row]))
                bits[row].append(float(entropy[row]))
                if ids[row][-1] in vocabulary.eos_ids:
                    open_rows.discard(row)
            if not open_rows:
                break
            logits = language(language.embed(chosen[:, None]), cache)
        return [
            Said(vocabulary.decode(_until_end(row, vocabulary.eos_ids)), tuple(row), tuple(spread))
            for row, spread in zip(ids, bits, strict=True)
        ]


def _until_end(ids: Sequence[int], eos_ids: frozenset[int]) -> list[int]:
    end = next((place for place, token in enumerate(ids) if token in eos_ids), len(ids))
    return list(ids[:end])
