"""The fused step over packed weights: what the eager step computes with the same weights unpacked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from engines.decoder.fused_check import tune_decoder
from engines.decoder.fused_pass import FusedPass, fusing_problem
from engines.decoder.kv_cache import StaticKv
from engines.decoder.llama import LlamaDecoder
from engines.decoder.quantization import PackedLinear, quantize_weights
from engines.kernels import projections, tuning

CPU = torch.device("cpu")


@pytest.fixture
def decoder(kind: str) -> LlamaDecoder:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=40,
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        initializer_range=0.2,
    )
    made = LlamaDecoder.take_over(LlamaForCausalLM(config).eval())
    quantize_weights(made, kind, CPU)
    return made


@pytest.mark.parametrize("tokens", [1, 3])
@pytest.mark.parametrize("kind", ["int8", "int4", "fp8"])
@torch.inference_mode()
def test_logits_of_packed_weights(decoder: LlamaDecoder, tokens: int) -> None:
    assert fusing_problem(decoder) == ""
    cache = StaticKv(decoder.config, 32, device=CPU, dtype=torch.float32)
    ids = torch.arange(20)[None]
    decoder.rotary.reach(32)
    decoder.trunk(decoder.embed(ids), cache)
    for layer in decoder.ordered:
        for module in layer.children():
            unpacking: Any = module
            unpacking._has_kernel = (False, False)
    fed = ids[:, :tokens]
    wanted = decoder.head(decoder.trunk(decoder.embed(fed), cache))
    cache.crop(20)
    found, _ = FusedPass(decoder)(decoder, fed, torch.tensor([20]), cache)
    assert float((found - wanted).abs().max()) < 1e-5 * float(wanted.abs().max())


@pytest.mark.parametrize("kind", ["int8"])
def test_packed_linears_read_with_kernels_what_they_unpack_without(decoder: LlamaDecoder) -> None:
    packed: Any = decoder.ordered[0].down
    assert isinstance(packed, PackedLinear)
    rows = torch.randn(1, 3, 96)
    found = packed(rows)
    packed._has_kernel = (False, False)
    assert torch.allclose(found, packed(rows), atol=1e-5)


@pytest.mark.parametrize("kind", ["int8"])
def test_a_decoder_is_tuned_once_for_one_token_and_once_for_several(
    decoder: LlamaDecoder, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tuning, "cache_folder", lambda: tmp_path)
    monkeypatch.setattr(projections, "chosen_tilings", {})
    monkeypatch.setattr(tuning, "chosen_tilings", projections.chosen_tilings)
    timed = []

    def measure(call: Callable[[], object], device: torch.device) -> float:
        timed.append(device)
        return 1.0

    tune_decoder(decoder, [1, 5, 7], measure=measure)
    products = [product for _, product in projections.chosen_tilings]
    assert [product.tokens for product in products] == [1] * 5 + [16] * 5
    assert {product.rows for product in products if product.gated} == {96}
    count = len(timed)
    tune_decoder(decoder, [1, 16], measure=measure)
    assert len(timed) == count
