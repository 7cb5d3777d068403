"""Collects examples over a list of samples into a folder, a shard at a time, and goes on after any interruption.

What an example is, is `observing`'s; how it is stored, `stored_examples`'.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import torch

from engines.fit.making_room import make_room
from engines.hardware.threads import use_threads
from engines.loading.model_identity import content_identity
from engines.loading.warm_models import Loader, WarmModels
from engines.loading.weights import load_model
from engines.stages.model import VisionLanguageModel
from engines.training.example import Example
from engines.training.observing import Observer
from engines.training.stored_examples import StoredExamples, nbytes_of, write_shard
from evprof.core.errors import Cancelled, UserError
from evprof.core.protocols import StopFlag
from evprof.core.records import DRAFT, TARGET
from evprof.core.request import RunRequest
from evprof.core.sample import Sample
from evprof.core.vocabulary.generation import GenerationSettings, ModelChoice
from evprof.core.vocabulary.modes import SPECULATIVE
from evprof.loaders.collection import SHARD_BYTES, SHARD_EXAMPLES, CollectedExample, Shard, scene_of
from evprof.run.collection_journal import CollectionJournal, row_key

FLUSH_S = 30.0
"""A kill costs at most what was collected in so long."""


class CollectingWatcher(Protocol):
    """Who is told how the work goes."""

    def begin(self, total: int, done_before: int) -> None:
        """So many are to be made, of which some are there."""

    def end(self, name: str, error: str | None = None) -> None:
        """One was made, or could not be."""

    def say(self, sentence: str) -> None:
        """Something a person should know."""


@dataclass(frozen=True)
class CollectPlan:
    """What is collected of whom; without a `draft` only the target's part, and of its prompt the last `positions` (0:
    all)."""

    samples: Sequence[Sample]
    target: ModelChoice
    draft: ModelChoice | None
    settings: GenerationSettings
    folder: Path
    overwrite: bool = False
    positions: int = 0

    @property
    def keeps_positions(self) -> bool:
        """Whether only the prompt's end is kept: what a draft takes part in looks at all of it."""
        return self.draft is None and self.positions > 0

    def request(self) -> RunRequest:
        """The pair as one run asks for it: what must fit in memory. Raises UserError for settings that mean nothing."""
        mode = TARGET if self.draft is None else SPECULATIVE
        request = RunRequest(mode, self.samples[0], self.draft, self.target, self.settings)
        self.settings.validate()
        for role, choice in ((DRAFT, self.draft), (TARGET, self.target)):
            if choice is not None:
                choice.validate(role)
        return request


@dataclass
class CollectEnd:
    """What there is afterwards: `examples` in all, of which `before` were there; `failed` by name of the sample;
    `repeated` rows have the content and question of another."""

    examples: int = 0
    before: int = 0
    repeated: int = 0
    shards: int = 0
    tokens: int = 0
    bytes: int = 0
    failed: dict[str, str] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    is_stopped: bool = False


class Collecting:
    """One call of `run` each. `loader` brings models; tests bring their own."""

    def __init__(
        self,
        plan: CollectPlan,
        *,
        loader: Loader = load_model,
        identity: Callable[[ModelChoice], str] = content_identity,
        needs_room: bool = True,
        shard_examples: int = SHARD_EXAMPLES,
        flush_s: float = FLUSH_S,
    ) -> None:
        """Raises UserError without samples, and for settings that mean nothing."""
        if not plan.samples:
            raise UserError("There is no sample to collect from; is the list empty?")
        self._plan = plan
        self._request = plan.request()
        self._loader = loader
        self._identity = identity
        self._needs_room = needs_room
        self._shard_examples, self._flush_s = shard_examples, flush_s
        self._end = CollectEnd()
        self._open: list[tuple[Example, CollectedExample]] = []
        self._number = 0
        self._flushed_at = time.monotonic()
        self._unwritten = 0
        self._seen: set[tuple[str, str]] = set()

    def run(self, watcher: CollectingWatcher, stop: StopFlag) -> CollectEnd:
        """Collects what is not there yet; a set `stop` ends it between two tokens, with all that was collected kept.

        Raises UserError when models cannot be loaded or nothing can be written.
        """
        plan, end = self._plan, self._end
        try:
            models = self._models(watcher, stop)
        except Cancelled:
            end.is_stopped = True
            return end
        settings = collection_settings(plan, models, self._identity)
        with CollectionJournal(plan.folder, settings, overwrite=plan.overwrite) as journal:
            try:
                self._take_up(journal)
                left = self._left(journal, watcher)
                observer = Observer(models[TARGET], models.get(DRAFT), plan.settings)
                for key, sample in left:
                    if stop.is_set():
                        raise Cancelled
                    watcher.end(sample.name, self._collect(key, sample, observer, journal, stop))
            except Cancelled:
                end.is_stopped = True
            finally:
                self._write(journal)
            self._conclude(journal)
        return end

    def _models(self, watcher: CollectingWatcher, stop: StopFlag) -> dict[str, VisionLanguageModel]:
        plan = self._plan
        warm = WarmModels(self._loader)
        choices = {TARGET: plan.target, **({} if plan.draft is None else {DRAFT: plan.draft})}
        if self._needs_room:
            make_room(self._request, tuple(choices), warm)
        models = {role: warm.get(choice, role, lambda *_: None, stop).model for role, choice in choices.items()}
        for model in models.values():
            for sentence in model.warnings:
                watcher.say(sentence)
        use_threads(models.values())
        return models

    def _take_up(self, journal: CollectionJournal) -> None:
        """The last shard, if it is not full: its examples are gone on with, so that shards come out as in one go."""
        self._seen = {(told.scene, told.prompt) for told in journal.collection.examples}
        shards = list(journal.collection.shards.values())
        self._number = len(shards)
        if not shards or shards[-1].is_full:
            return
        self._number -= 1
        last = shards[-1]
        places = [(last, number, told) for number, told in enumerate(last.examples)]
        stored = StoredExamples(journal.collection, places)
        self._open = list(zip(stored, last.examples, strict=True))

    def _left(self, journal: CollectionJournal, watcher: CollectingWatcher) -> list[tuple[str, Sample]]:
        """Rows that have no example yet, with their keys."""
        known = {example.key for example in journal.collection.examples}
        left: dict[str, Sample] = {}
        counted: set[str] = set()
        end = self._end
        for sample in self._plan.samples:
            try:
                key = row_key(sample)
            except OSError:
                key = row_key(replace(sample, events_path=None, video_path=None), sample.name)
            if key in counted or key in left:
                end.repeated += 1
            elif key in known:
                end.before += 1
                counted.add(key)
            else:
                left[key] = sample
        watcher.begin(end.before + len(left), end.before)
        return list(left.items())

    def _collect(
        self, key: str, sample: Sample, observer: Observer, journal: CollectionJournal, stop: StopFlag
    ) -> str | None:
        """Makes one example; returns why there is none, where there is none."""
        try:
            scene = scene_of(sample, has_draft=self._plan.draft is not None)
            if (scene, sample.prompt) in self._seen:
                self._end.repeated += 1
                return None
            example = observer.example(sample, stop)
            if self._plan.keeps_positions:
                example = example.shortened(self._plan.positions)
        except UserError as problem:
            self._end.failed[sample.name] = problem.sentence
            journal.fail(key, problem.sentence)
            return problem.sentence
        except (torch.OutOfMemoryError, MemoryError):
            raise UserError(
                f"Memory ran out at sample '{sample.name}'; ask for fewer --frames or another --device; the same "
                "command then goes on."
            ) from None
        self._seen.add((scene, sample.prompt))
        self._take(example, _told(example, key, scene, sample), journal)
        return None

    def _take(self, example: Example, told: CollectedExample, journal: CollectionJournal) -> None:
        self._open.append((example, told))
        self._unwritten += 1
        size = sum(nbytes_of(held) for held, _ in self._open)
        if len(self._open) >= self._shard_examples or size >= SHARD_BYTES:
            self._write(journal, is_full=True)
        elif time.monotonic() - self._flushed_at >= self._flush_s:
            self._write(journal)

    def _write(self, journal: CollectionJournal, *, is_full: bool = False) -> None:
        if self._unwritten:
            examples, told = [held for held, _ in self._open], [each for _, each in self._open]
            journal.add(write_shard(self._plan.folder, self._number, examples, told, is_full=is_full))
            self._unwritten = 0
        self._flushed_at = time.monotonic()
        if is_full:
            self._open, self._number = [], self._number + 1

    def _conclude(self, journal: CollectionJournal) -> None:
        found, end = journal.collection, self._end
        examples = found.examples
        shards: list[Shard] = list(found.shards.values())
        end.settings = found.settings
        end.examples, end.shards = len(examples), len(shards)
        end.tokens, end.bytes = sum(each.tokens for each in examples), sum(shard.bytes for shard in shards)


def _told(example: Example, key: str, scene: str, sample: Sample) -> CollectedExample:
    return CollectedExample(
        example.name,
        key,
        scene,
        example.prompt,
        int(example.answer_ids.shape[0]),
        example.target_prompt,
        example.target_visual,
        example.draft_visual,
        sample.facts(),
    )


def collection_settings(
    plan: CollectPlan,
    models: dict[str, VisionLanguageModel],
    identity: Callable[[ModelChoice], str] = content_identity,
) -> dict[str, Any]:
    """What decides examples apart from the samples: equal for collections that may be one."""
    settings = plan.settings
    return {
        "target": _model(models[TARGET], plan.target, identity),
        "draft": None if plan.draft is None else _model(models[DRAFT], plan.draft, identity),
        "max_new_tokens": settings.max_new_tokens,
        "frames": settings.frames,
        "event_frames": settings.event_frames,
        **({"positions": plan.positions} if plan.keeps_positions else {}),
    }


def _model(model: VisionLanguageModel, choice: ModelChoice, identity: Callable[[ModelChoice], str]) -> dict[str, Any]:
    text = model.language_model
    return {
        "name": choice.name,
        "identity": identity(choice),
        "family": model.facts.family,
        "hidden_size": text.config.hidden_size,
        "rows": text.rows,
        "dtype": model.facts.dtype,
    }
