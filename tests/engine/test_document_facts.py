"""Batches, cache layouts and feature alignment as a session notes them."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

from engines.bench.batches import batch_rows, requests_for
from engines.suites.document_facts import document_facts
from evprof.core.sample import Sample
from evprof.core.vocabulary.generation import GenerationSettings, ModelChoice
from evprof.loaders.bundled import bundled_samples

PAIR = (ModelChoice("evprof-tiny-eventgpt", "cpu"), ModelChoice("evprof-tiny-video-llava", "cpu"))
SHORT = GenerationSettings(max_new_tokens=3, frames=2, event_frames=2)


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    said: list[str] = []
    facts = document_facts(*PAIR, bundled_samples()[:2], SHORT, said.append)
    assert said == []
    assert json.loads(json.dumps(facts)) == facts
    return facts


def test_every_size_answers_the_same_requests(make_model: Any, sample: Any) -> None:
    model = make_model("video_llava")
    rows = batch_rows(model, "target", [sample], SHORT, threading.Event(), sizes=(1, 3), repeat=2)
    assert [(row.batch, row.requests, row.n, row.tokens) for row in rows] == [(1, 3, 2, 9), (3, 3, 2, 9)]
    one, three = rows
    assert one.positions == three.positions
    assert three.cache_bytes == 3 * one.cache_bytes
    assert all(min(row.prefill_ms, row.decode_ms, row.samples_per_s, row.decode_tok_s or 0) > 0 for row in rows)


def test_requests_are_the_samples_own_first() -> None:
    samples = [Sample("a.npy", "a.mp4", "What is a?"), Sample("b.npy", "b.mp4", "What is b?")]
    asked = requests_for(samples, 5)
    assert asked[:2] == [(sample, sample.prompt) for sample in samples]
    assert [sample for sample, _ in asked[2:]] == [samples[0], samples[1], samples[0]]
    assert len({prompt for _, prompt in asked}) == 5
    assert requests_for(samples, 1) == asked[:1]


def test_both_models_are_measured_in_batches(found: dict[str, Any]) -> None:
    rows = found["batches"]
    assert [(row["role"], row["batch"]) for row in rows] == [
        (role, size) for role in ("draft", "target") for size in (1, 2, 4)
    ]
    assert {row["model"] for row in rows} == {choice.name for choice in PAIR}
    assert {row["tokens"] for row in rows} == {4 * 3}


def test_a_layout_is_told_for_each_model(found: dict[str, Any]) -> None:
    assert [row["role"] for row in found["cache_layout"]] == ["draft", "target"]
    for row in found["cache_layout"]:
        batch, heads, positions, width = row["shape"]
        assert (batch, heads, width) == (1, row["kv_heads"], row["head_dim"])
        assert row["positions"] == positions
        assert row["used_bytes"] == 2 * row["layers"] * heads * positions * width * row["element_bytes"]
        assert row["used_bytes"] <= row["reserved_bytes"]
        assert row["cache"] == "static"


def test_features_are_aligned_sample_by_sample(found: dict[str, Any]) -> None:
    rows = found["feature_alignment"]
    names = [sample.name for sample in bundled_samples()[:2]]
    assert list(dict.fromkeys(row["sample"] for row in rows)) == names
    language = [row for row in rows if row["sample"] == names[0] and row["space"] == "language model"]
    assert [row["position"] for row in language] == list(range(2 + 65))
    assert {(row["draft_tokens"], row["target_tokens"]) for row in language} == {(67, 74)}
    assert all(-1 <= row["cosine"] <= 1 for row in language)
    assert len({row["cka"] for row in language}) == 1


def test_without_samples_there_is_nothing_to_tell() -> None:
    assert document_facts(*PAIR, [], SHORT, lambda _: None) == {}


def test_a_model_that_is_not_here_costs_its_own_rows() -> None:
    said: list[str] = []
    facts = document_facts(PAIR[0], ModelChoice("no-such-model"), bundled_samples()[:1], SHORT, said.append)
    assert {row["role"] for row in facts["batches"]} == {"draft"}
    assert "feature_alignment" not in facts
    assert len(said) == 1
    assert "no-such-model" in said[0]
