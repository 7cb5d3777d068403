"""What every contender decodes: one model with random weights, seen both by transformers and by our decoder."""

from __future__ import annotations

from dataclasses import dataclass, replace
from threading import Event
from typing import TYPE_CHECKING

import torch
from torch import nn

from engines.decoder.llama import LlamaDecoder
from engines.families.loaded_model import Network
from engines.families.networks import build_empty
from engines.hardware.device import dtype_name
from engines.loading.shapes import (
    SEED,
    BenchShape,
    build_language_model,
    build_random,
    pixel_shape,
    text_shape,
)
from evprof.core.errors import UserError
from evprof.core.units import bytes_text
from evprof.metrics.limits.workload import kv_bytes_per_position

if TYPE_CHECKING:
    from transformers import LlamaForCausalLM


@dataclass(frozen=True, eq=False)
class Workload:
    """`model` and `decoder` share weights; `embeddings` [1, S, hidden] is the prompt, `tokens` follow. `network` and
    `pixels` [T, 3, H, W] exist for shapes with a tower."""

    model: LlamaForCausalLM
    decoder: LlamaDecoder
    embeddings: torch.Tensor
    tokens: int
    device: torch.device
    dtype: torch.dtype
    network: Network | None = None
    pixels: torch.Tensor | None = None

    @property
    def prompt(self) -> int:
        return int(self.embeddings.shape[1])

    @property
    def capacity(self) -> int:
        return self.prompt + self.tokens

    @property
    def step_count(self) -> int:
        return self.tokens - 1

    def with_context(self, context: int) -> Workload:
        with torch.no_grad():
            return replace(self, embeddings=_random_prompt(self.decoder, context))


def make_workload(shape: BenchShape, context: int, tokens: int, device: torch.device, dtype: torch.dtype) -> Workload:
    """Draws the same weights and prompt each time. Uses no_grad, because compilers refuse some inference tensors."""
    with torch.no_grad():
        network, pixels = None, None
        if shape.network is None:
            model = build_language_model(shape.text)
            nn.Module.to(model, device=device, dtype=dtype)
        else:
            network = build_random(shape.network, device, dtype, lambda _done, _total: None, Event())
            model = network.language_model
            generator = torch.Generator(device).manual_seed(SEED)
            pixels = torch.randn(pixel_shape(shape.network), device=device, dtype=dtype, generator=generator)
        decoder = LlamaDecoder.take_over(model)
        prompt = _random_prompt(decoder, context)
        return Workload(model, decoder, prompt, tokens, device, dtype, network, pixels)


def _random_prompt(decoder: LlamaDecoder, context: int) -> torch.Tensor:
    """The same [1, context, hidden] each time."""
    generator = torch.Generator().manual_seed(SEED + context)
    ids = torch.randint(3, min(decoder.config.vocab_size, 32_000), (1, context), generator=generator)
    return decoder.embed(ids.to(decoder.device))


def check_room(
    shape: BenchShape, capacity: int, contenders: int, device: torch.device, dtype: torch.dtype, *, free: int
) -> None:
    """Raises UserError where weights and caches of `capacity` positions take more than is free on the device.

    Each contender keeps its cache while others have their turn.
    """
    text = text_shape(shape.text)
    parameters = text.parameters
    if shape.network is not None:
        parameters = sum(parameter.numel() for parameter in build_empty(shape.network).parameters())
    weights = parameters * dtype.itemsize
    caches = int(contenders * capacity * kv_bytes_per_position(text, dtype.itemsize))
    if weights + caches > free:
        other = "--dtype bfloat16 or " if dtype == torch.float32 else ""
        raise UserError(
            f"Shape {shape.name} in {dtype_name(dtype)} needs {bytes_text(weights + caches)} on {device} (weights "
            f"{bytes_text(weights)}, KV caches {bytes_text(caches)}), but {bytes_text(free)} is free; choose {other}a "
            "smaller --shape."
        )
