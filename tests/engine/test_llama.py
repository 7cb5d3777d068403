"""The lean decoder against transformers' Llama: heads, kernels, chunks, caches, rotary scalings, ends of the range."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from closeness import assert_close
from engines.decoder.decoding import CachedModel
from engines.decoder.kv_cache import DYNAMIC, STATIC, StaticKv
from engines.decoder.llama import LlamaDecoder
from engines.decoder.quantized_kv import make_cache
from engines.decoder.sampling import greedy
from evprof.core.errors import Cancelled, UserError

pytestmark = pytest.mark.usefixtures("without_gradients")

CPU = torch.device("cpu")
TOKENS = 64
SCALINGS: dict[str, dict[str, Any]] = {
    "linear": {"rope_type": "linear", "factor": 2.0},
    "yarn": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128},
    "llama3": {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64,
    },
}


def llama(seed: int = 0, **changes: Any) -> LlamaForCausalLM:
    torch.manual_seed(seed)
    values = {
        "vocab_size": 257,
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 512,
        "initializer_range": 0.2,
        "bos_token_id": None,
        "eos_token_id": None,
        "pad_token_id": None,
        **changes,
    }
    return LlamaForCausalLM(LlamaConfig(**values)).eval()


def prompt_of(length: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(0, 257, (1, length), generator=torch.Generator().manual_seed(seed))


def generated(model: Any, prompt: torch.Tensor, count: int = TOKENS) -> list[int]:
    return model.generate(prompt, max_new_tokens=count, do_sample=False)[0, prompt.shape[1] :].tolist()


def decoded(  # noqa: PLR0917 - the columns of the tables below
    model: LlamaForCausalLM,
    prompt: torch.Tensor,
    never: Any,
    kind: str = STATIC,
    chunk: int = 0,
    attention: str = "sdpa",
    capacity: int = 256,
    count: int = TOKENS,
) -> list[int]:
    decoder = LlamaDecoder.take_over(model)
    decoder.attention = attention
    cache = make_cache(kind, decoder.config, capacity=capacity, device=CPU, dtype=torch.float32)
    one = CachedModel(decoder, "target", CPU, decoder.rows, cache=cache, prefill_chunk=chunk)
    token = greedy(one.prefill(decoder.embed(prompt), never))
    ids = [int(token)]
    while len(ids) < count:
        token = greedy(one.step(token)[:, -1])
        ids.append(int(token))
    assert one.length == prompt.shape[1] + count - 1
    return ids


@pytest.mark.parametrize("kind", [STATIC, DYNAMIC])
@pytest.mark.parametrize("chunk", [0, 1, 7])
@pytest.mark.parametrize("attention", ["sdpa", "flash", "eager"])
@pytest.mark.parametrize("kv_heads", [1, 2, 4])
def test_text_is_that_of_generate(kv_heads: int, attention: str, chunk: int, kind: str, never: Any) -> None:
    model, prompt = llama(kv_heads, num_key_value_heads=kv_heads), prompt_of(23)
    expected = generated(model, prompt)
    assert len(set(expected)) >= 40
    assert decoded(model, prompt, never, kind, chunk, attention) == expected


@pytest.mark.parametrize("scaling", SCALINGS)
def test_scaled_rotary_positions(scaling: str, never: Any) -> None:
    model, prompt = llama(3, rope_parameters={**SCALINGS[scaling], "rope_theta": 1e4}), prompt_of(40, 3)
    expected = generated(model, prompt)
    assert len(set(expected)) >= 40
    assert decoded(model, prompt, never) == expected
    unscaled = llama(3)
    unscaled.load_state_dict(model.state_dict(), strict=False)
    assert decoded(unscaled, prompt, never) != expected


@pytest.mark.parametrize("kind", ["dynamic", "longrope"])
def test_scalings_that_change_with_the_length_are_refused(kind: str) -> None:
    model = llama()
    model.config.rope_parameters = {"rope_type": kind, "factor": 2.0, "rope_theta": 1e4}
    with pytest.raises(UserError, match=kind):
        LlamaDecoder.take_over(model)


@pytest.mark.parametrize(
    "changes",
    [
        {"tie_word_embeddings": True},
        {"attention_bias": True},
        {"mlp_bias": True},
        {"head_dim": 32},
        {"hidden_act": "gelu"},
        {"rms_norm_eps": 1e-2, "rope_theta": 5e5},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_what_a_configuration_may_say(changes: dict[str, Any], never: Any) -> None:
    model, prompt = llama(5, **changes), prompt_of(17, 5)
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            torch.nn.init.normal_(parameter, std=0.2)
    expected = generated(model, prompt)
    assert len(set(expected)) >= 30
    assert decoded(model, prompt, never) == expected


@pytest.mark.parametrize("kind", [STATIC, DYNAMIC])
def test_a_block_of_tokens_gives_the_logits_of_one_by_one(kind: str, never: Any) -> None:
    decoder = LlamaDecoder.take_over(llama(7))
    ids = prompt_of(31, 7)
    whole = decoder(decoder.embed(ids), fresh(decoder, kind), keep=31)
    cache = fresh(decoder, kind)
    parts = [decoder(decoder.embed(part), cache, keep=part.shape[1]) for part in ids.split([9, 1, 1, 5, 15], dim=1)]
    assert_close(torch.cat(parts, dim=1), whole)
    cache.crop(12)
    again = decoder(decoder.embed(ids[:, 12:]), cache, keep=19)
    assert_close(again, whole[:, 12:])
    assert decoder(decoder.embed(ids), fresh(decoder, kind)).shape == (1, 1, 257)


def fresh(decoder: LlamaDecoder, kind: str = STATIC) -> Any:
    return make_cache(kind, decoder.config, capacity=64, device=CPU, dtype=torch.float32)


def test_left_padding_changes_no_row(never: Any) -> None:
    decoder = LlamaDecoder.take_over(llama(8))
    long, short = prompt_of(12, 8), prompt_of(7, 9)
    both = torch.cat([long, torch.nn.functional.pad(short, (5, 0))])
    cache = StaticKv(decoder.config, 32, batch=2, device=CPU, dtype=torch.float32)
    cache.padding = torch.tensor([0, 5])
    together = decoder(decoder.embed(both), cache, keep=7)
    for row, ids in enumerate((long, short)):
        own = decoder(decoder.embed(ids), fresh(decoder), keep=7)
        assert_close(together[row], own[0])


def test_taking_over_makes_no_second_copy_and_leaves_the_source_usable() -> None:
    model, ids = llama(9, tie_word_embeddings=True), prompt_of(11, 9)
    before = model(ids).logits
    decoder = LlamaDecoder.take_over(model)
    assert_close(model(ids).logits, before)
    theirs = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    assert {parameter.untyped_storage().data_ptr() for parameter in decoder.parameters()} == theirs
    assert sum(p.numel() for p in decoder.parameters()) == sum(p.numel() for p in model.parameters())


def test_stop_is_seen_between_layers(stop_after: Any) -> None:
    decoder = LlamaDecoder.take_over(llama(num_hidden_layers=6))
    cache = fresh(decoder)
    with pytest.raises(Cancelled):
        decoder(decoder.embed(prompt_of(5)), cache, stop=stop_after(3))
    assert cache.length == 0
