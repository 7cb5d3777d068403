"""Small configurations, and models of the LLaVA families beside those of transformers on the same weights."""

from __future__ import annotations

from typing import Any

import torch
from transformers import (
    CLIPVisionConfig,
    LlamaConfig,
    LlavaForConditionalGeneration,
    LlavaNextVideoForConditionalGeneration,
    VideoLlavaForConditionalGeneration,
)
from transformers import LlavaConfig as TheirLlavaConfig
from transformers import LlavaNextVideoConfig as TheirLlavaNextVideoConfig
from transformers import VideoLlavaConfig as TheirVideoLlavaConfig

from engines.decoder.llama import LlamaDecoder
from engines.families.llava_model import LlavaConfig, LlavaModel, VideoLanguageModel
from engines.families.networks import build_network, engine_family, finish
from engines.loading.shapes import random_vocabulary
from engines.loading.weights import Checkpoint, model_facts
from engines.stages.pixel_values import ClipTransform
from engines.tokens.prompts import SLOT
from tensor_names import LLAVA, LLAVA_NEXT_VIDEO, VIDEO_LLAVA, vendor_name

ROWS = 32_064
"""Rows of the LLaVA families' embeddings."""
CPU = torch.device("cpu")
SLOT_IDS = {LLAVA: 32_000, VIDEO_LLAVA: 32_001, LLAVA_NEXT_VIDEO: 32_000}
CLASSES: dict[str, tuple[Any, Any]] = {
    LLAVA: (LlavaForConditionalGeneration, TheirLlavaConfig),
    VIDEO_LLAVA: (VideoLlavaForConditionalGeneration, TheirVideoLlavaConfig),
    LLAVA_NEXT_VIDEO: (LlavaNextVideoForConditionalGeneration, TheirLlavaNextVideoConfig),
}
"""Classes of transformers: model, configuration."""
UNENDING = {"bos_token_id": None, "eos_token_id": None, "pad_token_id": None}
"""Settings of a language model without special tokens."""


def small_vision(**changes: Any) -> CLIPVisionConfig:
    """A tower of two layers, with 16 patches of 14 x 14 pixels."""
    sizes: dict[str, Any] = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
    return CLIPVisionConfig(**{**sizes, "num_attention_heads": 4, "image_size": 56, "patch_size": 14, **changes})


def small_text(vocab_size: int, **changes: Any) -> LlamaConfig:
    """A language model of two layers and 64 columns, with two query heads for each head of keys."""
    sizes: dict[str, Any] = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2}
    return LlamaConfig(**{"vocab_size": vocab_size, **sizes, **heads, "max_position_embeddings": 512, **changes})


def llava_config(
    family: str, *, side: int = 4, pooling: str = "average", stride: int = 2, layers: int = 3
) -> LlavaConfig:
    """A model of the family; `side` is the number of patches along one edge of a frame."""
    is_next = family == LLAVA_NEXT_VIDEO
    return LlavaConfig(
        small_vision(num_hidden_layers=3, image_size=4 * side, patch_size=4),
        small_text(ROWS, num_hidden_layers=layers, bos_token_id=None, eos_token_id=None),
        family=family,
        slot_id=SLOT_IDS[family],
        keeps_cls=family == VIDEO_LLAVA,
        image_token_id=32_001 if is_next else 32_000,
        pooling=pooling if is_next else None,
        pool_stride=stride,
    )


def random_network(config: LlavaConfig, seed: int = 1) -> LlavaModel:
    """A network whose text does not settle: weights have a spread of 0.2, norms keep their first values."""
    torch.manual_seed(seed)
    network = build_network(config).eval().requires_grad_(False)
    assert isinstance(network, LlavaModel)
    for name, parameter in network.named_parameters():
        if "norm" not in name:
            torch.nn.init.normal_(parameter, std=0.2)
    finish(network, CPU)
    return network


def transformers_model(config: LlavaConfig, network: LlavaModel) -> Any:
    """The model of transformers with the weights of `network`."""
    model_class, config_class = CLASSES[config.family]
    values: dict[str, Any] = {"vision_config": config.vision, "text_config": config.text}
    if config.family == LLAVA_NEXT_VIDEO:
        values |= {"spatial_pool_mode": config.pooling, "spatial_pool_stride": config.pool_stride}
    theirs = model_class(config_class(**values))
    theirs.load_state_dict({vendor_name(name): value for name, value in network.named_parameters()})
    return theirs.eval()


def video_model(network: LlavaModel, decoder: LlamaDecoder | None = None) -> VideoLanguageModel:
    config = network.config
    edge = config.vision.image_size
    assert isinstance(edge, int)
    return VideoLanguageModel(
        network,
        decoder or LlamaDecoder.take_over(network.language_model),
        random_vocabulary(config),
        ClipTransform.square(edge),
        facts=model_facts(Checkpoint("pair", config, None), network, CPU, torch.float32),
        template=engine_family(config.family).layout(config),
    )


def transformers_ids(inputs: Any, slot_id: int) -> list[int]:
    """The ids of a prompt for transformers: the id of a slot stands for each visual token."""
    share = inputs.lengths.visual // inputs.token_ids.count(SLOT)
    return [part for token in inputs.token_ids for part in ([slot_id] * share if token == SLOT else [token])]
