"""`evprof adapter` from a list of samples to an evaluated adapter, with the bundled pair."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from evprof.cli.adapter.collect import CollectProgress
from evprof.loaders.bundled import bundled_samples
from evprof.loaders.collection import read_collection
from evprof.loaders.writers.frames import write_manifest

SHORT = ("--max-new-tokens", 6, "--frames", 2, "--event-frames", 2, "--device", "cpu")


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    """The bundled samples as a list."""
    path = tmp_path / "samples.csv"
    write_manifest(path, bundled_samples())
    return path


@pytest.fixture
def two(tmp_path: Path) -> Path:
    """Two of them."""
    path = tmp_path / "two.csv"
    write_manifest(path, bundled_samples()[:2])
    return path


def test_from_a_list_to_an_evaluated_adapter(evprof, computed, manifest, two, tmp_path) -> None:
    found = evprof("adapter", "collect", two, "-o", tmp_path / "data", *SHORT, "--json")
    assert found.code == 0, found.errors
    document = found.document
    assert (document["examples"], document["before"], document["failed"]) == (2, 0, [])
    assert document["settings"]["target"]["identity"].startswith("blake2b:")
    assert document["settings"]["draft"]["hidden_size"] == 128
    again = evprof("adapter", "collect", two, "-o", tmp_path / "data", *SHORT)
    assert (again.code, "goes on, 2 there before" in again.errors) == (0, True)
    assert "2 examples (12 answer tokens) in 1 shard" in again.output

    trained = evprof(
        *("adapter", "train", tmp_path / "data", "--kind", "hidden", "-o", tmp_path / "made"),
        *("--steps", 3, "--validate-every", 1, "--validation", 0.5, "--size", "bottleneck=8", "--json"),
    )
    assert trained.code == 0, trained.errors
    curves = trained.document["training"]
    assert curves["validation_steps"] == [0, 1, 2, 3]
    assert "step 3: held back:" in trained.errors
    described = json.loads((tmp_path / "made" / "adapter.json").read_text())
    assert described["config"]["bottleneck"] == 8

    words = ("adapter", "evaluate", tmp_path / "made", manifest, "--repeat", 1, "--gamma", 2, "--device", "cpu")
    dry = evprof(*words, "--no-write", "--json")
    assert dry.code == 0, dry.errors
    evaluation = dry.document["evaluation"]
    assert (evaluation["samples"], evaluation["left_out"], evaluation["answers"]) == (1, 2, 1)
    assert evaluation["same_answers"] == 1
    assert evaluation["is_lossless"]
    assert len(evaluation["acceptance_per_position"]) == 2
    assert evaluation["drafted"] >= evaluation["accepted"]
    assert evaluation["decode_speedup"] > 0
    assert json.loads((tmp_path / "made" / "adapter.json").read_text())["evaluation"] is None
    written = evprof(*words)
    assert written.code == 0, written.errors
    assert "acceptance_per_position" in written.output
    assert "2 of 3 samples were trained on" in written.errors
    assert json.loads((tmp_path / "made" / "adapter.json").read_text())["evaluation"]["samples"] == 1
    assert "1 held-out samples" in (tmp_path / "made" / "MODEL_CARD.md").read_text()

    # Examples stand for their samples; these were all trained on.
    refused = evprof("adapter", "evaluate", tmp_path / "made", tmp_path / "data", "--device", "cpu")
    assert refused.code == 1
    assert "were trained on by made" in refused.errors


def test_questions_of_ones_own(evprof, two, tmp_path) -> None:
    found = evprof(
        *("adapter", "collect", two, "-o", tmp_path / "data", "--no-draft", "--limit", 1, "--device", "cpu"),
        *("--max-new-tokens", 3, "--prompt", "Is it day?", "--prompt", "What is it?", "--json"),
    )
    assert found.code == 0, found.errors
    assert [example.prompt for example in read_collection(tmp_path / "data").examples] == ["Is it day?", "What is it?"]
    assert found.document["settings"]["draft"] is None
    other = evprof("adapter", "collect", two, "-o", tmp_path / "data", "--no-draft", "--device", "cpu")
    assert (other.code, "another max new tokens" in other.errors) == (1, True)


def test_a_row_that_fails_fails_the_command_and_not_the_others(evprof, tmp_path) -> None:
    video = tmp_path / "broken.mp4"
    video.write_bytes(b"no video")
    good = bundled_samples()[0]
    (tmp_path / "list.csv").write_text(f"name,video,prompt\nbad,{video},What?\ngood,{good.video_path},What?\n")
    words = ("adapter", "collect", tmp_path / "list.csv", "-o", tmp_path / "data", "--no-draft", *SHORT, "--json")
    found = evprof(*words)
    assert found.code == 1
    assert [entry["name"] for entry in found.document["failed"]] == ["bad"]
    assert found.document["examples"] == 1


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in."""
    folder = tmp_path / "nowhere"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (("collect", "gone.csv", "-o", "data"), 1, "gone.csv"),
        (("collect",), 2, "required"),
        (("train", "gone", "--kind", "eagle", "-o", "made"), 1, "no collected examples"),
        (("train", "gone", "--kind", "bert", "-o", "made"), 2, "'bert' is none of"),
        (("train", "gone", "--kind", "lora", "-o", "made", "--steps", 0), 2, "--steps"),
        (("train", "gone", "--kind", "lora", "-o", "made", "--size", "rank"), 2, "--size"),
        (("train", "gone", "--kind", "lora", "-o", "made", "--learning-rate", "nan"), 2, "--learning-rate"),
        (("evaluate", "gone", "gone.csv"), 1, "no trained adapter"),
        ((), 2, "required"),
    ],
)
def test_refusals_are_sentences(evprof, nowhere, words, code, sentence) -> None:
    found = evprof("adapter", *words)
    assert (found.code, found.output) == (code, "")
    assert sentence in found.errors
    assert len(found.errors.splitlines()) == 1
    assert list(nowhere.iterdir()) == []


def test_ctrl_c_keeps_what_was_collected(evprof, manifest, tmp_path, monkeypatch) -> None:
    tell = CollectProgress.end

    def end(self: CollectProgress, name: str, error: str | None = None) -> None:
        tell(self, name, error)
        signal.raise_signal(signal.SIGINT)

    words = ("adapter", "collect", manifest, "-o", tmp_path / "data", "--no-draft", *SHORT)
    with monkeypatch.context() as patched:
        patched.setattr(CollectProgress, "end", end)
        stopped = evprof(*words, "--json")
    assert stopped.code == 130
    assert (stopped.document["examples"], stopped.document["is_complete"]) == (1, False)
    assert "stopping; what is done is kept" in stopped.errors
    assert "stopped; the same command goes on" in stopped.errors
    assert not list((tmp_path / "data").glob("*.part"))
    assert not (tmp_path / "data" / "collection.lock").exists()
    again = evprof(*words)
    assert (again.code, "goes on, 1 there before" in again.errors) == (0, True)
    assert len(read_collection(tmp_path / "data").examples) == 3


def test_a_head_of_several_layers_from_collecting_to_its_evaluation(evprof, two, tmp_path) -> None:
    """Stored as SpecForge stores EAGLE-3; what it drafts changes no answer."""
    collect = ("adapter", "collect", two, "-o", tmp_path / "data", "--no-draft", *SHORT)
    words = ("adapter", "train", tmp_path / "data", "--kind", "eagle", "--size", "published=3", "--steps", 2)
    train = (*words, "-o", tmp_path / "head", "--device", "cpu")
    assert evprof(*collect).code == 0
    refused = evprof(*train)
    assert (refused.code, "collect them again with --keep-layers auto" in refused.errors) == (1, True)
    collected = evprof(*collect, "--overwrite", "--keep-layers", "auto")
    assert collected.code == 0, collected.errors
    trained = evprof(*train)
    assert trained.code == 0, trained.errors
    config = json.loads((tmp_path / "head" / "config.json").read_text())
    assert config["architectures"] == ["LlamaForCausalLMEagle3"]
    (tmp_path / "head" / "adapter.json").rename(tmp_path / "told.json")
    assert "EAGLE-3" in evprof("inspect", tmp_path / "head", "--against", "evprof-tiny-video-llava").output
    (tmp_path / "told.json").rename(tmp_path / "head" / "adapter.json")
    (tmp_path / "one.csv").write_text(f"name,video,prompt\none,{bundled_samples()[2].video_path},What?\n")
    evaluate = ("adapter", "evaluate", tmp_path / "head", tmp_path / "one.csv", "--repeat", 1, "--gamma", 2)
    found = evprof(*evaluate, "--device", "cpu", "--max-new-tokens", 6, "--no-write", "--json")
    assert found.code == 0, found.errors
    evaluation = found.document["evaluation"]
    assert evaluation["same_answers"] == 1
    assert evaluation["drafted"] > 0
