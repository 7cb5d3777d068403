"""Examples made at the places of a Ray cluster, which come back through the one folder that all machines see."""

from __future__ import annotations

import contextlib
import os
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import replace
from pathlib import Path
from typing import Any

from engines.training.collect_plan import CollectPlan
from engines.training.collecting import Content, Made, Row
from engines.training.collecting_seat import CollectingSeat, PieceAnswer, PieceOfWork
from engines.training.example import StoredExamples
from evprof.core.errors import Cancelled, UserError
from evprof.core.protocols import Closing, StopFlag
from evprof.loaders.collection import Collection
from evprof.run.collection_journal import ARRIVING, check_folder, unwritable
from evprof.run.places.ray_cluster import omp_threads
from evprof.run.places.ray_places import Done, anywhere, check_seen
from evprof.version import __version__


class ClusterExamples(Closing):
    def __init__(self, cluster: Any, slots: Sequence[Any], plan: CollectPlan, threads: int | None) -> None:
        self._cluster = cluster
        self._slots = list(slots)[: len(plan.samples)]
        self._plan = plan
        self._threads = omp_threads(self._slots[0], threads)
        self._crew: Any = None
        self._settings: dict[str, Any] = {}

    def settings(self, say: Callable[[str], None], stop: StopFlag) -> dict[str, Any]:
        """Has every place load the models. Raises UserError where one cannot, or has others than the first."""
        # Before there are workers: those take the GPUs that asking would need.
        folder = self._plan.folder
        check_folder(folder)
        if self._cluster.elsewhere(self._slots):
            try:
                folder.mkdir(parents=True, exist_ok=True)
                check_seen(self._cluster, self._slots, folder)
            except OSError as error:
                raise unwritable(folder, error) from None
        neighbours = max(Counter(slot.node_id for slot in self._slots).values())
        there = replace(
            self._plan,
            samples=[anywhere(sample) for sample in self._plan.samples[:1]],
            folder=self._plan.folder.absolute(),
        )
        self._crew = self._cluster.crew(self._slots, CollectingSeat, there, self._threads, neighbours)
        answers: list[PieceAnswer] = []
        told: set[str] = set()
        for done in self._crew.done([PieceOfWork() for _ in self._slots], stop):
            if done is None or stop.is_set():
                continue
            if done.answer is None:
                raise UserError(f"A place of the cluster could not load the models: {done.lost}.")
            _check(done.answer, answers)
            answers.append(done.answer)
            for sentence in done.answer.warnings:
                if sentence not in told:
                    told.add(sentence)
                    say(sentence)
        if stop.is_set():
            raise Cancelled
        self._settings = answers[0].settings or {}
        return self._settings

    def made(self, rows: Sequence[Row], seen: Set[Content], stop: StopFlag) -> Iterator[Made]:
        left, arrived = deque(rows), dict[str, Done[PieceOfWork]]()
        problem: UserError | None = None
        try:
            for done in self._crew.done([PieceOfWork(row.key, anywhere(row.sample)) for row in rows], stop):
                if done is None or (done.answer is None and stop.is_set()):
                    continue
                if done.answer is not None and done.answer.is_fatal:
                    raise UserError(f"{done.answer.place}: {done.answer.error}")
                if done.answer is None or not done.answer.is_stopped:
                    arrived[done.task.key] = done
                while left and left[0].key in arrived:
                    row = left.popleft()
                    yield self._taken(row, arrived.pop(row.key), seen)
        except UserError as error:
            problem = error
            self.close()
        for row in left:
            if row.key in arrived:
                yield self._taken(row, arrived.pop(row.key), seen)
        if problem is not None:
            raise problem
        if stop.is_set():
            raise Cancelled

    def _taken(self, row: Row, done: Done[PieceOfWork], seen: Set[Content]) -> Made:
        if done.answer is None:
            return Made(row, error=done.lost)
        shard = done.answer.shard
        if shard is None:
            return Made(row, error=done.answer.error)
        told = replace(shard.examples[0], sample=row.sample.facts())
        found = Made(row)
        if (told.scene, told.prompt) not in seen:
            stored = StoredExamples(Collection(self._arriving, self._settings), [(shard, 0, told)])
            found = Made(row, stored[0], told)
        with contextlib.suppress(OSError):
            os.unlink(self._arriving / shard.file)
        return found

    @property
    def _arriving(self) -> Path:
        return self._plan.folder / ARRIVING

    def close(self) -> None:
        if self._crew is not None:
            self._crew.close()


def _check(answer: PieceAnswer, before: Sequence[PieceAnswer]) -> None:
    """Raises UserError for a place that could not load the models, or would make other examples than the first."""
    if answer.error is not None:
        raise UserError(f"{answer.place}: {answer.error}")
    if answer.evprof != __version__:
        raise UserError(f"{answer.place} has evprof {answer.evprof}, and here is {__version__}; install the same.")
    if not before or answer.settings == before[0].settings:
        return
    here, there = before[0].settings or {}, answer.settings or {}
    names = [name.replace("_", " ") for name in here if here[name] != there.get(name)]
    raise UserError(
        f"{answer.place} has another {' and '.join(names)} than {before[0].place}; see to it that all machines have "
        "the same under one name."
    )
