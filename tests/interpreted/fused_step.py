"""The fused step of small Llamas in Triton's interpreter: the eager step's answers, whatever asks for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import LlamaConfig, LlamaForCausalLM

import interpreter
import planted_errors
import played_rounds
from closeness import assert_close
from engines.decoder.decoding import CachedModel, DecodeStep, Limits
from engines.decoder.fused_check import distances
from engines.decoder.fused_pass import FUSED, MOST_POSITIONS, FusedPass, fusing_problem
from engines.decoder.kv_cache import KvCache, StaticKv
from engines.decoder.llama import BlockShape, LlamaDecoder
from engines.drafters.drafter import Drafter, Proposal
from engines.kernels import projections
from engines.kernels.packed_weight import Product, Tiling
from random_decoders import random_decoder
from scripted_drafters import Chain, adversary, guesser, oracle

CPU = torch.device("cpu")
VOCABULARY = 90
TOKENS = 11
pytestmark = pytest.mark.usefixtures("large_tiles", "without_gradients")


class _Sink:
    """Nobody reads the records."""

    def append(self, record: Any) -> None:
        """Nothing."""

    post = append


@pytest.fixture
def large_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """A matrix in one tile: the interpreter takes a millisecond for any program, and the tilings have tests."""

    def whole(product: Product, *_: Any) -> Tiling:
        rows, columns = (max(16, 1 << (size - 1).bit_length()) for size in (product.rows, product.columns))
        return Tiling(rows, columns, 4, 1)

    monkeypatch.setattr(projections, "tiling_of", whole)


def llama(seed: int = 0, *, layers: int = 1, heads: int = 2, kv_heads: int = 1, **others: Any) -> LlamaForCausalLM:
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        max_position_embeddings=64,
        initializer_range=0.3,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=None,
        **others,
    )
    return LlamaForCausalLM(config).eval()


class FusedStep(DecodeStep):
    """The pass as a step without graphs: what graphs will hold."""

    kind = FUSED

    def __init__(self, decoder: LlamaDecoder) -> None:
        super().__init__(decoder)
        self.body = FusedPass(decoder)

    @torch.inference_mode()
    def __call__(self, ids: torch.Tensor, cache: KvCache, keep: int, shape: BlockShape | None = None) -> torch.Tensor:
        """Token ids [1, S], as a tree where there is a `shape` -> logits [1, keep, V]; the cache grows by S."""
        decoder, new = self._decoder, ids.shape[1]
        if isinstance(cache, StaticKv) and cache.padding is None and new <= MOST_POSITIONS:
            cache.reserve(cache.length + new)
            decoder.rotary.reach(cache.capacity)
            self.body.arrange(shape)
            start = torch.full((1,), cache.length, device=ids.device)
            logits, self.features = self.body(decoder, ids, start, cache)
            cache.advance(new)
            return logits[:, -keep:]
        return self.plain(ids, cache, keep, shape)


def opened(decoder: LlamaDecoder, *, capacity: int = 64, is_fused: bool = False) -> CachedModel:
    dtype = decoder.embed_tokens.weight.dtype
    cache = StaticKv(decoder.config, capacity, device=CPU, dtype=dtype)
    step = FusedStep(decoder) if is_fused else None
    return CachedModel(decoder, "target", CPU, decoder.rows, cache=cache, own_step=step)


def answered(decoder: LlamaDecoder, prompt: torch.Tensor, **how: Any) -> list[int]:
    return played_rounds.plain(opened(decoder, **how), prompt, Limits(TOKENS), _Sink())


@pytest.mark.parametrize(("heads", "kv_heads"), [(2, 2), (2, 1)], ids=["MHA", "GQA"])
@pytest.mark.parametrize("length", [1, 40])
def test_answers_are_the_eager_ones(heads: int, kv_heads: int, length: int) -> None:
    decoder = LlamaDecoder.take_over(llama(length, layers=2, heads=heads, kv_heads=kv_heads))
    prompt = played_rounds.prompt_of(length, length, VOCABULARY)
    expected = answered(decoder, prompt)
    assert len(set(expected)) > 4
    assert answered(decoder, prompt, is_fused=True) == expected


@pytest.mark.parametrize("kind", ["Llama", "Qwen2"])
def test_biases_and_a_head_of_its_own_width_are_added(kind: str) -> None:
    """A Qwen2 has none on what leaves its attention, and its head is the table of embeddings."""
    model = llama(3, attention_bias=True, head_dim=48, tie_word_embeddings=kind == "Qwen2")
    for name, weight in model.named_parameters():
        if name.endswith("bias"):
            weight.data.normal_()
    if kind == "Qwen2":
        model.model.layers[0].self_attn.o_proj.register_parameter("bias", None)
    decoder = LlamaDecoder.take_over(model)
    layer = decoder.ordered[0]
    assert layer.qkv.bias is not None
    assert (layer.out.bias is None) == (kind == "Qwen2")
    prompt = played_rounds.prompt_of(1, 12, VOCABULARY)
    assert answered(decoder, prompt, is_fused=True) == answered(decoder, prompt)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_logits_and_features_are_close_in_every_dtype(dtype: torch.dtype) -> None:
    model: Any = llama(5, layers=2)
    decoder = LlamaDecoder.take_over(model.to(dtype))
    ids = played_rounds.prompt_of(2, 17, VOCABULARY)
    fused, plain = opened(decoder, is_fused=True), opened(decoder)
    for one in (fused, plain):
        one.keeps_features = True
        one.opened.length = 0
        decoder.trunk(decoder.embed(ids), one.opened)
    for count in (1, 5):
        found, expected = (one.step(ids[:, :count], keep=count).float() for one in (fused, plain))
        # The interpreter cuts bfloat16 off where torch rounds.
        assert_close(found.to(dtype), expected.to(dtype), layers=16)
        assert_close(fused.features, plain.features, layers=16)
        assert fused.length == plain.length


class ScriptedTree(Drafter):
    """Proposes the right token and a wrong one below every place, `depth` deep."""

    def __init__(self, expected: Sequence[int], depth: int) -> None:
        super().__init__("scripted", CPU)
        self._expected, self._depth = expected, depth

    def propose(self, ids: Sequence[int], count: int, is_stopped: Any) -> Proposal:
        right = list(self._expected[len(ids) :][: min(count, self._depth)])
        tokens, parents = [], []
        for place, token in enumerate(right):
            tokens += [(token + 1) % VOCABULARY, token]
            parents += [2 * place - 1] * 2
        return Proposal(torch.tensor(tokens, dtype=torch.long), parents=tuple(parents))


def test_speculation_is_lossless() -> None:
    decoder = LlamaDecoder.take_over(llama(7))
    prompt = played_rounds.prompt_of(3, 10, VOCABULARY)
    expected = answered(decoder, prompt)
    drafters: list[Drafter] = [
        oracle(expected),
        adversary(expected, VOCABULARY),
        guesser(1, VOCABULARY),
        Chain(lambda ids, count: [expected[len(ids)], 0, 0][:count] if len(ids) < TOKENS else []),
        ScriptedTree(expected, 3),
    ]
    for drafter in drafters:
        target = opened(decoder, is_fused=True)
        played = played_rounds.play(target, drafter, prompt, Limits(TOKENS), _Sink(), gamma=3)
        assert played.ids == expected
        tokens = played_rounds.sequence(prompt, expected[:-1])
        fresh = opened(decoder)
        decoder.trunk(decoder.embed(tokens), fresh.opened)
        assert target.length == tokens.shape[1]
        for held, wanted in zip(target.opened.tensors(0), fresh.opened.tensors(0), strict=True):
            assert_close(held, wanted)


def test_trees_go_through_the_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    decoder = LlamaDecoder.take_over(llama(7))
    prompt = played_rounds.prompt_of(3, 10, VOCABULARY)
    one = opened(decoder, is_fused=True)
    decoder.trunk(decoder.embed(prompt), one.opened)
    monkeypatch.setattr(decoder, "trunk", None)
    monkeypatch.setattr(decoder, "run_layers", None)
    shape = BlockShape((-1, 0, 0, 1), CPU)
    found = one.block(prompt[:, :4], shape)
    one.keep_path(4, (0, 2))
    following = one.step(prompt[:, :1])
    monkeypatch.undo()
    plain = opened(decoder)
    decoder.trunk(decoder.embed(prompt), plain.opened)
    del found
    plain.step(prompt[:, [0, 2]])
    assert_close(following, plain.step(prompt[:, :1]))


def test_cutting_growing_and_long_blocks_between_steps() -> None:
    decoder = LlamaDecoder.take_over(llama(9))
    ids = played_rounds.prompt_of(4, 40, VOCABULARY)
    fused, plain = (opened(decoder, capacity=24, is_fused=is_fused) for is_fused in (True, False))
    for first, last, keep in ((0, 20, 20), (20, 21, 18), (18, 34, 34), (34, 35, 12), (12, 13, 13)):
        assert last - first <= MOST_POSITIONS or first == 0
        found, expected = (one.step(ids[:, first:last], keep=last - first) for one in (fused, plain))
        assert_close(found, expected)
        for one in (fused, plain):
            one.crop(keep)
    cache: Any = fused.opened
    assert cache.capacity > 24
    assert fused.own_step.problem is None


class _HostReads(TorchDispatchMode):
    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        assert "_local_scalar_dense" not in str(function)
        return function(*args, **(kwargs or {}))


def test_seven_launches_a_layer_and_no_read_of_the_host() -> None:
    launched: list[str] = []
    interpreter.count_launches(launched)
    made = []
    for layers in (1, 3):
        decoder = LlamaDecoder.take_over(llama(0, layers=layers))
        cache = StaticKv(decoder.config, 32, device=CPU, dtype=torch.float32)
        body, ids, start = FusedPass(decoder), torch.tensor([[5]]), torch.tensor([3])
        launched.clear()
        with _HostReads():
            logits, hidden = body(decoder, ids, start, cache)
            again, _ = body(decoder, ids, start, cache)
        assert (logits.data_ptr(), tuple(hidden.shape)) == (again.data_ptr(), (1, 1, 32))
        made.append(len(launched) // 2)
    # Of both, one is the last norm with the head.
    assert made == [7 + 1, 3 * 7 + 1]


@pytest.fixture
def short_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check in setup at one place: whole, it takes the interpreter half a minute."""
    monkeypatch.setattr("engines.decoder.fused_check._STARTS", (20,))
    monkeypatch.setattr("engines.decoder.fused_check._PROMPT", 20)


@pytest.mark.usefixtures("short_check")
@pytest.mark.parametrize(
    "plant", [None, *planted_errors.TRITON_ERRORS], ids=lambda plant: getattr(plant, "__name__", "right")
)
def test_the_check_in_setup_finds_planted_errors(plant: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    # So many programs that the cache is divided into shares.
    monkeypatch.setattr("engines.kernels.attention._processors", lambda _: 4)
    if plant is not None:
        plant(monkeypatch)
    decoder = random_decoder(torch.float16, layers=1, kv_heads=2)
    found = list(distances(FusedPass(decoder), decoder, 4))
    layer = next(each for each in found if each.part == "layer 1 with a chain of 4 tokens after 20")
    print(f"{plant.__name__ if plant else 'right kernels'}: {layer.ratio:.2f}")
    assert bool(layer.problem) is bool(plant)
    assert any(each.problem for each in found) is bool(plant)


@pytest.mark.parametrize(
    ("others", "reason"),
    [
        ({"hidden_act": "gelu"}, "its kernels compute SiLU, and this model's activation is gelu"),
        ({"head_dim": 40}, "its kernels take heads of 16 to 128 in steps of 16, not of 40"),
        ({"mlp_bias": True}, "this model's gate has a bias, which its kernels do not add"),
        ({}, ""),
    ],
)
def test_what_cannot_be_fused_says_why(others: Any, reason: str) -> None:
    assert fusing_problem(LlamaDecoder.take_over(llama(1, layers=2, **others))) == reason
