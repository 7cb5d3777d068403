"""Facts about models for suites and documents."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest
import torch

from engines.bench.batches import requests_for
from engines.fit.requirements import batch_capacity, memory_need, model_shape
from engines.hardware.device import SMALL_PARAMETERS, AssumedMachine, thread_count
from engines.inspection import describe_model
from engines.suites import facts as suite_facts_module
from engines.suites.document_facts import (
    ENCODER,
    LANGUAGE_MODEL,
    compare_features,
    debiased_cka,
    document_facts,
    linear_cka,
    visual_features,
)
from engines.suites.facts import suite_facts
from evprof.core.sample import Sample
from evprof.core.units import MIB
from evprof.core.vocabulary.families import TextShape
from evprof.core.vocabulary.generation import GenerationSettings, ModelChoice
from evprof.core.vocabulary.inputs import InputSettings
from evprof.core.vocabulary.speculation import SpeculationSettings
from evprof.core.vocabulary.switches import Switches
from evprof.loaders.bundled import bundled_samples
from evprof.metrics.limits.workload import kv_bytes_per_position

PAIR = (ModelChoice("evprof-tiny-eventgpt", "cpu"), ModelChoice("evprof-tiny-video-llava", "cpu"))
SHORT = GenerationSettings(max_new_tokens=3, frames=2, event_frames=2)


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    said: list[str] = []
    facts = document_facts(*PAIR, bundled_samples()[:2], SHORT, said.append)
    assert said == []
    assert json.loads(json.dumps(facts)) == facts
    return facts


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


def test_a_model_that_is_not_here_costs_its_own_rows() -> None:
    said: list[str] = []
    facts = document_facts(PAIR[0], ModelChoice("no-such-model"), bundled_samples()[:1], SHORT, said.append)
    assert {row["role"] for row in facts["batches"]} == {"draft"}
    assert "feature_alignment" not in facts
    assert len(said) == 1
    assert "no-such-model" in said[0]


BUNDLED_PAIR = (ModelChoice("evprof-tiny-eventgpt"), ModelChoice("evprof-tiny-video-llava"))
SETTINGS = GenerationSettings(max_new_tokens=5, frames=8, event_frames=1)
CARD_BYTES = 24_000 * MIB
SEVEN_B = (ModelChoice("random:7b-eventgpt"), ModelChoice("random:7b-llava"))


@pytest.fixture
def unmeasured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is clocked: only shapes and room are asked."""
    monkeypatch.setattr(suite_facts_module, "_ceilings", lambda *_: [])


def test_the_pair_is_measured_once_with_the_threads_its_runs_take() -> None:
    said: list[str] = []
    before = torch.get_num_threads()
    found = suite_facts([*BUNDLED_PAIR, BUNDLED_PAIR[0]], SETTINGS, said.append, scale=0.02)
    assert torch.get_num_threads() == before
    assert json.loads(json.dumps(found)) == found
    (ceiling,) = found["ceilings"]
    device = "cuda:0" if torch.cuda.is_available() else "cpu"
    assert (ceiling["device"], ceiling["threads"]) == (device, thread_count([1]) if device == "cpu" else before)
    assert min(ceiling[key] for key in ("copy_bytes_s", "read_bytes_s", "matmul_flops_s")) > 0
    assert [line for line in said if line.startswith("Measuring")] == said
    assert len(said) == 1
    assert list(found["models"]) == [choice.name for choice in BUNDLED_PAIR]


def test_models_that_only_together_are_large_are_measured_with_both_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tiny model beside a large one computes with the large one's threads."""
    seats = []
    monkeypatch.setattr(
        suite_facts_module, "_measured", lambda name, dtype, threads, *_: seats.append((name, dtype, threads)) or {}
    )
    monkeypatch.setattr(suite_facts_module, "thread_count", lambda counts: 1 if max(counts) < SMALL_PARAMETERS else 4)
    cpu = [ModelChoice("evprof-tiny-eventgpt", "cpu"), ModelChoice("random:160m-video-llava", "cpu", "bfloat16")]
    suite_facts(cpu, SETTINGS)
    assert seats == [("cpu", torch.float32, 1), ("cpu", torch.float32, 4), ("cpu", torch.bfloat16, 4)]


def test_a_model_that_is_not_here_is_said_and_the_others_are_told(unmeasured: None) -> None:
    said: list[str] = []
    found = suite_facts([ModelChoice("no-such-model"), BUNDLED_PAIR[0]], SETTINGS, said.append)
    assert list(found["models"]) == ["evprof-tiny-eventgpt"]
    assert len(said) == 1
    assert "no-such-model" in said[0]


def test_a_device_that_is_not_here_keeps_the_shape() -> None:
    """The rows will say that they cannot run."""
    said: list[str] = []
    name = f"cuda:{torch.cuda.device_count() + 7}" if torch.cuda.is_available() else "cuda"
    found = suite_facts([ModelChoice("evprof-tiny-eventgpt", name)], SETTINGS, said.append, scale=0.02)
    assert found["ceilings"] == []
    assert found["models"]["evprof-tiny-eventgpt"]["family"] == "eventgpt"
    assert any(line.startswith("No ceilings") for line in said)


def test_the_published_capacities_and_what_weights_leave_of_them() -> None:
    """002: ~75 against ~10 samples in 24 GB. By cache alone that holds; 13 GiB of weights leave 22 and 3 places."""
    settings = GenerationSettings(
        max_new_tokens=5,
        frames=8,
        event_frames=1,
        speculation=SpeculationSettings(gamma=1),
        input=InputSettings(pooling="none"),
    )
    for choice, published_mib, published in zip(SEVEN_B, (318.0, 2321.5), (75, 10), strict=True):
        shape, card = model_shape(choice), AssumedMachine(CARD_BYTES)
        need = memory_need(replace(choice, device="auto"), "", settings, machine=card, shape=shape)
        found = batch_capacity(need, CARD_BYTES)
        assert int(CARD_BYTES / (published_mib * MIB)) == published
        text = TextShape(**describe_model(shape.config, settings)["text"])
        positions = need.positions.total - need.positions.spare
        assert found.kv_bytes_per_sample == kv_bytes_per_position(text, 2) * positions
        assert found.naive == CARD_BYTES // found.kv_bytes_per_sample
        # The prompt's own words and what is drafted are planned generously, so a place or four fewer than published.
        assert published - 4 <= found.naive <= published
        assert 0 < found.real < found.naive / 2
        assert need.dtype == "bfloat16"


def drawn(rows: int, width: int, seed: int) -> torch.Tensor:
    return torch.randn(rows, width, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_cka_is_the_formula_over_features() -> None:
    """Kornblith et al., equation 5, written with the feature products instead of Gram matrices."""
    one, other = drawn(30, 7, 1), drawn(30, 5, 2)
    one, other = one - one.mean(dim=0), other - other.mean(dim=0)
    expected = (other.T @ one).norm() ** 2 / ((one.T @ one).norm() * (other.T @ other).norm())
    assert linear_cka(one + 3, other - 2) == pytest.approx(float(expected))


def test_unrelated_features_are_high_by_cka_and_about_zero_debiased() -> None:
    """Fewer rows than columns: that is why both are told, with the shuffled one beside them."""
    plain, debiased = [], []
    for seed in range(20):
        one, other = drawn(40, 120, 2 * seed), drawn(40, 120, 2 * seed + 1)
        plain.append(linear_cka(one, other))
        debiased.append(debiased_cka(one, other))
    assert sum(plain) / 20 > 0.5
    assert abs(sum(debiased) / 20) < 0.05


def test_features_are_set_against_each_other_position_by_position() -> None:
    one = drawn(12, 6, 1)
    other = torch.cat([one[:4], -one[4:9]])
    (encoder, language) = compare_features(
        {ENCODER: one, LANGUAGE_MODEL: one}, {ENCODER: drawn(20, 5, 2), LANGUAGE_MODEL: other}
    )
    assert (language["draft_shape"], language["target_shape"], language["positions"]) == ([12, 6], [9, 6], 9)
    assert language["cosine"] == pytest.approx([1.0] * 4 + [-1.0] * 5)
    assert language["mean_cosine"] == pytest.approx(-1 / 9)
    assert abs(language["mean_cosine_elsewhere"]) < 0.5
    # Widths that differ have no cosine, but they have a CKA.
    assert (encoder["cosine"], encoder["mean_cosine"]) == (None, None)
    assert 0 < encoder["cka"] < 1


def test_what_is_not_defined_is_none() -> None:
    still = torch.ones(6, 4, dtype=torch.float64)
    assert linear_cka(still, drawn(6, 4, 1)) is None
    assert debiased_cka(drawn(3, 4, 1), drawn(3, 4, 2)) is None
    assert math.isfinite(debiased_cka(drawn(4, 4, 1), drawn(4, 4, 2)) or 0.0)


@pytest.mark.parametrize("family", ["eventgpt", "video_llava", "llava", "llava_next_video"])
def test_the_features_are_those_of_stage_vision(make_model: Any, sample: Any, family: str) -> None:
    model = make_model(family)
    settings = GenerationSettings(frames=2, event_frames=2)
    found = visual_features(model, sample, settings)
    kept = GenerationSettings(frames=2, event_frames=2, switches=Switches(vision_cache="memory"))
    again = visual_features(model, sample, kept)
    tokens = model.network.tokens_per_frame
    assert found[ENCODER].shape[0] == tokens
    assert found[LANGUAGE_MODEL].shape[0] == (2 + tokens if family == "eventgpt" else 2 * tokens)
    assert all(torch.equal(found[space], again[space]) for space in found)
