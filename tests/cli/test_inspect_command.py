"""`evprof inspect` of checkpoints, draft heads and lists of samples, and what the window asks about a checkpoint."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from transformers import LlamaConfig

from evprof.loaders.bundled import bundled_samples
from published_heads import eagle1, eagle3, save

PAIR = ("random:7b-eventgpt", "--with", "random:7b-video-llava")


def test_a_pair_on_a_card_that_is_not_here(evprof) -> None:
    fit = evprof("inspect", *PAIR, "--memory", "24GB", "--json").document["fit"]
    assert fit["placement"] == "in turn"
    assert fit["is_assumed"] is True
    assert {model["role"]: model["device"] for model in fit["models"]} == {"draft": "cuda:0", "target": "cuda:0"}
    for model in fit["models"]:
        parts = model["weight_bytes"] + model["kv_bytes"] + model["activation_bytes"] + model["alternatives_bytes"]
        assert 0 < model["alternatives_bytes"] <= 64 << 20, "128 tokens of 32,000 pieces"
        assert model["total_bytes"] == parts
        assert set(model["batch_capacity"]) >= {"naive", "real"}
    quantized = evprof("inspect", *PAIR, "--memory", "24GB", "--with-quant", "int8", "--quant", "int8", "--json")
    assert quantized.document["fit"]["placement"] == "both"
    assert quantized.document["device_bytes"] == quantized.document["fit"]["models"][0]["weight_bytes"]


def test_what_is_read_is_the_sentence(evprof) -> None:
    found = evprof("inspect", *PAIR, "--memory", "12GB")
    assert found.code == 0
    text = " ".join(found.output.split())
    assert "random:7b-eventgpt needs 14.39 GiB on cuda:0" in text
    assert "what fits: --draft-quant" in text
    assert "placement refused" in text
    assert max(len(line) for line in found.output.splitlines()) <= 110


def test_this_machine_and_its_own_dtype(evprof) -> None:
    document = evprof("inspect", "evprof-tiny-eventgpt", "--device", "cpu", "--frames", 7, "--json").document
    (model,) = document["fit"]["models"]
    assert (model["device"], model["dtype"], model["frames"]) == ("cpu", "float32", 7)
    assert model["weight_bytes"] == 4 * document["parameters"] == document["device_bytes"]
    assert document["fit"]["free_bytes"]["cpu"] > 0
    assert document["fit"]["placement"] == "both"


def test_what_waits_to_be_packed_is_named(evprof) -> None:
    here = evprof("inspect", "random:7b-eventgpt", "--device", "cpu", "--quant", "nf4", "--memory", "40GB")
    assert "waiting to be packed" in here.output
    assert "packed on the host" not in here.output
    there = evprof("inspect", "random:7b-eventgpt", "--quant", "nf4", "--memory", "40GB")
    assert "packed on the host" in there.output


def test_settings_change_the_need(evprof) -> None:
    def kv(*words: object) -> int:
        document = evprof("inspect", "random:7b-llava", "--memory", "80GB", *words, "--json").document
        return document["fit"]["models"][0]["batch_capacity"]["kv_bytes_per_sample"]

    position = 1 << 19
    assert kv() - kv("--frames", 4) == 4 * 576 * position
    assert kv("--max-new-tokens", 228) - kv() == 100 * position
    assert kv() - kv("--visual-keep", 0.5) == 8 * 288 * position
    assert kv("--cache", "fp8") < kv()


@pytest.mark.parametrize(
    "words",
    [
        ("random:7b-llava", "--with-quant", "int8"),
        ("random:7b-llava", "--memory", "plenty"),
        ("random:7b-llava", "--max-new-tokens", "0"),
        ("random:7b-llava", "--visual-keep", "2"),
        ("random:7b-llava", "--quant", "int3"),
        ("random:7b-llava", "--frames", "0"),
        ("random:7b-llava", "--device", "tpu"),
    ],
)
def test_wrong_usage(evprof, words) -> None:
    assert evprof("inspect", *words).code == 2


def test_only_checkpoints_are_fitted(evprof) -> None:
    from evprof.loaders.bundled import bundled_sample

    found = evprof("inspect", bundled_sample().events_path, "--memory", "24GB")
    assert found.code == 2
    assert "--memory asks about a checkpoint" in found.errors


FITTING = LlamaConfig(hidden_size=128, vocab_size=768)
"""The bundled target's width and vocabulary."""


def test_a_head_is_named_and_held_against_a_target(evprof, tmp_path: Path) -> None:
    save(eagle3(tmp_path / "head", FITTING, choices=40))
    document = json.loads(evprof("inspect", tmp_path / "head", "--against", "evprof-tiny-video-llava", "--json").output)
    assert (document["kind"], document["layout"], document["drafter"]) == ("head", "EAGLE-3", "eagle")
    assert document["problems"] == []
    assert document["fit"] == {"target": "evprof-tiny-video-llava", "fits": True}
    said = evprof("inspect", tmp_path / "head").output
    assert "EAGLE-3" in said


def test_a_head_for_another_target_says_why(evprof, tmp_path: Path) -> None:
    save(eagle1(tmp_path / "head", LlamaConfig(hidden_size=64, vocab_size=768)))
    said = evprof("inspect", tmp_path / "head", "--against", "evprof-tiny-video-llava").output
    assert "hidden size 64" in said


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    """Bundled samples as EventGPT lists them: the second without video, the third without events, one without both."""
    entries = []
    for number, sample in enumerate(bundled_samples()):
        stem = f"drive/{number:06d}"
        for folder, suffix, source in (("event_npy", ".npy", sample.events_path), ("mp4", ".mp4", sample.video_path)):
            place = tmp_path / folder / f"{stem}{suffix}"
            place.parent.mkdir(parents=True, exist_ok=True)
            if source is not None and (number, folder) not in {(1, "mp4"), (2, "event_npy")}:
                shutil.copyfile(source, place)
        conversations = [
            {"from": "human", "value": f"<event>\n{sample.prompt}"},
            {"from": "gpt", "value": "A street." if number == 0 else ""},
            {"from": "human", "value": "And then?"},
        ]
        entries.append(
            {"id": sample.name, "event_data": f"{stem}.npy", "video_data": stem, "conversations": conversations}
        )
    entries.append({"id": "gone", "event_data": "drive/9.npy", "video_data": "drive/9", "conversations": []})
    path = tmp_path / "EventGPT_Instruction_Subset.json"
    path.write_text(json.dumps(entries))
    return path


def test_the_document_of_a_manifest(evprof, dataset: Path) -> None:
    found = evprof("inspect", dataset, "--json")
    assert found.code == 0, found.errors
    prompts = {sample.prompt for sample in bundled_samples()}
    assert found.document == {
        "schema_version": 1,
        "path": str(dataset),
        "kind": "manifest",
        "problems": [
            "Row 2: its video 'mp4/drive/000001.mp4' is not there; the sample has only its events.",
            "Row 3: its events 'event_npy/drive/000002.npy' are not there; the sample has only its video.",
            "Row 4 is skipped, because its events 'event_npy/drive/9.npy' are not there and its video "
            "'mp4/drive/9.mp4' is not there.",
            "3 later questions left out; --questions all takes them.",
        ],
        "format": "instruction",
        "rows": 4,
        "samples": 3,
        "clips": 0,
        "with_events": 2,
        "with_video": 2,
        "with_both": 1,
        "with_reference": 1,
        "prompts": len(prompts),
    }


def test_a_run_takes_the_frames_of_one_clip_among_others(scripted, evprof, tmp_path: Path) -> None:
    for name in ("1_0.png", "1_1.png", "2_0.png"):
        (tmp_path / name).write_bytes(b"not read by a script")
    found = evprof("run", "--events", tmp_path / "1_*.png", "-o", tmp_path / "s.evprof", "--json")
    assert found.code == 0, found.errors
    assert found.document["runs"][0]["sample"]["events"]["path"] == str(tmp_path / "1_*.png")
    gone = evprof("run", "--events", tmp_path / "3_*.png", "-o", tmp_path / "s.evprof")
    assert gone.code == 1
    assert "holds no PNG files" in gone.errors


def test_the_frames_of_one_clip_are_inspected(evprof, tmp_path: Path) -> None:
    sample = bundled_samples()[0]
    assert evprof("convert", sample.events_path, "-o", tmp_path / "all").code == 0
    for number in range(5):
        shutil.copyfile(tmp_path / "all" / f"frame_{number:02d}.png", tmp_path / "all" / f"7_{number}.png")
    found = evprof("inspect", tmp_path / "all" / "7_*.png", "--json")
    assert found.code == 0, found.errors
    assert (found.document["kind"], found.document["frames"]) == ("events", 5)
