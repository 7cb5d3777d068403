"""Collects examples over a list of samples into a folder, a shard at a time, and goes on after any interruption.

Who makes them is an `ExampleSource`; how they are stored, `stored_examples`'.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from engines.training.collect_plan import CollectPlan
from engines.training.example import Example
from engines.training.example_maker import Content, ExamplesHere, ExampleSource, Made, Row
from engines.training.stored_examples import StoredExamples, nbytes_of, write_shard
from evprof.core.errors import Cancelled, UserError
from evprof.core.protocols import StopFlag
from evprof.core.sample import Sample
from evprof.loaders.collection import SHARD_BYTES, SHARD_EXAMPLES, CollectedExample, Shard, shard_name
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
    """One call of `run` each. `source` makes the examples: by default this process."""

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
        """Collects what is not there yet; a set `stop` ends it between two tokens, with all that was collected kept.

        Raises UserError when models cannot be loaded or nothing can be written.
        """
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
                    self._keep(made, journal)
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
        """Rows that have no example yet."""
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

    def _keep(self, made: Made, journal: CollectionJournal) -> None:
        if made.error is not None:
            self._end.failed[made.row.sample.name] = made.error
            journal.fail(made.row.key, made.error)
        elif made.example is None or made.told is None:
            self._end.repeated += 1
        else:
            self._seen.add((made.told.scene, made.told.prompt))
            self._take(made.example, made.told, journal)

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
