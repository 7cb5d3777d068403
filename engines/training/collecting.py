"""Collects examples over a list of samples into a folder, one shard at a time, and continues after an interruption."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, Protocol

import torch

from engines.fit.verdict import make_room
from engines.hardware.device import Machine, use_threads
from engines.loading.warm_models import Loader, WarmModels
from engines.loading.weights import content_identity, load_model
from engines.stages.model import VisionLanguageModel
from engines.training.collect_plan import CollectPlan
from engines.training.example import Example, Observer, StoredExamples, nbytes_of, write_shard
from evprof.core.errors import Cancelled, UserError
from evprof.core.protocols import StopFlag
from evprof.core.records import DRAFT, TARGET
from evprof.core.sample import Sample
from evprof.core.vocabulary.generation import ModelChoice
from evprof.loaders.collection import SHARD_BYTES, SHARD_EXAMPLES, CollectedExample, Shard, scene_of, shard_name
from evprof.run.collection_journal import CollectionJournal, row_key

Content = tuple[str, str]


@dataclass(frozen=True)
class Row:
    key: str
    sample: Sample


@dataclass(frozen=True)
class Made:
    row: Row
    example: Example | None = None
    told: CollectedExample | None = None
    error: str | None = None


class ExampleSource(Protocol):
    def settings(self, say: Callable[[str], None], stop: StopFlag) -> dict[str, Any]:
        """Loads the models; what decides examples apart from the samples. Raises UserError and Cancelled."""

    def made(self, rows: Sequence[Row], seen: Set[Content], stop: StopFlag) -> Iterator[Made]:
        """What became of each row, in their order. `seen` grows meanwhile. Raises UserError, Cancelled once stopped."""


@dataclass(eq=False)
class ExamplesHere:
    plan: CollectPlan
    _: KW_ONLY
    loader: Loader = load_model
    identity: Callable[[ModelChoice], str] = content_identity
    needs_room: bool = True
    machine: Machine | None = None
    _observer: Observer | None = field(default=None, init=False)

    def settings(self, say: Callable[[str], None], stop: StopFlag) -> dict[str, Any]:
        plan, warm = self.plan, WarmModels(self.loader)
        if self.needs_room:
            make_room(plan.request(), tuple(plan.choices), warm, machine=self.machine)
        models = {role: warm.get(choice, role, lambda *_: None, stop).model for role, choice in plan.choices.items()}
        for model in models.values():
            for sentence in model.warnings:
                say(sentence)
        use_threads(models.values())
        layers = plan.layers_of(_layer_count(models[TARGET]))
        self._observer = Observer(models[TARGET], models.get(DRAFT), plan.settings, layers)
        return collection_settings(plan, models, self.identity)

    def made(self, rows: Sequence[Row], seen: Set[Content], stop: StopFlag) -> Iterator[Made]:
        for row in rows:
            if stop.is_set():
                raise Cancelled
            yield self.example(row, seen, stop)

    def example(self, row: Row, seen: Set[Content], stop: StopFlag) -> Made:
        """One of them. Raises UserError when memory ran out, and Cancelled."""
        if self._observer is None:
            raise RuntimeError("models are loaded before examples are made")
        plan, sample = self.plan, row.sample
        try:
            scene = scene_of(sample, has_draft=plan.draft is not None)
            if (scene, sample.prompt) in seen:
                return Made(row)
            example = self._observer.example(sample, stop)
            if plan.keeps_positions:
                example = example.shortened(plan.positions)
        except UserError as problem:
            return Made(row, error=problem.sentence)
        except (torch.OutOfMemoryError, MemoryError):
            raise UserError(
                f"Memory ran out at sample '{sample.name}'; ask for fewer --frames or another --device; the same "
                "command then goes on."
            ) from None
        return Made(row, example, _told(example, row, scene))


def _told(example: Example, row: Row, scene: str) -> CollectedExample:
    return CollectedExample(
        example.name,
        row.key,
        scene,
        example.prompt,
        int(example.answer_ids.shape[0]),
        example.target_prompt,
        example.target_visual,
        example.draft_visual,
        row.sample.facts(),
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
        **({"layers": list(layers)} if (layers := plan.layers_of(_layer_count(models[TARGET]))) else {}),
    }


def _layer_count(model: VisionLanguageModel) -> int:
    return model.language_model.config.num_hidden_layers


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


FLUSH_S = 30.0
"""A kill costs at most what was collected in so long."""


class CollectingWatcher(Protocol):
    def begin(self, total: int, done_before: int) -> None:
        """So many are to be made, of which some are there."""

    def end(self, name: str, error: str | None = None) -> None:
        """One was made, or could not be."""

    def say(self, sentence: str) -> None:
        """Something a person should know."""


@dataclass
class CollectEnd:
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
    def __init__(
        self,
        plan: CollectPlan,
        source: ExampleSource | None = None,
        *,
        shard_examples: int = SHARD_EXAMPLES,
        flush_s: float = FLUSH_S,
    ) -> None:
        """Raises UserError without samples, and for settings that mean nothing."""
        if not plan.samples:
            raise UserError("There is no sample to collect from; is the list empty?")
        plan.request()
        self._plan = plan
        self._source = source or ExamplesHere(plan)
        self._shard_examples, self._flush_s = shard_examples, flush_s
        self._end = CollectEnd()
        self._open: list[tuple[Example, CollectedExample]] = []
        self._number = 0
        self._flushed_at = time.monotonic()
        self._unwritten = 0
        self._seen: set[Content] = set()

    def run(self, watcher: CollectingWatcher, stop: StopFlag) -> CollectEnd:
        """Collects what is missing until `stop`, keeping all that was collected. Raises UserError if models cannot be
        loaded or nothing can be written."""
        plan, end = self._plan, self._end
        try:
            settings = self._source.settings(watcher.say, stop)
        except Cancelled:
            end.is_stopped = True
            return end
        with CollectionJournal(plan.folder, settings, overwrite=plan.overwrite) as journal:
            try:
                self._take_up(journal)
                for made in self._source.made(self._left(journal, watcher), self._seen, stop):
                    if made.error is not None:
                        self._end.failed[made.row.sample.name] = made.error
                        journal.fail(made.row.key, made.error)
                    elif made.example is None or made.told is None:
                        self._end.repeated += 1
                    else:
                        self._seen.add((made.told.scene, made.told.prompt))
                        self._take(made.example, made.told, journal)
                    watcher.end(made.row.sample.name, made.error)
            except Cancelled:
                end.is_stopped = True
            finally:
                self._write(journal)
            self._conclude(journal)
        return end

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

    def _left(self, journal: CollectionJournal, watcher: CollectingWatcher) -> list[Row]:
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
        return [Row(key, sample) for key, sample in left.items()]

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
            path = self._plan.folder / shard_name(self._number)
            journal.add(write_shard(path, examples, told, is_full=is_full))
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
