"""Models in true shapes with random weights: for timing, for live tests, for a machine without a checkpoint.

The same name gives the same weights on the same kind of device. Text is made-up words, different ones as it goes on.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from engines import CATALOGUE
from engines.checkpoints.config import CLIP_L14, VICUNA_7B, ModelConfig, vision_config
from engines.checkpoints.layer_drop import source_name
from engines.checkpoints.qwen2_text import QWEN2_1_5B
from engines.families.family import engine_family
from engines.families.loaded_model import Network
from engines.families.networks import build_empty, finish, parameter_shapes, put_parameter
from engines.tokens.tokenization import SyntheticVocabulary
from evprof.core.errors import USAGE, Cancelled, UserError
from evprof.core.protocols import StopFlag
from evprof.core.vocabulary.families import FAMILIES

if TYPE_CHECKING:
    from transformers import LlamaConfig

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
    """The vocabulary all random models share, with the family's own tokens above it."""
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
    """A network with random weights. Raises Cancelled when `stop` is set between two tensors.

    Each tensor has its own seed, from its name, so that a part does not depend on what was drawn before it. What is
    drawn on `device` is kept on `home`, by default there.
    """
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
    """Norms are one, biases zero; the rest is drawn so that signals keep their size through the layers.

    Queries and keys of the language model are larger by `_SCORE_GAIN`, so that its attention does not average the
    whole prompt.
    """
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
        _silence(tensor, text)


def _silence(head: torch.Tensor, text: LlamaConfig) -> None:
    """Rows of zeros for the special tokens and the rows past the shared vocabulary: with 32,000 others about zero on
    both sides, none of these is ever the largest, so random text is all words and never ends early."""
    head[:3] = 0.0
    head[SyntheticVocabulary.SHARED : text.vocab_size] = 0.0
