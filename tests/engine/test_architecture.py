"""What a model is built of and how much it computes, told from its configuration."""

from __future__ import annotations

import json

import pytest

from engines.inspection import describe_model
from engines.loading.weights import find_checkpoint
from evprof.core.vocabulary.generation import GenerationSettings

SETTINGS = GenerationSettings(max_new_tokens=101, frames=8, event_frames=5)


def described(name: str) -> dict:
    found = describe_model(find_checkpoint(name).config, SETTINGS)
    assert json.loads(json.dumps(found)) == found
    return found


@pytest.mark.parametrize(
    ("name", "image_size", "tokens", "projector"),
    [
        ("random:7b-eventgpt", 336, 577, "linear 1024→4096, gelu, linear 4096→4096, adaptor 4096→4096, mean pooling"),
        ("random:7b-llava", 336, 576, "linear 1024→4096, gelu, linear 4096→4096"),
        ("random:7b-video-llava", 224, 257, "linear 1024→4096, gelu, linear 4096→4096"),
        ("random:7b-llava-next-video", 336, 144, "average of 2 x 2 patches, linear 1024→4096"),
    ],
)
def test_the_published_models_are_named_by_their_shapes(
    name: str, image_size: int, tokens: int, projector: str
) -> None:
    built = described(name)["architecture"]
    assert built["backbone"] == "Llama, Vicuna-7B's shape"
    assert built["vision_tower"] == f"CLIP ViT-L/14, {image_size} px"
    assert (built["image_size"], built["vision_heads"], built["tokens_per_frame"]) == (image_size, 16, tokens)
    assert built["projector"].startswith(projector)


def test_operations_are_two_for_every_weight_and_position() -> None:
    """Prompt: 8 · 576 visual positions and 35 of text. Attention comes on top, which is small at these lengths."""
    flops = described("random:7b-llava")["flops"]
    weights = 32 * (4 * 4096**2 + 3 * 4096 * 11_008)
    assert flops["prefill_positions"] == 8 * 576 + 35
    assert 1 < flops["prefill"] / (2 * weights * flops["prefill_positions"]) < 1.2
    assert flops["decode_context"] == 8 * 576 + 35 + 101 / 2
    assert 1 < flops["decode_per_token"] / (2 * (weights + 32_064 * 4096)) < 1.2
    tower = 23 * (4 * 1024**2 + 2 * 1024 * 4096)
    assert 1 < flops["vision_per_frame"] / (2 * 577 * (tower + 1024 * 4096 + 4096**2)) < 1.1
