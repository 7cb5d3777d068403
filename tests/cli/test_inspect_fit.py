"""`evprof inspect` of a checkpoint: whether it fits, before anything is loaded."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

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
        size: int = document["fit"]["models"][0]["batch_capacity"]["kv_bytes_per_sample"]
        return size

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
