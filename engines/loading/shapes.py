"""Models with random weights in true shapes, the shapes that benchmarks run, and their sizes for the roofline."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch

from engines import CATALOGUE
from engines.checkpoints.config import (
    CLIP_L14,
    QWEN2_1_5B,
    VICUNA_7B,
    ModelConfig,
    edge,
    number,
    patches,
    text_config,
    vision_config,
)
from engines.checkpoints.naming import source_name
from engines.families.llava_model import LlavaConfig
from engines.families.loaded_model import Network, make_language_model
from engines.families.networks import build_empty, engine_family, finish, parameter_shapes, put_parameter
from engines.tokens.tokenization import SyntheticVocabulary
from evprof.core.errors import USAGE, Cancelled, UserError
from evprof.core.protocols import StopFlag
from evprof.core.vocabulary.families import FAMILIES, TextShape, VisionShape
from evprof.core.vocabulary.generation import GenerationSettings

if TYPE_CHECKING:
    from transformers import LlamaConfig, LlamaForCausalLM

PREFIX = "random:"

_LLAMA_160M: dict[str, Any] = {
    "vocab_size": 32_000,
    "hidden_size": 768,
    "intermediate_size": 3072,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "num_key_value_heads": 12,
    "max_position_embeddings": 4096,
    "rms_norm_eps": 1e-5,
}
_SMALL_CLIP: dict[str, Any] = {
    "hidden_size": 384,
    "intermediate_size": 1536,
    "num_hidden_layers": 6,
    "num_attention_heads": 6,
    "image_size": 224,
    "patch_size": 32,
    "projection_dim": 384,
}
_SCORE_GAIN = 1.5
"""Of queries and keys each. At 1 greedy text ends in repeated tokens; at 2 bfloat16 changes a third of the tokens."""

_SIZES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "160m": (_SMALL_CLIP, _LLAMA_160M),
    "1.5b": (CLIP_L14, QWEN2_1_5B),
    "7b": (CLIP_L14, VICUNA_7B),
}
"""Tower and language model by the size in a name; a tower that names no `image_size` has the family's."""


def random_config(name: str) -> ModelConfig:
    """The configuration behind a `random:` name. Raises UserError (exit code 2) for an unknown one."""
    entry = next((entry for entry in CATALOGUE if entry.is_random and entry.name == name), None)
    if entry is None:
        known = ", ".join(entry.name for entry in CATALOGUE if entry.is_random)
        raise UserError(f"Unknown model '{name}'; the random ones are {known}.", exit_code=USAGE)
    tower, text = _SIZES[name.removeprefix(PREFIX).partition("-")[0]]
    vision = vision_config({"image_size": FAMILIES[entry.family].image_size, **tower})
    return engine_family(entry.family).random(vision, text)


def random_vocabulary(config: ModelConfig) -> SyntheticVocabulary:
    return SyntheticVocabulary(engine_family(config.family).extra_tokens)


def build_random(
    config: ModelConfig,
    device: torch.device,
    dtype: torch.dtype,
    progress: Callable[[int, int], None],
    stop: StopFlag,
    *,
    seed: int = 0,
    home: torch.device | None = None,
) -> Network:
    """A network with random weights, each tensor with a seed from its name. Tensors are drawn on `device` and kept on
    `home`. Raises Cancelled when `stop` is set between two tensors."""
    home = home or device
    network = build_empty(config)
    shapes = parameter_shapes(network)
    total = sum(torch.Size(shape).numel() for shape in shapes.values()) * dtype.itemsize
    done = 0
    for name, shape in shapes.items():
        if stop.is_set():
            raise Cancelled
        generator = torch.Generator(device).manual_seed(zlib.crc32(f"{seed}:{source_name(config, name)}".encode()))
        tensor = torch.empty(shape, device=device, dtype=dtype)
        _fill(name, tensor, generator, config.text)
        put_parameter(network, name, tensor.to(home))
        done += tensor.nbytes
        progress(done, total)
    finish(network, home)
    return network


def _fill(name: str, tensor: torch.Tensor, generator: torch.Generator, text: LlamaConfig) -> None:
    if tensor.dim() == 1 and not name.endswith("class_embedding"):
        tensor.fill_(1.0 if name.endswith("weight") else 0.0)
        return
    if name.endswith("embed_tokens.weight") and not text.tie_word_embeddings:
        tensor.normal_(0.0, 1.0, generator=generator)
        return
    fan_in = tensor[0].numel() if tensor.dim() > 1 else tensor.numel()
    is_scored = name.startswith("language_model.") and ("q_proj" in name or "k_proj" in name)
    gain = _SCORE_GAIN if is_scored else 1.0
    tensor.normal_(0.0, gain * fan_in**-0.5, generator=generator)
    # Embeddings that are the head as well are as small as a head: larger, each word would be followed by itself.
    if name.endswith(("lm_head.weight", "embed_tokens.weight")):
        tensor[:3] = 0.0
        tensor[SyntheticVocabulary.SHARED : text.vocab_size] = 0.0


SEED = 20_240_601

LANGUAGE_SHAPES: dict[str, dict[str, Any]] = {
    "tiny": {"num_hidden_layers": 2, "hidden_size": 64, "intermediate_size": 172},
    "dispatch-32": {"num_hidden_layers": 32, "hidden_size": 64, "intermediate_size": 172},
    "160m": {"num_hidden_layers": 12, "hidden_size": 768, "intermediate_size": 3072},
}
"""Language models alone, with a small vocabulary. dispatch-32 has a 7B model's number of calls and next to no
arithmetic: the worst case for whatever costs time per call."""

_TINY_TOWER: dict[str, Any] = {
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "image_size": 28,
    "patch_size": 14,
}

_SMALL_PROMPT = 16

_LLAMA_1B: dict[str, Any] = {
    "vocab_size": 32_064,
    "hidden_size": 2048,
    "intermediate_size": 5632,
    "num_hidden_layers": 22,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "max_position_embeddings": 4096,
    "rms_norm_eps": 1e-5,
}
"""TinyLlama-1.1B's sizes: a small model with grouped keys and values."""

_NETWORKS = {
    "160m": "random:160m-video-llava",
    "1b": "random:160m-video-llava",
    "1.5b-eventgpt-plus": "random:1.5b-eventgpt-plus",
    "7b-eventgpt": "random:7b-eventgpt",
    "7b-llava": "random:7b-llava",
    "7b-video-llava": "random:7b-video-llava",
}

TINY_NETWORK = "tiny-video-llava"
"""The shape "tiny" with a tower, for showing that something works."""

SHAPES = ("tiny", TINY_NETWORK, "dispatch-32", *_NETWORKS)


@dataclass(frozen=True)
class BenchShape:
    """The language model's configuration, the network's, and the prompt's positions for the family's frames."""

    name: str
    text: LlamaConfig
    network: ModelConfig | None
    prompt: int


def bench_shape(name: str) -> BenchShape:
    """The shape of a name. Raises UserError (exit code 2) for an unknown one."""
    if name not in SHAPES:
        raise UserError(f"Unknown shape '{name}'; choose one of {', '.join(SHAPES)}.", exit_code=USAGE)
    if name in LANGUAGE_SHAPES and name not in _NETWORKS:
        return BenchShape(name, language_config(LANGUAGE_SHAPES[name]), None, _SMALL_PROMPT)
    if name == TINY_NETWORK:
        text = language_config(LANGUAGE_SHAPES["tiny"])
        network = LlavaConfig(vision_config(_TINY_TOWER), text, family="video_llava", slot_id=500, keeps_cls=True)
        return BenchShape(name, text, network, _SMALL_PROMPT)
    config = random_config(_NETWORKS[name])
    if name == "1b":
        config = replace(config, text=text_config(_LLAMA_1B))
    return BenchShape(name, config.text, config, visual_positions(config) + FAMILIES[config.family].text_positions)


def visual_positions(config: ModelConfig) -> int:
    frames = FAMILIES[config.family].frames
    return engine_family(config.family).visual_counts(config, frames, GenerationSettings()).total


def language_config(sizes: dict[str, Any]) -> LlamaConfig:
    from transformers import LlamaConfig

    return LlamaConfig(
        vocab_size=512,
        max_position_embeddings=256,
        initializer_range=0.2,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=None,
        num_attention_heads=4,
        num_key_value_heads=4,
        **sizes,
    )


def build_language_model(config: LlamaConfig) -> LlamaForCausalLM:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        model = make_language_model(config)
    model.eval()
    model.requires_grad_(False)
    return model


def text_shape(config: LlamaConfig) -> TextShape:
    heads = config.num_attention_heads
    return TextShape(
        layers=config.num_hidden_layers,
        hidden=config.hidden_size,
        intermediate=config.intermediate_size,
        heads=heads,
        kv_heads=config.num_key_value_heads or heads,
        head_dim=config.head_dim or config.hidden_size // heads,
        vocabulary=config.vocab_size,
        is_tied=bool(config.tie_word_embeddings),
    )


def vision_shape(config: ModelConfig) -> VisionShape:
    vision, hidden = config.vision, config.text.hidden_size
    width, depth = number(vision.hidden_size), number(vision.num_hidden_layers)
    projections = ((width, hidden), (hidden, hidden))
    used = config.feature_layer if config.feature_layer >= 0 else depth + 1 + config.feature_layer
    return VisionShape(
        frames=FAMILIES[config.family].frames,
        layers=used,
        width=width,
        intermediate=number(vision.intermediate_size),
        patch=number(vision.patch_size),
        patches=patches(vision),
        kept=config.tokens_per_frame,
        projected=config.projected_tokens if config.projected_tokens != config.tokens_per_frame else None,
        projections=(*projections, (hidden, hidden)) if config.has_adaptor else projections,
        channels=number(vision.num_channels),
    )


def pixel_shape(config: ModelConfig) -> tuple[int, int, int, int]:
    """[T, 3, H, W] of the tower's input."""
    pixels = edge(config.vision)
    return FAMILIES[config.family].frames, number(config.vision.num_channels), pixels, pixels
