"""Who stays loaded, who goes, and what is refused before a weight is read; models and memory are ours to choose."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch
from transformers import CLIPVisionConfig, LlamaConfig

from engines.engine import LocalEngine
from engines.families.eventgpt import EventGptConfig
from engines.fit.requirements import ModelShape, projection_shapes
from engines.fit.verdict import make_room
from engines.loading.warm_models import WarmModels
from evprof.core.errors import UserError
from evprof.core.messages import RunEnded
from evprof.core.request import RunRequest
from evprof.core.sample import Sample
from evprof.core.vocabulary.generation import GenerationSettings, ModelChoice

UNIT = 4 * 10**6
"""Bytes; next to it a cache and activations of the models here are nothing."""

SIZES = {"small": 10, "large": 80, "other": 60, "huge": 500}
"""Models by name, in units of float32 weights."""


def sized(choice: ModelChoice) -> ModelShape:
    """A small language model that claims so many parameters; half of them can be quantized."""
    config = EventGptConfig(
        CLIPVisionConfig(hidden_size=8, intermediate_size=8, image_size=28, patch_size=14, num_attention_heads=1),
        LlamaConfig(vocab_size=100, hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=1),
    )
    parameters = SIZES[choice.name] * UNIT // 4
    assert sum(rows * columns for rows, columns in projection_shapes(config)) < parameters
    return ModelShape(choice.name, config, parameters, ((parameters // 2000, 1000),))


class Weightless:
    """A loaded model that takes no memory."""

    device = torch.device("cpu")
    language_model = torch.nn.Identity()

    def release(self) -> None:
        """It keeps nothing."""


@pytest.fixture
def loaded() -> list[str]:
    """Names of models whose loading was begun."""
    return []


@pytest.fixture
def warm(monkeypatch: pytest.MonkeyPatch, loaded: list[str]) -> WarmModels:
    def load(choice: ModelChoice, *_: Any) -> Any:
        loaded.append(choice.name)
        return Weightless()

    held = WarmModels(load)
    free = lambda _: UNIT * (101 - sum(SIZES[choice.name] for choice, _ in held._held))  # noqa: E731 - short
    monkeypatch.setattr("engines.hardware.device.free_bytes", free)
    monkeypatch.setattr("engines.fit.verdict.model_shape", sized)
    return held


def load(warm: WarmModels, name: str, role: str) -> None:
    warm.get(ModelChoice(name, device="cpu"), role, lambda *_: None, threading.Event())


def request(mode: str, draft: str, target: str) -> RunRequest:
    models = ModelChoice(draft, device="cpu"), ModelChoice(target, device="cpu")
    return RunRequest(mode, Sample("a", "b", "?"), *models, GenerationSettings(max_new_tokens=1))


def room(warm: WarmModels, mode: str, draft: str, target: str, *roles: str) -> set[str]:
    make_room(request(mode, draft, target), roles, warm)
    return {choice.name for choice, _ in warm._held}


def test_what_fits_stays(warm: WarmModels) -> None:
    load(warm, "other", "target")
    assert room(warm, "side-by-side", "small", "small", "draft") == {"other"}


def test_models_of_earlier_requests_go_first(warm: WarmModels) -> None:
    load(warm, "other", "target")
    load(warm, "small", "draft")
    assert room(warm, "side-by-side", "small", "large", "target") == {"small"}


def test_side_by_side_goes_in_turn(warm: WarmModels) -> None:
    load(warm, "other", "draft")
    assert room(warm, "side-by-side", "other", "large", "target") == set()


def test_speculation_without_room_for_both_is_refused_with_what_helps(warm: WarmModels) -> None:
    with pytest.raises(UserError, match=r"other and large need .* together on cpu, but .* is free") as caught:
        room(warm, "speculative", "other", "large", "draft", "target")
    # 60 + 80 in float32: either one in bfloat16 frees 30 or 40, which is not enough for 140 of 101 with the first.
    assert "--target-dtype bfloat16 (" in caught.value.sentence
    assert "--draft-dtype bfloat16 (" not in caught.value.sentence


def test_one_that_never_fits_is_refused(warm: WarmModels) -> None:
    with pytest.raises(UserError, match=r"huge needs .* no dtype, quantization or cache makes it fit"):
        room(warm, "target", "small", "huge", "target")


@pytest.mark.parametrize("mode", ["speculative", "parallel-prefill"])
def test_a_refused_run_reads_no_weight(warm: WarmModels, loaded: list[str], sink: Any, mode: str) -> None:
    """The run ends as failed with the sentence, and the loader was never called."""

    def must_not_load(*_: Any) -> Any:
        raise AssertionError("weights were read")

    engine = LocalEngine(loader=must_not_load)
    engine.run(request(mode, "other", "large"), sink, threading.Event())
    ended = [message for message in sink.messages if isinstance(message, RunEnded)]
    assert [message.status for message in ended] == ["failed"]
    assert "other and large need" in str(ended[0].error)
    assert "what fits: --" in str(ended[0].error)
    assert loaded == []
