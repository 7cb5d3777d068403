"""Weights of a language model in eight or four bits: the projections of its layers, and nothing else.

Embeddings, head, norms and the vision tower stay as they are: small beside the projections, and the text suffers most
where they are coarse. Each layer is packed on its way to the device, which so never holds the full model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import nn

from engines.decoder.kv_cache import leaves
from engines.decoder.llama import LlamaDecoder
from engines.decoder.packed_linear import PackedLinear
from engines.kernels import tilings
from engines.libraries.optional import LIBRARIES, optional_module
from evprof.core.errors import USAGE, Cancelled, UserError
from evprof.core.protocols import StopFlag
from evprof.metrics.limits.packed_sizes import GROUP

INT8, INT4, NF4, FP8 = "int8", "int4", "nf4", "fp8"
PROJECTIONS = ("qkv", "out", "gate_up", "down")

_BITS = {INT8: tilings.INT8, INT4: tilings.INT4, FP8: tilings.FLOAT8}
"""Kinds of our own; the others are bitsandbytes'."""

_LEAST_FP8 = (8, 9)
"""The first compute capability whose tensor cores multiply floats of eight bits."""

Pack = Callable[[nn.Linear, torch.device], nn.Module]
"""A Linear, anywhere -> a module of the same use on the device."""


def check_quantization(kind: str, device: torch.device) -> None:
    """Raises UserError when weights cannot be kept in this kind on a device: before anything is read."""
    if kind not in (*_BITS, NF4):
        named = f"{INT8}, {INT4}, {NF4}, {FP8}"
        raise UserError(f"There is no quantization '{kind}'; choose one of {named}.", exit_code=USAGE)
    if kind == NF4:
        _bitsandbytes()
    if kind == FP8 and (device.type != "cuda" or torch.cuda.get_device_capability(device) < _LEAST_FP8):
        raise UserError(
            f"fp8 weights need a GPU of NVIDIA's compute capability 8.9 or later (Ada, Hopper), not {device}; "
            "choose int8.",
            exit_code=USAGE,
        )


def quantize_weights(decoder: LlamaDecoder, kind: str, device: torch.device, stop: StopFlag | None = None) -> None:
    """Packs the projections of every layer and brings the whole decoder to `device`.

    Raises UserError when the kind's library is missing, Cancelled when `stop` is set between two layers.
    """
    pack = packer(kind)
    for layer in decoder.layers:
        if stop is not None and stop.is_set():
            raise Cancelled
        for name in PROJECTIONS:
            setattr(layer, name, pack(getattr(layer, name), device))
    decoder.to(device)


def packer(kind: str) -> Pack:
    """What packs one Linear. Raises UserError when the library is missing."""
    if kind == NF4:
        library = _bitsandbytes()
        return lambda linear, device: _nf4(library, linear, device)
    return lambda linear, device: PackedLinear.of(linear, _BITS[kind], device)


def _bitsandbytes() -> Any:
    return optional_module(LIBRARIES["bitsandbytes"], f"Quantization {NF4}")


def _nf4(library: Any, linear: nn.Linear, device: torch.device) -> nn.Module:
    """bitsandbytes' Linear4bit; its maxima stay float32, because unpacking them too costs time at every step."""
    weight = linear.weight.detach()
    packed = library.nn.Linear4bit(
        linear.in_features,
        linear.out_features,
        bias=linear.bias is not None,
        compute_dtype=weight.dtype,
        compress_statistics=False,
        quant_type="nf4",
        device="meta",
    )
    packed.weight = library.nn.Params4bit(
        weight, requires_grad=False, compress_statistics=False, blocksize=GROUP, quant_type="nf4", module=packed
    )
    packed.bias = linear.bias
    # Moving is what packs.
    moved: nn.Module = packed.to(device).eval()
    return moved


def held_bytes(modules: Iterable[nn.Module]) -> int:
    """Bytes of the storages behind all parameters, packed ones with their scales; shared storage counts once."""
    storages: dict[tuple[str, int], int] = {}
    for module in modules:
        for parameter in module.parameters():
            for tensor in _parts(parameter):
                storage = tensor.untyped_storage()
                storages[(str(tensor.device), storage.data_ptr())] = storage.nbytes()
    return sum(storages.values())


def _parts(parameter: torch.Tensor) -> Iterator[torch.Tensor]:
    yield from leaves(parameter.data if hasattr(parameter, "quant_state") else parameter)
    state = getattr(parameter, "quant_state", None)
    if state is not None:
        yield from leaves([value for value in vars(state).values() if isinstance(value, torch.Tensor)])
