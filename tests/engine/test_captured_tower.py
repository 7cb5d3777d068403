"""The vision tower as a CUDA graph: captured in setup, replayed in stage vision, checked, and released.

`fake_cuda` stands in for CUDA; its graphs repeat the recorded operations.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers import CLIPVisionModel

from closeness import assert_close
from engines.decoder import cuda_graphs as graph_recording
from engines.decoder import fused_check
from engines.families import loaded_model
from engines.families.clip_tower import CapturedTower, ClipLayer
from engines.measuring.timing import NullClock
from evprof.core.vocabulary.generation import GenerationSettings
from evprof.core.vocabulary.switches import Switches
from fake_cuda import FakeCuda
from small_models import small_vision

FAMILIES = ("eventgpt", "llava", "video_llava", "llava_next_video")
CLOCK = NullClock()
DTYPES = (torch.float32, torch.float16, torch.bfloat16)


@pytest.fixture(autouse=True)
def cuda(monkeypatch: pytest.MonkeyPatch) -> FakeCuda:
    fake = FakeCuda()
    monkeypatch.setattr(graph_recording, "cuda", fake)
    monkeypatch.setattr(graph_recording, "_streams", type(graph_recording._streams)())
    monkeypatch.setattr(loaded_model, "is_on_cuda", lambda _: True)
    return fake


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """The models of `make_model` are 32 wide: the largest errors of two right passes vary by a third in float32."""
    monkeypatch.setattr(fused_check, "MOST_RATIO", 2.0)


class Decoder:
    """What a recorder needs of a language model."""

    device = torch.device("cpu")


DECODER: Any = Decoder()


def source(dtype: torch.dtype = torch.float32, activation: str = "quick_gelu") -> CLIPVisionModel:
    """A tower of three layers, 16 patches and CLIP's own spread of states."""
    config = small_vision(hidden_size=256, intermediate_size=1024, num_hidden_layers=3, hidden_act=activation)
    model = CLIPVisionModel(config).eval().requires_grad_(False)
    generator = torch.Generator().manual_seed(0)
    for name, parameter in model.named_parameters():
        if parameter.dim() > 1:
            parameter.normal_(0, parameter[0].numel() ** -0.5, generator=generator)
        elif name.endswith("bias"):
            parameter.normal_(0, 0.1, generator=generator)
    return model.to(dtype)


def pixels(frames: int, seed: int = 1, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(frames, 3, 56, 56, generator=torch.Generator().manual_seed(seed)).to(dtype)


def asked(**switches: Any) -> GenerationSettings:
    return GenerationSettings(max_new_tokens=4, frames=3, event_frames=3, switches=Switches(**switches))


def seen(model: Any, sample: Any, settings: GenerationSettings) -> torch.Tensor:
    inputs = model.preprocess(model.load(sample, settings, CLOCK), "What?", settings, CLOCK)
    return model.encode_vision(inputs, CLOCK).clone()


@pytest.mark.usefixtures("without_gradients")
@pytest.mark.parametrize("layer", [-2, -1])
def test_a_replayed_pass_is_that_of_its_pixels(layer: int) -> None:
    model = source()
    tower = CapturedTower(model, layer)
    tower.capture_for({2, 3}, DECODER)
    for frames, seed in ((2, 5), (3, 6), (2, 7)):
        shown = pixels(frames, seed)
        states = model(pixel_values=shown, output_hidden_states=True).hidden_states
        found = tower(shown)
        assert tower.taken == "graphs"
        assert_close(found.last, states[layer])
        assert_close(found.before, states[layer - 1])


@pytest.mark.usefixtures("without_gradients")
def test_frames_in_another_number_take_the_eager_pass(cuda: FakeCuda) -> None:
    tower = CapturedTower(source())
    tower.capture_for({2}, DECODER)
    recorded = len(cuda.recorded_on)
    assert len(tower(pixels(4)).last) == 4
    assert tower.taken == "eager"
    assert len(cuda.recorded_on) == recorded


@pytest.mark.usefixtures("without_gradients")
@pytest.mark.parametrize("activation", ["quick_gelu", "gelu"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_pass_is_as_exact_as_transformers(dtype: torch.dtype, activation: str) -> None:
    tower = CapturedTower(source(dtype, activation))
    tower.capture_for({2}, DECODER)
    assert tower.problem is None


class Planted(ClipLayer):
    """A layer with one thing wrong."""

    def __init__(self, layer: ClipLayer, error: str) -> None:
        self.__dict__.update(vars(layer))
        self.error = error
        if error == "GELU for quick GELU":
            self.activation, self.up_bias, self.factor = torch.nn.functional.gelu, layer.up.bias, 1.0
        elif error == "no bias":
            self.up_bias = torch.zeros_like(layer.up_bias)
        elif error == "bias without its factor":
            self.up_bias = layer.up.bias

    def project(self, hidden: torch.Tensor) -> tuple[torch.Tensor, ...]:
        queries, keys, values = super().project(hidden)
        if self.error == "queries and keys exchanged":
            return keys, queries, values
        if self.error == "scores 2 % too large":
            return 1.02 * queries, keys, values
        if self.error == "class token unseen":
            return queries, keys[:, :, 1:], values[:, :, 1:]
        return queries, keys, values


@pytest.mark.usefixtures("without_gradients")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "error",
    [
        "GELU for quick GELU",
        "no bias",
        "bias without its factor",
        "queries and keys exchanged",
        "class token unseen",
        "scores 2 % too large",
    ],
)
def test_a_pass_that_computes_something_else_is_not_taken(dtype: torch.dtype, error: str) -> None:
    tower = CapturedTower(source(dtype))
    tower.layers[1] = Planted(tower.layers[1], error)
    tower.capture_for({2}, DECODER)
    assert "layer 2 of the vision tower is " in str(tower.problem)
    tower(pixels(2, dtype=dtype))
    assert tower.taken == "eager"


@pytest.mark.usefixtures("without_gradients")
def test_a_graph_that_replays_something_else_is_not_taken(cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch) -> None:
    tower = CapturedTower(source())
    monkeypatch.setattr("fake_cuda.FakeGraph.replay", lambda graph: graph.done[-1][-1].mul_(1.1))
    tower.capture_for({2}, DECODER)
    assert str(tower.problem).startswith("the captured vision tower is ")


@pytest.mark.usefixtures("without_gradients", "narrow")
@pytest.mark.parametrize("switches", [{}, {"visual_keep": 0.5}, {"projector": "fused"}], ids=str)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_run_sees_what_an_eager_one_sees(family: str, switches: dict[str, Any], make_model, sample) -> None:
    model, kinds, found = make_model(family), [], []
    for step in ("eager", "auto", "graphs", "eager"):
        settings = asked(step=step, **switches)
        model.make_ready(settings)
        found.append(seen(model, sample, settings))
        kinds.append(model.vision_pass)
    assert kinds == ["eager", "graphs", "graphs", "eager"]
    for each in found[1:]:
        assert_close(each, found[0])


@pytest.mark.usefixtures("without_gradients", "narrow")
def test_what_cannot_be_captured_runs_eagerly_with_a_warning(cuda: FakeCuda, make_model, sample) -> None:
    model = make_model("video_llava")
    expected = seen(model, sample, asked())
    cuda.fails = "the driver refuses"
    for _ in range(2):
        model.make_ready(asked())
        assert_close(seen(model, sample, asked()), expected)
        assert model.vision_pass == "eager"
        assert model.warnings == (
            "The vision tower is not captured as a CUDA graph but runs eagerly: the driver refuses.",
        )
    cuda.fails = None
    model.release()
    model.make_ready(asked())
    assert model.warnings == ()
    seen(model, sample, asked())
    assert model.vision_pass == "graphs"
