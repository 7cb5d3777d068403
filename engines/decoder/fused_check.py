"""The fused step as CUDA graphs, after its pass was compared with the decoder's own pass.

Setup compares once for each model, part by part: both passes get the same inputs, and both results are compared with
the exact result, that part in a wider dtype. The rounding at the end of all layers depends on the weights. Only here
does the host wait.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from itertools import product
from subprocess import CalledProcessError
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from engines.decoder.attention import added, attend
from engines.decoder.compiled_step import first_line
from engines.decoder.cuda_graphs import GraphStep
from engines.decoder.fused_pass import FUSED, MOST_POSITIONS, FusedPass, run_fused_layers, weight_of
from engines.decoder.llama import BlockShape, LlamaDecoder, LlamaLayer, LongPass
from engines.kernels.tuning import Measure, tune
from evprof.core.protocols import monotonic_ns
from evprof.core.units import ms_from_ns

MOST_RATIO = 1.25
"""The largest distance of a right pass from the exact result, in distances of the eager pass.

Over fewer than 256 numbers a position rounding alone can reach it: see `PartDistances.most`.
"""

_LEAST = 2e-6
"""A distance that float32 sums in another order explain; an eager pass counts as at least so far."""


@dataclass(frozen=True)
class PartDistances:
    part: str
    eager: float
    candidate: float
    width: int

    @property
    def most(self) -> float:
        return max(MOST_RATIO, 1 + 4 / math.sqrt(self.width))

    @property
    def ratio(self) -> float:
        return self.candidate / max(self.eager, _LEAST)

    @property
    def problem(self) -> str:
        """What is wrong with the candidate, without a full stop; "" where it is as exact as the eager pass."""
        # A distance that is not a number fails as well.
        if self.ratio <= self.most:
            return ""
        return (
            f"{self.part} is {self.ratio:.3g} times as far from the exact result as in the eager pass, "
            f"and {self.most:.3g} times is allowed"
        )


def exact_dtype(dtype: torch.dtype) -> torch.dtype:
    return torch.float64 if dtype in (torch.float32, torch.float64) else torch.float32


def compare(
    part: str,
    exact: torch.Tensor,
    *,
    eager: torch.Tensor,
    candidate: torch.Tensor,
    entered: torch.Tensor | None = None,
) -> PartDistances:
    """Compares results [..., S, width] of one part; reads two numbers from the device. A distance is the largest RMS
    error of a position, over the RMS of what the part adds to `entered`, or of its result."""
    added = exact if entered is None else exact - entered
    size = _root_mean_square(added)
    eager_distance, candidate_distance = (
        float((_root_mean_square(result - exact) / size).max()) for result in (eager, candidate)
    )
    return PartDistances(part, eager_distance, candidate_distance, exact.shape[-1])


def _root_mean_square(values: torch.Tensor) -> torch.Tensor:
    return values.square().mean(-1).sqrt()


_PROMPT = 700
_STARTS = (_PROMPT, 65, 16, 1)
"""Positions before a compared block, falling: a block overwrites what the prompt left after its start."""

_STALE = 1.0
"""Keys and values at positions that a pass must not read."""


def exact_layer(layer: LlamaLayer, dtype: torch.dtype) -> LlamaLayer:
    # What is in the memo is not copied.
    exact = deepcopy(layer, {id(linear): linear for linear in layer.children()})
    for name, linear in layer.named_children():
        setattr(exact, name, exact_linear(linear, dtype))
    return exact.to(dtype)


def exact_linear(linear: Any, dtype: torch.dtype) -> nn.Linear:
    weight = weight_of(linear)
    numbers = weight.to(dtype) if isinstance(weight, torch.Tensor) else weight.unpacked(dtype)
    with torch.device("meta"):
        exact = nn.Linear(numbers.shape[1], numbers.shape[0], bias=linear.bias is not None)
    exact.weight = nn.Parameter(numbers, requires_grad=False)
    if linear.bias is not None:
        exact.bias = nn.Parameter(linear.bias.to(dtype), requires_grad=False)
    return exact


def check(fused: FusedPass, decoder: LlamaDecoder, block: int) -> None:
    """Raises RuntimeError, with the reason, for kernels that do not compile or that compute something else."""
    try:
        problem = _first_problem(distances(fused, decoder, block))
    finally:
        fused.arrange(None)
        fused.release()
    if problem:
        raise RuntimeError(problem)


def checked_long_pass(decoder: LlamaDecoder) -> tuple[LongPass | None, str]:
    """The way to run a prefill's layers, or None and the reason, without a full stop."""
    problem = _first_problem(prefill_distances(run_fused_layers, decoder))
    return (None, problem) if problem else (run_fused_layers, "")


def _first_problem(distances: Iterator[PartDistances]) -> str:
    from triton.errors import TritonError

    try:
        return next((part.problem for part in distances if part.problem), "")
    except (TritonError, CalledProcessError) as error:
        return f"Triton cannot compile its kernels: {first_line(error)}"
    except torch.OutOfMemoryError:
        return "there is no memory left to check it"


@torch.inference_mode()
def distances(candidate: FusedPass, decoder: LlamaDecoder, block: int) -> Iterator[PartDistances]:
    """Compares embeddings, layers with their new keys and values, and the head with the decoder's own pass. Blocks have
    one token, and `block` tokens as a chain and as a tree, after random prompts. Every part gets the eager pass's
    inputs. One layer at a time is in a wider dtype."""
    wide, rotary = exact_dtype(decoder.embed_tokens.weight.dtype), decoder.rotary
    rotary.reach(_PROMPT + MOST_POSITIONS)
    shapes = _shapes(min(block, MOST_POSITIONS), decoder.device)
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randint(decoder.config.vocab_size, (1, _PROMPT + MOST_POSITIONS), generator=generator)
    ids = drawn.to(decoder.device)
    blocks = []
    for start, shape in product(_STARTS, shapes):
        fed, positions = ids[:, start : start + len(shape.parents)], start + shape.depths
        each = _Block(start, shape, (rotary.cos[positions], rotary.sin[positions]), decoder.embed(fed))
        blocks.append(each)
        states = each.states
        result = candidate.embed(fed)[None]
        yield compare(f"the embedding of {each.name}", states.to(wide), eager=states, candidate=result)
    prompt = decoder.embed(ids[:, :_PROMPT])
    for number, layer in enumerate(decoder.ordered, 1):
        attention = _Attention()
        prompt = layer(prompt, *rotary.rows(0, _PROMPT), attention, 0)
        cache = [F.pad(part, (0, 0, 0, MOST_POSITIONS)) for part in attention.new]
        exact = exact_layer(layer, wide)
        for each in blocks:
            name = f"layer {number} with {each.name}"
            yield from _layer_distances(candidate, (layer, exact), each, cache, name)
        # Before the next one is made.
        del exact
    norm, head = decoder.norm.to(wide), exact_linear(decoder.lm_head, wide)
    for each in blocks:
        normed = F.rms_norm(each.states.to(wide), norm.shape, norm, decoder.config.rms_norm_eps)
        result = candidate.head(each.states[0].clone())[None]
        yield compare(f"the head with {each.name}", head(normed), eager=decoder.head(each.states), candidate=result)


@torch.inference_mode()
def prefill_distances(long_pass: LongPass, decoder: LlamaDecoder) -> Iterator[PartDistances]:
    """Compares the layers of a prefill, with their keys and values. Every layer gets the eager pass's states."""
    wide, first = exact_dtype(decoder.embed_tokens.weight.dtype), decoder.ordered[0]
    turns = decoder.rotary.rows(0, _PROMPT)
    generator = torch.Generator().manual_seed(1)
    drawn = torch.randint(decoder.config.vocab_size, (1, _PROMPT), generator=generator)
    states = decoder.embed(drawn.to(decoder.device))
    keys, values = states.new_full((2, 1, first.kv_heads, _PROMPT, first.head_dim), _STALE)
    look = partial(attend, mask=None, is_causal=True)
    for number, layer in enumerate(decoder.ordered, 1):
        eager, *eager_made = _through(layer, states, turns, _Attention())
        exact, *exact_made = _through(exact_layer(layer, wide), states, turns, _Attention())
        result = long_pass([layer], states, decoder.rotary, 0, look, keys=[keys], values=[values])
        name = f"layer {number} of a prefill"
        yield compare(name, exact, eager=eager, candidate=result, entered=states)
        for kind, part, right, expected in zip(("keys", "values"), (keys, values), exact_made, eager_made, strict=True):
            yield compare(f"{kind} of {name}", right, eager=expected, candidate=_by_position(part))
        states = eager


def _through(
    layer: LlamaLayer, states: torch.Tensor, turns: tuple[torch.Tensor, torch.Tensor], attention: _Attention
) -> tuple[torch.Tensor, ...]:
    """States that leave a layer, its keys and its values, [1, S, ...] each, in the layer's dtype."""
    dtype = layer.input_norm.dtype
    left = layer(states.to(dtype), *(turn.to(dtype) for turn in turns), attention, 0)
    return left, *map(_by_position, attention.new)


def _layer_distances(
    candidate: FusedPass,
    layers: tuple[LlamaLayer, LlamaLayer],
    block: _Block,
    cache: list[torch.Tensor],
    name: str,
) -> Iterator[PartDistances]:
    """Runs one layer on a block in three ways; the `cache` begins with the prompt's keys and values."""
    start, shape, entered = block.start, block.shape, block.states
    results = []
    for layer in layers:
        dtype = layer.input_norm.dtype
        attention = _Attention([part[:, :, :start].to(dtype) for part in cache], added(shape.mask(start), dtype))
        results.append(_through(layer, entered, block.turns, attention))
    for part in cache:
        part[:, :, start:] = _STALE
    result = entered[0].clone()
    candidate.arrange(shape)
    candidate.run_layer(layers[0], result, torch.full((1,), start, device=result.device), *cache)
    (eager, *eager_made), (exact, *exact_made) = results
    yield compare(name, exact, eager=eager, candidate=result[None], entered=entered)
    for kind, part, right, expected in zip(("keys", "values"), cache, exact_made, eager_made, strict=True):
        written = _by_position(part[:, :, start : start + len(shape.parents)])
        yield compare(f"{kind} of {name}", right, eager=expected, candidate=written)
    block.states = eager


def _by_position(heads: torch.Tensor) -> torch.Tensor:
    """[1, kv_heads, S, D] -> [1, S, kv_heads · D]."""
    return heads.transpose(1, 2).flatten(2)


class _Attention:
    new: tuple[torch.Tensor, torch.Tensor]

    def __init__(self, past: Iterable[torch.Tensor] = (), mask: torch.Tensor | None = None) -> None:
        self._past, self._mask = past, mask

    def __call__(self, _: int, queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        self.new = keys, values
        if self._mask is not None:
            keys, values = (torch.cat(parts, 2) for parts in zip(self._past, self.new, strict=True))
        return attend(queries, keys, values, self._mask, is_causal=self._mask is None)


@dataclass
class _Block:
    """S tokens at `start` with cosines and sines [S, D]; `states` [1, S, hidden] enter the next part."""

    start: int
    shape: BlockShape
    turns: tuple[torch.Tensor, torch.Tensor]
    states: torch.Tensor

    @property
    def name(self) -> str:
        count = len(self.shape.parents)
        if count == 1:
            return f"a token after {self.start}"
        is_chain = self.shape.parents == tuple(range(-1, count - 1))
        return f"a {'chain' if is_chain else 'tree'} of {count} tokens after {self.start}"


def _shapes(block: int, device: torch.device) -> list[BlockShape]:
    parents = [[-1]]
    if block > 1:
        parents += [list(range(-1, block - 1)), [-1, *((index - 1) // 2 for index in range(1, block))]]
    return [BlockShape(each, device) for each in parents]


def tune_decoder(decoder: LlamaDecoder, blocks: Iterable[int], *, measure: Measure | None = None) -> None:
    if decoder.device.type != "cuda" and measure is None:
        return
    dtype, layers = decoder.embed_tokens.weight.dtype, decoder.ordered
    for tokens in sorted({min(block, 2) for block in blocks}):
        for name in ("qkv", "out", "gate_up", "down"):
            weights = [weight_of(getattr(layer, name)) for layer in layers]
            tune(
                weights,
                tokens,
                dtype,
                is_gated=name == "gate_up",
                is_normed=name in ("qkv", "gate_up"),
                measure=measure,
            )
        tune([weight_of(decoder.lm_head)], tokens, dtype, measure=measure)


class FusedGraphs(GraphStep):
    def __init__(self, decoder: LlamaDecoder) -> None:
        self.long_pass: LongPass | None = None
        self.prefill_problem = ""
        self.body = FusedPass(decoder)
        self._is_checked = False
        super().__init__(decoder, body=self.body, kind=FUSED, has_buckets=False)

    def capture_for(self, blocks: Iterable[int], start: int, capacity: int) -> float | None:
        """Tunes and checks the pass once, then captures a step for each number of tokens. Returns the ms, None if
        nothing was captured. Raises RuntimeError if the pass computes something else or cannot be captured."""
        began_ns, was_checked = monotonic_ns(), self._is_checked
        blocks = [1, *(block for block in blocks if block <= MOST_POSITIONS)]
        if not was_checked:
            with torch.cuda.device(self._decoder.device):
                tune_decoder(self._decoder, blocks)
                check(self.body, self._decoder, max(blocks))
                self.long_pass, self.prefill_problem = checked_long_pass(self._decoder)
            self._is_checked = True
        captured_ms = super().capture_for(blocks, start, capacity)
        return captured_ms if was_checked else ms_from_ns(monotonic_ns() - began_ns)
