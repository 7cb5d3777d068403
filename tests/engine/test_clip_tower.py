"""The vision tower: our pass gives the states of transformers' tower."""

from __future__ import annotations

import pytest
import torch
from transformers import CLIPVisionModel

from closeness import assert_close
from engines.families.clip_tower import ClipTower
from small_models import small_vision


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


@pytest.mark.usefixtures("without_gradients")
@pytest.mark.parametrize("activation", ["quick_gelu", "gelu"])
@pytest.mark.parametrize("layer", [-2, -1])
def test_states_are_those_of_transformers(layer: int, activation: str) -> None:
    model = source(activation=activation)
    tower = ClipTower(model, layer)
    for frames, seed in ((2, 5), (3, 6)):
        shown = pixels(frames, seed)
        states = model(pixel_values=shown, output_hidden_states=True).hidden_states
        found = tower(shown)
        assert_close(found.last, states[layer])
        assert_close(found.before, states[layer - 1])
