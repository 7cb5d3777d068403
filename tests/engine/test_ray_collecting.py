"""Examples collected by a Ray cluster of this machine: those of one process, whatever dies on the way."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from engines.training.cluster_examples import ClusterExamples
from engines.training.collect_plan import CollectPlan
from engines.training.collecting import CollectEnd, Collecting
from engines.training.collecting_seat import PieceAnswer
from evprof.core.sample import Sample
from evprof.core.vocabulary.generation import GenerationSettings, ModelChoice
from evprof.loaders.bundled import bundled_samples
from evprof.loaders.collection import read_collection
from evprof.run.collection_journal import LOCK
from evprof.run.demo import BUNDLED_DRAFT, BUNDLED_TARGET
from evprof.run.places.crew import Done
from evprof.run.places.ray_cluster import LOCAL, RayCluster
from processes_below import processes_named

ACTOR = "ray::CollectingSeat"
SETTINGS = GenerationSettings(max_new_tokens=5, frames=2, event_frames=2)
TARGET, DRAFT = (ModelChoice(name, "cpu", "float32") for name in (BUNDLED_TARGET, BUNDLED_DRAFT))


@pytest.fixture(scope="module")
def cluster() -> Iterator[RayCluster]:
    with RayCluster(LOCAL, lambda _: None, cpus=2) as found:
        yield found


@pytest.fixture(scope="module")
def samples() -> list[Sample]:
    """Every bundled scene, asked four questions; the fifth row has the content and question of the first."""
    found = [
        replace(sample, prompt=prompt, name=f"{sample.name}: {prompt}")
        for sample in bundled_samples()
        for prompt in ("What is it?", "Is it day?", "What moves?", "Who is there?")
    ]
    return [*found[:4], replace(found[0], name="again"), *found[4:]]


class Listener:
    """Does something once so many have ended."""

    def __init__(self, then: Callable[[int], None] = lambda _: None) -> None:
        self.then = then
        self.began: tuple[int, int] | None = None
        self.ended: list[str] = []

    def begin(self, total: int, done_before: int) -> None:
        self.began = total, done_before

    def end(self, name: str, error: str | None = None) -> None:
        self.ended.append(name)
        self.then(len(self.ended))

    def say(self, sentence: str) -> None:
        pass


def collect(
    folder: Path,
    samples: list[Sample],
    cluster: RayCluster | None = None,
    watcher: Listener | None = None,
    stop: threading.Event | None = None,
) -> CollectEnd:
    plan = CollectPlan(samples, TARGET, DRAFT, SETTINGS, folder)
    told = watcher or Listener(), stop or threading.Event()
    if cluster is None:
        return Collecting(plan, shard_examples=5).run(*told)
    slots = cluster.slots(1, on_gpus=False)
    assert len(slots) == 2
    with ClusterExamples(cluster, slots, plan, 1) as source:
        return Collecting(plan, source, shard_examples=5).run(*told)


def kill_one(count: int) -> None:
    if count == 1:
        found = processes_named(ACTOR)
        os.kill(found[0].pid, signal.SIGKILL)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.name != LOCK}


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory, samples: list[Sample]) -> Path:
    folder = tmp_path_factory.mktemp("alone")
    collect(folder, samples)
    return folder


@pytest.mark.whole
def test_two_workers_of_which_one_dies_leave_the_examples_of_one_process(cluster, samples, alone, tmp_path) -> None:
    watcher = Listener(kill_one)
    end = collect(tmp_path, samples, cluster, watcher)
    assert (end.examples, end.failed, end.is_stopped) == (12, {}, False)
    assert watcher.ended == list(dict.fromkeys(watcher.ended))
    # Every byte: tensors, their order, and what the journal tells of them.
    assert contents(tmp_path) == contents(alone)
    assert len(contents(alone)) == 4


@pytest.mark.whole
def test_a_stop_keeps_what_was_collected_and_the_same_call_goes_on(cluster, samples, alone, tmp_path) -> None:
    """A row that fails stops no other. The copy has other paths, so that it is another row, and is found out by its
    content alone."""
    broken, copied, data = tmp_path / "broken.mp4", tmp_path / "copied.mp4", tmp_path / "data"
    broken.write_bytes(b"no video")
    copied.write_bytes(Path(samples[0].video_path or "").read_bytes())
    failing = replace(samples[1], video_path=str(broken), name="broken")
    rows = [samples[0], failing, replace(samples[0], video_path=str(copied), name="copy"), *samples[1:]]
    stop = threading.Event()
    end = collect(data, rows, cluster, Listener(lambda count: stop.set() if count == 4 else None), stop)
    assert end.is_stopped
    assert 2 <= end.examples < 12
    watcher = Listener()
    again = collect(data, rows, cluster, watcher)
    assert watcher.began is not None
    assert watcher.began[0] == 14
    assert (again.examples, again.before, again.repeated, list(again.failed)) == (12, end.examples, 2, ["broken"])
    found = read_collection(data).examples
    assert {each.key for each in found} == {each.key for each in read_collection(alone).examples}
    assert not {"broken", "copy"} & {each.name for each in found}
    assert collect(data, rows[2:4]).repeated == 1


class Scripted:
    """A cluster of machines elsewhere, whose places answer what they are told to."""

    def __init__(self, *answers: PieceAnswer, sees: bool = True) -> None:
        self.answers, self.sees = answers, sees

    def elsewhere(self, slots: list[SimpleNamespace]) -> list[SimpleNamespace]:
        return slots

    def ask(self, *_: object) -> bool:
        return self.sees

    def crew(self, *_: object) -> Scripted:
        return self

    def done(self, pieces: list[object], _: object) -> Iterator[Done[object]]:
        return (Done(piece, answer) for piece, answer in zip(pieces, self.answers, strict=False))

    def close(self) -> None:
        pass


def source(cluster: Scripted, samples: list[Sample], folder: Path) -> ClusterExamples:
    slots = [SimpleNamespace(node_id=host, host=host, gpus=1, threads=0) for host in ("node1", "node7")]
    return ClusterExamples(cluster, slots, CollectPlan(samples, TARGET, DRAFT, SETTINGS, folder), None)
