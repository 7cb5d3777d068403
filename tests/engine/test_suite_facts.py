"""What a suite notes of machine and models: measured where they compute, shaped as they are, room counted both ways."""

from __future__ import annotations

import json

import pytest
import torch

from engines.hardware.device import SMALL_PARAMETERS, thread_count
from engines.suites import facts as suite_facts_module
from engines.suites.facts import CARD_BYTES, suite_facts
from evprof.core.units import MIB
from evprof.core.vocabulary.generation import GenerationSettings, ModelChoice
from evprof.core.vocabulary.inputs import InputSettings
from evprof.core.vocabulary.model_shapes import TextShape
from evprof.core.vocabulary.speculation import SpeculationSettings
from evprof.metrics.limits.roofline import kv_bytes_per_position

PAIR = (ModelChoice("evprof-tiny-eventgpt"), ModelChoice("evprof-tiny-video-llava"))
SETTINGS = GenerationSettings(max_new_tokens=5, frames=8, event_frames=1)
SEVEN_B = (ModelChoice("random:7b-eventgpt"), ModelChoice("random:7b-llava"))


@pytest.fixture
def unmeasured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is clocked: only shapes and room are asked."""
    monkeypatch.setattr(suite_facts_module, "_ceilings", lambda *_: [])


def test_the_pair_is_measured_once_with_the_threads_its_runs_take() -> None:
    said: list[str] = []
    before = torch.get_num_threads()
    found = suite_facts([*PAIR, PAIR[0]], SETTINGS, said.append, scale=0.02)
    assert torch.get_num_threads() == before
    assert json.loads(json.dumps(found)) == found
    (ceiling,) = found["ceilings"]
    device = "cuda:0" if torch.cuda.is_available() else "cpu"
    assert (ceiling["device"], ceiling["threads"]) == (device, thread_count([1]) if device == "cpu" else before)
    assert min(ceiling[key] for key in ("copy_bytes_s", "read_bytes_s", "matmul_flops_s")) > 0
    assert [line for line in said if line.startswith("Measuring")] == said
    assert len(said) == 1
    assert list(found["models"]) == [choice.name for choice in PAIR]


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
    found = suite_facts([ModelChoice("no-such-model"), PAIR[0]], SETTINGS, said.append)
    assert list(found["models"]) == ["evprof-tiny-eventgpt"]
    assert len(said) == 1
    assert "no-such-model" in said[0]


def test_a_device_that_is_not_here_keeps_shape_and_card() -> None:
    """The rows will say that they cannot run; what a card holds is known all the same."""
    said: list[str] = []
    name = f"cuda:{torch.cuda.device_count() + 7}" if torch.cuda.is_available() else "cuda"
    found = suite_facts([ModelChoice("evprof-tiny-eventgpt", name)], SETTINGS, said.append, scale=0.02)
    assert found["ceilings"] == []
    (entry,) = found["models"]["evprof-tiny-eventgpt"]["capacity"]
    assert entry["memory_bytes"] == CARD_BYTES
    assert any(line.startswith("No ceilings") for line in said)


def test_the_published_capacities_and_what_weights_leave_of_them(unmeasured: None) -> None:
    """002: ~75 against ~10 samples in 24 GB. By cache alone that holds; 13 GiB of weights leave 22 and 3 places."""
    settings = GenerationSettings(
        max_new_tokens=5,
        frames=8,
        event_frames=1,
        speculation=SpeculationSettings(gamma=1),
        input=InputSettings(pooling="none"),
    )
    models = suite_facts(SEVEN_B, settings)["models"]
    for name, published_mib, published in (("random:7b-eventgpt", 318.0, 75), ("random:7b-llava", 2321.5, 10)):
        card = models[name]["capacity"][0]
        assert int(CARD_BYTES / (published_mib * MIB)) == published
        shape = TextShape(**models[name]["text"])
        assert card["kv_bytes_per_sample"] == kv_bytes_per_position(shape, 2) * card["positions"]
        assert card["naive"] == CARD_BYTES // card["kv_bytes_per_sample"]
        # The prompt's own words and what is drafted are planned generously, so a place or four fewer than published.
        assert published - 4 <= card["naive"] <= published
        assert 0 < card["real"] < card["naive"] / 2
        assert card["dtype"] == "bfloat16"
        assert card["is_assumed"]


def test_vision_is_told_for_one_frame(unmeasured: None) -> None:
    models = suite_facts(PAIR, SETTINGS)["models"]
    assert [entry["vision"]["frames"] for entry in models.values()] == [1, 1]
    assert [entry["vision"]["kept"] for entry in models.values()] == [65, 37]
    assert [entry["family"] for entry in models.values()] == ["eventgpt", "video_llava"]
