"""Examples are collected, stored and read back, here and on a cluster."""

from __future__ import annotations

import json
import os
import shutil
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from closeness import assert_close
from engines.training.cluster_examples import ClusterExamples
from engines.training.collect_plan import CollectPlan
from engines.training.collecting import CollectEnd, Collecting, ExamplesHere
from engines.training.collecting_seat import PieceAnswer
from engines.training.example import StoredExamples, forced_features
from evprof.core.errors import UserError
from evprof.core.files.held_file import HeldFile
from evprof.core.sample import Sample
from evprof.core.vocabulary.generation import GenerationSettings, ModelChoice
from evprof.loaders.bundled import bundled_samples
from evprof.loaders.collection import JOURNAL, read_collection
from evprof.run.collection_journal import LOCK
from evprof.run.places.ray_cluster import LOCAL, RayCluster
from evprof.run.places.ray_places import Done
from evprof.run.requests import BUNDLED_DRAFT, BUNDLED_TARGET
from processes_below import processes_named

NEW_TOKENS = 5
SETTINGS = GenerationSettings(max_new_tokens=NEW_TOKENS, frames=2, event_frames=2)
TARGET, DRAFT = ModelChoice("target", "cpu", "float32"), ModelChoice("draft", "cpu", "float32")


class Listener:
    """A watcher that may do something after each example."""

    def __init__(self, then: Callable[[int], None] = lambda _: None) -> None:
        self.then = then
        self.began: tuple[int, int] | None = None
        self.ended: list[tuple[str, str | None]] = []
        self.said: list[str] = []

    def begin(self, total: int, done_before: int) -> None:
        self.began = total, done_before

    def end(self, name: str, error: str | None = None) -> None:
        self.ended.append((name, error))
        self.then(len(self.ended))

    def say(self, sentence: str) -> None:
        self.said.append(sentence)


@pytest.fixture(scope="module")
def samples() -> list[Sample]:
    """Three scenes, each asked two questions."""
    return [
        replace(sample, prompt=prompt, name=f"{sample.name}: {prompt}")
        for sample in bundled_samples()
        for prompt in ("What is it?", "Is it day?")
    ]


@pytest.fixture
def collect(tiny_models: Any) -> Callable[..., CollectEnd]:
    def run(
        folder: Path,
        samples: list[Sample],
        watcher: Listener | None = None,
        stop: Any = None,
        *,
        draft: ModelChoice | None = DRAFT,
        settings: GenerationSettings = SETTINGS,
        flush_s: float = 1000.0,
        overwrite: bool = False,
        positions: int = 0,
        layers: str = "",
    ) -> CollectEnd:
        plan = CollectPlan(samples, TARGET, draft, settings, folder, overwrite, positions, layers)
        source = ExamplesHere(plan, loader=tiny_models, identity=lambda choice: f"the {choice.name}", needs_room=False)
        return Collecting(plan, source, shard_examples=4, flush_s=flush_s).run(
            watcher or Listener(), stop or threading.Event()
        )

    return run


def shards_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.glob("shard-*"))}


def test_an_example_is_what_both_models_said_and_thought(collect, tiny_models, samples, tmp_path) -> None:
    end = collect(tmp_path / "data", samples[:2])
    assert (end.examples, end.before, end.failed, end.shards) == (2, 0, {}, 1)
    example = StoredExamples(read_collection(tmp_path / "data"))[0]
    load = lambda role: tiny_models(TARGET, role, lambda *_: None, threading.Event())  # noqa: E731
    target, draft = load("target"), load("draft")
    count, prompt = len(example.answer_ids), example.target_prompt
    assert count == NEW_TOKENS
    assert example.target_features.shape == (prompt + count - 1, 32)
    with torch.inference_mode():
        # The states are those the answer came from …
        logits = target.language_model.head(example.target_features[None, prompt - 1 :])
        assert torch.equal(logits[0].argmax(-1), example.answer_ids)
        # … and those of one pass over prompt and answer.
        again = forced_features(
            target.language_model, example.target_embeddings[None], example.answer_ids[:-1].tolist()
        )
        assert_close(again[0], example.target_features)
        fed = [token if token < 32_000 else 0 for token in example.answer_ids[:-1].tolist()]
        drafted = forced_features(draft.language_model, example.draft_embeddings[None], fed)
        assert_close(drafted[0], example.draft_features)
        first, visual = example.target_visual
        text = torch.cat([example.target_embeddings[:first], example.target_embeddings[first + visual :]])
        assert torch.equal(text, target.language_model.embed(example.text_ids))


def test_collecting_the_target_alone(collect, samples, tmp_path) -> None:
    collect(tmp_path / "data", [replace(samples[0], events_path=None)], draft=None)
    example = StoredExamples(read_collection(tmp_path / "data"))[0]
    assert example.draft_features is example.draft_embeddings is example.draft_visual is None
    end = collect(tmp_path / "pair", [replace(samples[0], events_path=None)])
    assert end.examples == 0
    assert "has none" in end.failed[samples[0].name]


@pytest.mark.parametrize(("killed_after", "flush_s"), [(2, 0.0), (5, 0.0), (5, 1000.0)])
def test_a_killed_collection_goes_on_to_the_same_shards(collect, samples, tmp_path, killed_after, flush_s) -> None:
    whole, left = tmp_path / "whole", tmp_path / "left"

    def kill(count: int) -> None:
        # What lies on the disk at this moment is what a kill would leave.
        if count == killed_after:
            shutil.copytree(whole, left)

    collect(whole, samples, Listener(kill), flush_s=flush_s)
    with (left / JOURNAL).open("a") as journal:
        journal.write('{"shard": "shard-00009.saf')
    (left / "shard-00009.safetensors.part").write_bytes(b"half")
    watcher = Listener()
    end = collect(left, samples, watcher, flush_s=flush_s)
    kept = killed_after if flush_s == 0 else 4 * (killed_after // 4)
    assert watcher.began == (6, kept)
    assert (end.before, end.examples, len(watcher.ended)) == (kept, 6, 6 - kept)
    assert shards_of(left) == shards_of(whole) | {"shard-00009.safetensors.part": b"half"}
    assert (left / JOURNAL).read_text() == (whole / JOURNAL).read_text()
    assert not (left / LOCK).exists()


def test_a_stop_keeps_what_was_collected(collect, samples, tmp_path, stop_after) -> None:
    stop = threading.Event()
    end = collect(tmp_path / "data", samples, Listener(lambda count: stop.set() if count == 3 else None), stop)
    assert (end.is_stopped, end.examples) == (True, 3)
    again = collect(tmp_path / "data", samples)
    assert (again.is_stopped, again.before, again.examples) == (False, 3, 6)
    collect(tmp_path / "whole", samples)
    assert shards_of(tmp_path / "data") == shards_of(tmp_path / "whole")


def test_other_settings_and_other_folders_are_refused(collect, samples, tmp_path) -> None:
    collect(tmp_path / "data", samples[:1])
    with pytest.raises(UserError, match=r"another max new tokens \(5, now 3\)"):
        collect(tmp_path / "data", samples[:1], settings=replace(SETTINGS, max_new_tokens=3))
    with pytest.raises(UserError, match="another draft"):
        collect(tmp_path / "data", samples[:1], draft=None)
    collect(tmp_path / "data", samples[:1], settings=replace(SETTINGS, max_new_tokens=3), overwrite=True)
    assert read_collection(tmp_path / "data").settings["max_new_tokens"] == 3
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "shard-00000.safetensors").write_bytes(b"somebody's weights")
    for overwrite in (False, True):
        with pytest.raises(UserError, match="holds other things"):
            collect(tmp_path / "other", samples[:1], overwrite=overwrite)
    with HeldFile(tmp_path / "data" / LOCK), pytest.raises(UserError, match="another evprof collects"):
        collect(tmp_path / "data", samples[:1], settings=replace(SETTINGS, max_new_tokens=3))


def changed(line: str, **values: Any) -> str:
    told = json.loads(line)
    told["examples"][0] |= values
    return json.dumps(told)


@pytest.mark.parametrize(
    "values",
    [{"tokens": 4}, {"positions": 7}, {"target_visual": [0, 9000]}, {"draft_visual": None}],
)
def test_a_journal_that_does_not_fit_its_shard_is_refused(collect, samples, tmp_path, values) -> None:
    collect(tmp_path / "data", samples[:1])
    journal = tmp_path / "data" / JOURNAL
    head, line = journal.read_text().splitlines()
    journal.write_text(f"{head}\n{changed(line, **values)}\n")
    with pytest.raises(UserError, match="collect the examples again"):
        StoredExamples(read_collection(tmp_path / "data"))[0]


def test_lines_that_mean_nothing_are_no_examples(collect, samples, tmp_path) -> None:
    collect(tmp_path / "data", samples[:1])
    journal = tmp_path / "data" / JOURNAL
    head, line = journal.read_text().splitlines()
    for bad in (
        line.replace("shard-00000", "../shard-00000"),
        line.replace("shard-00000.safetensors", "/etc/passwd"),
        changed(line, tokens=-1),
        changed(line, tokens=True),
        changed(line, target_visual=[1]),
        changed(line, sample=3),
        line[: len(line) // 2],
        "[" * 5000,
        "null",
    ):
        journal.write_text(f"{head}\n{bad}\n")
        assert read_collection(tmp_path / "data").examples == []
    journal.write_text(line + "\n")
    with pytest.raises(UserError, match="no journal"):
        read_collection(tmp_path / "data")
    with pytest.raises(UserError, match="no collected examples"):
        read_collection(tmp_path)


def test_damaged_shards_are_refused_in_a_sentence(collect, samples, tmp_path) -> None:
    collect(tmp_path / "data", samples[:1])
    path = tmp_path / "data" / "shard-00000.safetensors"
    good = path.read_bytes()
    for bad in (good[:8] + b"\xff" + good[9:], b"\xff" * 8 + good[8:], b"\x80\x04" + good[2:]):
        path.write_bytes(bad)
        with pytest.raises(UserError, match="shard-00000"):
            StoredExamples(read_collection(tmp_path / "data"))[0]
    path.write_bytes(good[:-1])  # not as long as it was: its example is collected again
    assert read_collection(tmp_path / "data").examples == []
    assert collect(tmp_path / "data", samples[:1]).before == 0
    assert path.read_bytes() == good


def test_layers_of_the_target_are_kept_when_asked_for(collect, tiny_models, samples, tmp_path) -> None:
    """What enters them and what leaves the last, as one pass over prompt and answer has it."""
    target = tiny_models(TARGET, "target", lambda *_: None, threading.Event()).language_model
    count = target.config.num_hidden_layers
    end = collect(tmp_path / "data", samples[:2], Listener(), draft=None, positions=5, layers=f"1,{count}")
    assert (end.examples, end.failed) == (2, {})
    collection = read_collection(tmp_path / "data")
    example = StoredExamples(collection)[0]
    assert (collection.layers, example.target_prompt) == ((1, count), 5)
    assert example.layers.shape == (5 + NEW_TOKENS - 1, 64)
    assert torch.equal(example.layers[:, 32:], example.target_features)
    assert not torch.equal(example.layers[:, :32], example.target_features)
    with pytest.raises(UserError, match="another layers"):
        collect(tmp_path / "data", samples, draft=None, positions=5)


ACTOR = "ray::CollectingSeat"
CLUSTER_SETTINGS = GenerationSettings(max_new_tokens=5, frames=2, event_frames=2)
CLUSTER_TARGET, CLUSTER_DRAFT = (ModelChoice(name, "cpu", "float32") for name in (BUNDLED_TARGET, BUNDLED_DRAFT))


@pytest.fixture(scope="module")
def cluster() -> Iterator[RayCluster]:
    with RayCluster(LOCAL, lambda _: None, cpus=2) as found:
        yield found


@pytest.fixture(scope="module")
def cluster_samples() -> list[Sample]:
    """Every bundled scene, asked four questions; the fifth row has the content and question of the first."""
    found = [
        replace(sample, prompt=prompt, name=f"{sample.name}: {prompt}")
        for sample in bundled_samples()
        for prompt in ("What is it?", "Is it day?", "What moves?", "Who is there?")
    ]
    return [*found[:4], replace(found[0], name="again"), *found[4:]]


class ClusterListener:
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


def cluster_collect(
    folder: Path,
    cluster_samples: list[Sample],
    cluster: RayCluster | None = None,
    watcher: ClusterListener | None = None,
    stop: threading.Event | None = None,
) -> CollectEnd:
    plan = CollectPlan(cluster_samples, CLUSTER_TARGET, CLUSTER_DRAFT, CLUSTER_SETTINGS, folder)
    told = watcher or ClusterListener(), stop or threading.Event()
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
def alone(tmp_path_factory: pytest.TempPathFactory, cluster_samples: list[Sample]) -> Path:
    folder = tmp_path_factory.mktemp("alone")
    cluster_collect(folder, cluster_samples)
    return folder


@pytest.mark.whole
def test_two_workers_of_which_one_dies_leave_the_examples_of_one_process(
    cluster, cluster_samples, alone, tmp_path
) -> None:
    watcher = ClusterListener(kill_one)
    end = cluster_collect(tmp_path, cluster_samples, cluster, watcher)
    assert (end.examples, end.failed, end.is_stopped) == (12, {}, False)
    assert watcher.ended == list(dict.fromkeys(watcher.ended))
    # Every byte: tensors, their order, and what the journal tells of them.
    assert contents(tmp_path) == contents(alone)
    assert len(contents(alone)) == 4


@pytest.mark.whole
def test_a_stop_keeps_what_was_collected_and_the_same_call_goes_on(cluster, cluster_samples, alone, tmp_path) -> None:
    """A row that fails stops no other. The copy has other paths, so that it is another row, and is found out by its
    content alone."""
    broken, copied, data = tmp_path / "broken.mp4", tmp_path / "copied.mp4", tmp_path / "data"
    broken.write_bytes(b"no video")
    copied.write_bytes(Path(cluster_samples[0].video_path or "").read_bytes())
    failing = replace(cluster_samples[1], video_path=str(broken), name="broken")
    rows = [
        cluster_samples[0],
        failing,
        replace(cluster_samples[0], video_path=str(copied), name="copy"),
        *cluster_samples[1:],
    ]
    stop = threading.Event()
    end = cluster_collect(data, rows, cluster, ClusterListener(lambda count: stop.set() if count == 4 else None), stop)
    assert end.is_stopped
    assert 2 <= end.examples < 12
    watcher = ClusterListener()
    again = cluster_collect(data, rows, cluster, watcher)
    assert watcher.began[0] == 14
    assert (again.examples, again.before, again.repeated, list(again.failed)) == (12, end.examples, 2, ["broken"])
    found = read_collection(data).examples
    assert {each.key for each in found} == {each.key for each in read_collection(alone).examples}
    assert not {"broken", "copy"} & {each.name for each in found}
    assert cluster_collect(data, rows[2:4]).repeated == 1


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


def source(cluster: Scripted, cluster_samples: list[Sample], folder: Path) -> ClusterExamples:
    slots = [SimpleNamespace(node_id=host, host=host, gpus=1, threads=0) for host in ("node1", "node7")]
    return ClusterExamples(
        cluster,
        slots,
        CollectPlan(cluster_samples, CLUSTER_TARGET, CLUSTER_DRAFT, CLUSTER_SETTINGS, folder),
        None,
    )
