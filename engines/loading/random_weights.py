"""Models in true shapes with random weights: for timing, for live tests, for a machine without a checkpoint.

The same name gives the same weights on the same kind of device. Text is made-up words, different ones as it goes on.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import torch
from transformers import CLIPVisionConfig, LlamaConfig

from engines.checkpoints.config import CLIP_L14, VICUNA_7B, EventGptConfig, LlavaConfig, ModelConfig
from engines.checkpoints.layer_drop import source_name
from engines.checkpoints.naming import LLAVA, LLAVA_NEXT_VIDEO, VIDEO_LLAVA
from engines.families.networks import Network, build_empty, finish, parameter_shapes, put_parameter
from engines.tokens.tokenization import SyntheticVocabulary
from evprof.core.errors import USAGE, Cancelled, UserError
from evprof.core.protocols import StopFlag

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
_PUBLISHED_ROWS = 32_064
"""Rows of the published vocabularies of the LLaVA families: 32,000 shared, a few own tokens, padding."""

_GAINS = {"q_proj": 4.0, "k_proj": 4.0, "o_proj": 2.0}

_EXTRA_TOKENS = {
    VIDEO_LLAVA: ("<image>", "<video>", "<pad>"),
    LLAVA: ("<image>", "<pad>"),
    LLAVA_NEXT_VIDEO: ("<video>", "<image>", "<pad>"),
}


def random_config(name: str) -> ModelConfig:
    """The configuration behind a `random:` name. Raises UserError (exit code 2) for an unknown one."""
    makers: dict[str, Callable[[], ModelConfig]] = {
        "random:160m-eventgpt": lambda: EventGptConfig(CLIPVisionConfig(**_SMALL_CLIP), LlamaConfig(**_LLAMA_160M)),
        "random:160m-video-llava": lambda: _llava(VIDEO_LLAVA, CLIPVisionConfig(**_SMALL_CLIP), _LLAMA_160M),
        "random:160m-llava": lambda: _llava(LLAVA, CLIPVisionConfig(**_SMALL_CLIP), _LLAMA_160M),
        "random:160m-llava-next-video": lambda: _llava(LLAVA_NEXT_VIDEO, CLIPVisionConfig(**_SMALL_CLIP), _LLAMA_160M),
        "random:7b-eventgpt": lambda: EventGptConfig(
            CLIPVisionConfig(**CLIP_L14, image_size=336), LlamaConfig(**VICUNA_7B)
        ),
        "random:7b-llava": lambda: _llava(LLAVA, CLIPVisionConfig(**CLIP_L14, image_size=336), VICUNA_7B),
        "random:7b-video-llava": lambda: _llava(VIDEO_LLAVA, CLIPVisionConfig(**CLIP_L14, image_size=224), VICUNA_7B),
        "random:7b-llava-next-video": lambda: _llava(
            LLAVA_NEXT_VIDEO, CLIPVisionConfig(**CLIP_L14, image_size=336), VICUNA_7B
        ),
    }
    if name not in makers:
        raise UserError(f"Unknown model '{name}'; the random ones are {', '.join(makers)}.", exit_code=USAGE)
    return makers[name]()


def _llava(family: str, vision: CLIPVisionConfig, text: dict[str, Any]) -> LlavaConfig:
    extra = _EXTRA_TOKENS[family]
    return LlavaConfig(
        family,
        vision,
        LlamaConfig(**{**text, "vocab_size": _PUBLISHED_ROWS}),
        slot_id=SyntheticVocabulary.SHARED + extra.index("<image>" if family == LLAVA else "<video>"),
        keeps_cls=family == VIDEO_LLAVA,
        image_token_id=SyntheticVocabulary.SHARED + extra.index("<image>"),
        pooling="average" if family == LLAVA_NEXT_VIDEO else None,
    )


def random_vocabulary(config: ModelConfig) -> SyntheticVocabulary:
    """The vocabulary all random models share, with the family's own tokens above it."""
    return SyntheticVocabulary(_EXTRA_TOKENS.get(config.family, ()))


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

    Queries and keys of the language model are larger than that: its attention then picks out single positions, other
    ones at each step, instead of averaging the whole prompt, and the text does not fall into repeating a few words.
    """
    if tensor.dim() == 1 and not name.endswith("class_embedding"):
        tensor.fill_(1.0 if name.endswith("weight") else 0.0)
        return
    if name.endswith("embed_tokens.weight"):
        tensor.normal_(0.0, 1.0, generator=generator)
        return
    fan_in = tensor[0].numel() if tensor.dim() > 1 else tensor.numel()
    gain = next((gain for part, gain in _GAINS.items() if name.startswith("language_model.") and part in name), 1.0)
    tensor.normal_(0.0, gain * fan_in**-0.5, generator=generator)
    if name.endswith("lm_head.weight"):
        _silence(tensor, text)


def _silence(head: torch.Tensor, text: LlamaConfig) -> None:
    """Rows of zeros for the special tokens and the rows past the shared vocabulary: with 32,000 others about zero on
    both sides, none of these is ever the largest, so random text is all words and never ends by itself."""
    head[:3] = 0.0
    head[SyntheticVocabulary.SHARED : text.vocab_size] = 0.0
