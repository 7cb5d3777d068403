"""Rotation, cache write and attention kernels against torch, in Triton's interpreter; on a GPU, compiled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.decoder.attention import EAGER, attend
from engines.decoder.llama import BlockShape
from engines.kernels.attention import GRAIN, AttentionBuffers, attend_to_cache, rotate_and_write

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
EXACT = torch.float32
CLOSE = {torch.float32: 1e-5, torch.float16: 4e-3, torch.bfloat16: 3.2e-2}
"""Largest difference of an average of values about 1; Triton's interpreter truncates to bfloat16."""


@dataclass(frozen=True)
class Case:
    """A cache of random keys and values, queries of `parents`' positions after `start`, and where nothing may look."""

    heads: int
    kv_heads: int
    width: int
    parents: tuple[int, ...]
    start: int
    splits: int
    dtype: torch.dtype = EXACT
    spare: int = 7

    @property
    def new(self) -> int:
        return len(self.parents)

    @property
    def length(self) -> int:
        return self.start + self.new

    def difference(self) -> float:
        """The largest difference between the kernels' attention and the eager one in float32."""
        torch.manual_seed(self.length)
        cache = torch.randn(2, 1, self.kv_heads, self.length + self.spare, self.width, device=DEVICE).to(self.dtype)
        queries = (2 * torch.randn(self.new, self.heads, self.width, device=DEVICE)).to(self.dtype)
        keys, values = cache.clone()
        shape = BlockShape(self.parents, DEVICE)
        wide = [tensor[:, :, : self.length].float() for tensor in cache]
        asked, mask = queries.float().transpose(0, 1)[None], shape.mask(self.start)
        expected = attend(asked, wide[0], wide[1], mask, is_causal=False, kind=EAGER)
        # What lies past the length, and what was in the buffers before, must not be read.
        keys[:, :, self.length :] = values[:, :, self.length :] = torch.nan
        buffers = AttentionBuffers.like(keys, self.heads, self.new, splits=self.splits)
        for buffer in (buffers.parts, buffers.weights, buffers.attended):
            buffer.fill_(torch.nan)
        buffers.queries.copy_(queries)
        start = torch.tensor([self.start], device=DEVICE)
        got = attend_to_cache(keys, values, start, shape.bits, buffers)
        assert got is buffers.attended
        wanted = expected[0].transpose(0, 1).reshape(self.new, -1)
        return float((got.float() - wanted).abs().max())


def chain(count: int) -> tuple[int, ...]:
    """Parents of positions that follow one another."""
    return tuple(range(-1, count - 1))


@pytest.mark.parametrize("dtype", CLOSE, ids=lambda dtype: str(dtype).removeprefix("torch."))
@pytest.mark.parametrize(("heads", "kv_heads"), [(2, 2), (6, 2)], ids=["MHA", "GQA"])
@pytest.mark.parametrize("width", [64, 80, 96, 128])
@pytest.mark.parametrize("new", [1, 5])
def test_attention_is_the_eager_one(dtype: Any, heads: int, kv_heads: int, width: int, new: int) -> None:
    difference = Case(heads, kv_heads, width, chain(new), 70, 2, dtype).difference()
    print(f"{dtype} {heads}/{kv_heads} heads of {width}, {new} new: {difference:.1e}")
    assert difference < CLOSE[dtype]


@pytest.mark.parametrize("new", range(1, 17))
def test_every_number_of_new_positions(new: int) -> None:
    assert Case(2, 1, 64, chain(new), 40, 3).difference() < CLOSE[EXACT]


@settings(max_examples=40, derandomize=True)
@given(data=st.data())
def test_lengths_around_the_edges_of_shares_and_blocks(data: st.DataObject) -> None:
    splits = data.draw(st.integers(1, 6), "splits")
    new = data.draw(st.integers(1, 16), "new")
    edge = data.draw(st.integers(1, 9), "grains") * GRAIN * data.draw(st.sampled_from([1, splits]), "of all shares")
    length = max(edge + data.draw(st.integers(-2, 2), "off the edge"), new)
    dtype = data.draw(st.sampled_from([EXACT, EXACT, torch.float16]), "dtype")
    spare = data.draw(st.sampled_from([0, 1, 40]), "spare")
    case = Case(2, 1, 16, chain(new), min(length, 400) - new, splits, dtype, spare)
    assert case.difference() < CLOSE[dtype]


@st.composite
def trees(draw: Callable[[Any], Any]) -> tuple[int, ...]:
    """Parents of up to 16 positions, each before its children; position 0 is the root."""
    count = draw(st.integers(2, 16))
    return (-1, *(draw(st.integers(0, index - 1)) for index in range(1, count)))


@settings(max_examples=20, derandomize=True)
@given(parents=trees(), start=st.sampled_from([0, 1, 14, 15, 16, 30, 47]), splits=st.integers(1, 4))
def test_a_position_of_a_tree_sees_its_ancestors_alone(parents: tuple[int, ...], start: int, splits: int) -> None:
    assert Case(2, 1, 16, parents, start, splits).difference() < CLOSE[EXACT]


def rotated(case: Case, states: torch.Tensor, table: Sequence[torch.Tensor], depths: torch.Tensor) -> Any:
    """What the kernel makes of projected states: queries, keys and values, these in caches of -1."""
    keys = torch.full((1, case.kv_heads, case.length + case.spare, case.width), -1.0, device=DEVICE).to(case.dtype)
    values, queries = keys.clone(), keys.new_empty(case.new, case.heads, case.width)
    start = torch.tensor([case.start], device=DEVICE)
    rotate_and_write(states, table[0], table[1], start, depths, keys=keys, values=values, queries=queries)
    return queries, keys, values


@pytest.mark.parametrize("dtype", CLOSE, ids=lambda dtype: str(dtype).removeprefix("torch."))
@pytest.mark.parametrize("width", [64, 80, 96, 128])
@pytest.mark.parametrize("parents", [(-1,), chain(4), (-1, 0, 0, 1, 1)], ids=["one", "chain", "tree"])
def test_rotation_and_write_are_the_eager_ones(dtype: Any, width: int, parents: tuple[int, ...]) -> None:
    case = Case(4, 2, width, parents, 9, 1, dtype)
    torch.manual_seed(width)
    states = torch.randn(case.new, 8 * width, device=DEVICE).to(dtype)
    table = [torch.randn(40, width, device=DEVICE).to(dtype) for _ in range(2)]
    depths = BlockShape(parents, DEVICE).depths
    queries, keys, values = rotated(case, states, table, depths)
    cos, sin = (part[9 + depths].float()[:, None] for part in table)
    wide = states.float().view(case.new, 8, width)
    turned = wide[:, :6] * cos + wide[:, :6].roll(width // 2, -1) * sin
    room = torch.finfo(dtype).eps
    torch.testing.assert_close(queries.float(), turned[:, :4], rtol=2 * room, atol=room)
    written = keys[0, :, 9 : case.length].transpose(0, 1)
    torch.testing.assert_close(written.float(), turned[:, 4:], rtol=2 * room, atol=room)
    assert torch.equal(values[0, :, 9 : case.length].transpose(0, 1), states.view(case.new, 8, width)[:, 6:])
    for cache in (keys, values):
        assert bool((cache[:, :, :9] == -1).all() and (cache[:, :, case.length :] == -1).all())


def test_nothing_is_written_past_the_capacity() -> None:
    case = Case(2, 1, 16, chain(4), 6, 1, spare=-2)
    states, ones = torch.ones(4, 64, device=DEVICE), torch.ones(40, 16, device=DEVICE)
    held = torch.full((2, 1, 8, 16), -1.0, device=DEVICE)
    keys, queries = held[:1], torch.empty(4, 2, 16, device=DEVICE)
    depths, start = torch.arange(4, device=DEVICE), torch.tensor([case.start], device=DEVICE)
    rotate_and_write(states, ones, ones, start, depths, keys=keys, values=keys.clone(), queries=queries)
    assert bool((held[1] == -1).all())
    assert bool((keys[:, :, 6:] == 2).all())
