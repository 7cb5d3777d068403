"""What a fused decode step moves, from the launches it makes: see `docs/decode-step.md`, whose tables this writes.

Usage: PYTHONPATH=.:tests python tests/step_traffic.py
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import LlamaForCausalLM

from engines.decoder.fused_pass import FusedPass, run_fused_layers
from engines.decoder.kv_cache import StaticKv
from engines.decoder.llama import LlamaDecoder
from engines.decoder.quantization import PROJECTIONS, packer
from engines.kernels.packed_weight import MULTIPROCESSORS
from recorded_launches import Launch, recorded
from small_models import small_text

META = torch.device("meta")
H100, H200 = 3.35e12, 4.8e12
"""Bytes a second that their data sheets promise."""

NAMES = ("norm + QKV", "rotate, write", "attention", "weigh shares", "out + add", "norm + gate, up", "down + add")


def vicuna(
    layers: int = 1, *, kv_heads: int = 32, dtype: torch.dtype = torch.bfloat16, quant: str | None = None
) -> Any:
    """A decoder of Vicuna-7B's shape, or with fewer heads of keys, that holds nothing."""
    config = small_text(
        32000,
        hidden_size=4096,
        intermediate_size=11008,
        num_hidden_layers=layers,
        num_attention_heads=32,
        num_key_value_heads=kv_heads,
        max_position_embeddings=8192,
    )
    with META:
        source: Any = LlamaForCausalLM(config)
        decoder = LlamaDecoder.take_over(source.to(dtype))
        if quant is not None:
            for layer in decoder.layers:
                for name in PROJECTIONS:
                    setattr(layer, name, packer(quant)(getattr(layer, name), META))
    return decoder


@torch.inference_mode()
def launches_of(decoder: Any, *, tokens: int = 1, capacity: int = 704) -> list[Launch]:
    """Those of one step on a GPU of 132 multiprocessors."""
    dtype = decoder.embed_tokens.weight.dtype
    cache = StaticKv(decoder.config, capacity, device=META, dtype=dtype)
    ids, start = torch.zeros(1, tokens, dtype=torch.long, device=META), torch.zeros(1, dtype=torch.long, device=META)
    with recorded() as launches, patch("engines.kernels.attention._processors", lambda _: MULTIPROCESSORS):
        FusedPass(decoder)(decoder, ids, start, cache)
    return launches


@dataclass(frozen=True)
class Traffic:
    """Bytes of one launch: those it cannot do without, those that it moves, and what its programs read again of
    activations, which the cache of level two holds."""

    floor: int
    moved: int
    again: int = 0


def traffic_of(launch: Launch, positions: int) -> Traffic:
    tensors = launch.tensors
    sizes = {name: tensor.nbytes for name, tensor in tensors.items()}
    match launch.name:
        case "one_token" | "several_tokens":
            weight = tensors["weight"]
            rows = launch.programs * launch.arguments["BLOCK_ROWS"] * (2 if launch.arguments["GATED"] else 1)
            read = rows * weight.shape[1] * weight.itemsize
            scales, norm = sizes.get("scales", 0), sizes.get("norm", 0)
            around = norm + sizes["inputs"] + sizes.get("bias", 0) + sizes.get("residual", 0) + sizes["out"]
            again = (launch.programs - 1) * (sizes["inputs"] + norm)
            return Traffic(sizes["weight"] + scales + norm, read + scales + around, again)
        case "_rotate_and_write":
            new, _, width = tensors["queries"].shape
            written = 2 * new * tensors["keys"].shape[1] * width * tensors["keys"].itemsize
            angles = 2 * new * width * tensors["cos"].itemsize
            return Traffic(written, written + sizes["states"] + angles + sizes["queries"])
        case "_attend_to_shares":
            keys = tensors["keys"]
            read = 2 * keys.shape[1] * positions * keys.shape[3] * keys.itemsize
            left = sizes["parts"] + sizes["weights"]
            return Traffic(read, read * launch.grid[2] + sizes["queries"] + left)
        case "_weigh_shares":
            return Traffic(0, sizes["parts"] + sizes["weights"] + sizes["attended"])
        case name:
            raise ValueError(f"no traffic is known of {name}")


def step_traffic(positions: int, layers: int = 32, **shape: Any) -> Traffic:
    """Of a whole step of one token with `positions` in the cache, its own included."""
    *layer, head = launches_of(vicuna(**shape), capacity=-(-positions // 64) * 64)
    each, last = [traffic_of(launch, positions) for launch in layer], traffic_of(head, positions)
    embedding = 2 * 4096 * head.tensors["inputs"].itemsize
    return Traffic(
        layers * sum(part.floor for part in each) + last.floor + embedding // 2,
        layers * sum(part.moved for part in each) + last.moved + embedding,
        layers * sum(part.again for part in each) + last.again,
    )


class _Operations(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.counted: Counter[str] = Counter()

    def __torch_dispatch__(self, called: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = called.overloadpacket.__name__
        if not called.is_view and not name.startswith(("empty", "new_empty")):
            self.counted[name] += 1
        return called(*args, **(kwargs or {}))


@torch.inference_mode()
def prefill_launches(new: int) -> list[Launch]:
    """Our own kernels' launches in a layer over `new` first positions."""
    decoder = vicuna(2)
    cache = StaticKv(decoder.config, new + 64, device=META, dtype=torch.bfloat16)
    with recorded() as launches:
        states = torch.empty(1, new, 4096, dtype=torch.bfloat16, device=META)
        decoder.trunk(states, cache, long_pass=run_fused_layers)
    return launches[:4]


@torch.inference_mode()
def operations_of_a_layer(new: int = 1, *, is_fused: bool = False) -> Counter[str]:
    """Of the eager pass over `new` positions up to the 640th, each of which is a launch at least on a GPU.

    `is_fused`: with launches of our own kernels, as `engines.decoder.fused_pass` makes them.
    """
    counted: list[Counter[str]] = []
    for layers in (1, 2):
        decoder = vicuna(layers)
        cache = StaticKv(decoder.config, 704, device=META, dtype=torch.bfloat16)
        cache.length = 640 - new
        with recorded() as launches, _Operations() as operations:
            states = torch.empty(1, new, 4096, dtype=torch.bfloat16, device=META)
            decoder.trunk(states, cache, long_pass=run_fused_layers if is_fused else None)
        counted.append(operations.counted + Counter(launch.name for launch in launches))
    return counted[1] - counted[0]


def tables() -> str:
    return "\n".join([*_layer_table(640), "", *_step_table()])


def _layer_table(positions: int) -> Iterator[str]:
    columns = ("programs", "warps each", "floor MB", "moved MB", "H100 µs", "H200 µs", "L2 MB")
    yield f"| a layer's launch, {positions} positions | {' | '.join(columns)} |"
    yield "|---|---:|---:|---:|---:|---:|---:|---:|"
    *layer, head = launches_of(vicuna(), capacity=-(-positions // 64) * 64)
    for name, launch in zip((*NAMES, "once a step: norm + head"), (*layer, head), strict=True):
        part = traffic_of(launch, positions)
        limits = (f"{part.floor / rate * 1e6:.1f}" for rate in (H100, H200))
        numbers = (f"{number / 1e6:.3f}" for number in (part.floor, part.moved))
        cells = [
            name,
            f"{launch.programs:,}",
            launch.options["num_warps"],
            *numbers,
            *limits,
            f"{part.again / 1e6:.1f}",
        ]
        yield f"| {' | '.join(map(str, cells))} |"


def _step_table() -> Iterator[str]:
    columns = ("positions", "floor GB", "moved GB", "moved / floor", "H100 ms", "H200 ms", "tokens/s at most")
    yield f"| a step of Vicuna-7B | {' | '.join(columns)} |"
    yield "|---|---:|---:|---:|---:|---:|---:|---|"
    for quant in (None, "int8", "int4"):
        for positions in (640, 4643):
            step = step_traffic(positions, quant=quant)
            limits = [step.floor / rate * 1e3 for rate in (H100, H200)]
            yield (
                f"| {quant or 'bfloat16'} | {positions:,} | {step.floor / 1e9:.2f} | {step.moved / 1e9:.2f} | "
                f"{step.moved / step.floor:.4f} | {limits[0]:.2f} | {limits[1]:.2f} | "
                f"{1e3 / limits[0]:,.0f}, {1e3 / limits[1]:,.0f} |"
            )


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        print(tables())
