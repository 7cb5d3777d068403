"""Small decoders with random weights."""

from __future__ import annotations

from typing import Any

import torch
from transformers import LlamaForCausalLM

from engines.decoder.llama import LlamaDecoder
from engines.loading import shapes as random_weights
from small_models import small_text


def random_decoder(
    dtype: torch.dtype, *, layers: int = 2, width: int = 128, vocabulary: int = 500, kv_heads: int = 4
) -> LlamaDecoder:
    """A decoder with weights drawn as those of the `random:` models are; the same in every dtype but for rounding."""
    config = small_text(
        vocabulary,
        hidden_size=width,
        intermediate_size=4 * width,
        num_hidden_layers=layers,
        num_key_value_heads=kv_heads,
    )
    model: Any = LlamaForCausalLM(config)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            random_weights._fill(f"language_model.{name}", weight, generator, config)
    return LlamaDecoder.take_over(model.to(dtype).eval())
