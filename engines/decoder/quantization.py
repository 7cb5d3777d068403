"""Weights of a language model in eight or four bits: the projections of its layers.

Embeddings, head, norms and the vision tower keep their dtype: they are small, and quantizing them costs the most
quality. Each layer is packed on its way to the device, which never holds the full model. Up to 16 rows go to our own
kernels; more rows are multiplied with the unpacked matrix. A prefill over 8-bit floats is multiplied as 8-bit floats.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from engines.decoder.kv_cache import leaves
from engines.decoder.llama import LlamaDecoder
from engines.kernels import packed_weight
from engines.kernels.packed_weight import FLOAT8, PackedWeight, float8_rows, kernels_problem, unpacked_numbers
from engines.kernels.projections import MOST_TOKENS, launch, launching_on
from engines.libraries import LIBRARIES, optional_module
from evprof.core.errors import USAGE, Cancelled, UserError
from evprof.core.protocols import StopFlag
from evprof.metrics.limits.memory_need import GROUP

_LEAST_FLOAT8_ROWS = 128
"""Fewer may be a verified block, which must round as single steps do: its inputs stay as they are."""


class PackedLinear(nn.Module):
    """[..., columns] -> [..., rows], on the device and in the dtype of the Linear it was packed from."""

    def __init__(self, weight: PackedWeight, bias: nn.Parameter | None) -> None:
        super().__init__()
        self.out_features, self.in_features = weight.shape
        self.bits = weight.bits
        self.weight = nn.Parameter(weight.data, requires_grad=False)
        self.scales = nn.Parameter(weight.scales, requires_grad=False)
        self.bias = bias
        # Tensor cores take such floats by 16.
        self._multiplies_float8 = weight.bits == FLOAT8 and not any(size % 16 for size in weight.shape)
        self._has_kernel = tuple(not kernels_problem(torch.device(kind)) for kind in ("cpu", "cuda"))

    @classmethod
    def of(cls, linear: nn.Linear, bits: int, device: torch.device) -> PackedLinear:
        moved = linear.to(device)
        return cls(PackedWeight.of(moved.weight, bits), moved.bias)

    @property
    def packed(self) -> PackedWeight:
        return PackedWeight(self.weight, self.scales, self.in_features, self.bits)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """[..., columns] -> [..., rows]."""
        if self._has_kernel[inputs.is_cuda] and inputs.numel() <= MOST_TOKENS * self.in_features:
            multiply = _few_rows_compiled if torch.compiler.is_compiling() else _few_rows
            return multiply(inputs, self.weight, self.scales, self.bias, self.bits)
        if self._multiplies_float8 and inputs.numel() >= _LEAST_FLOAT8_ROWS * self.in_features:
            multiplied = self._float8_product(inputs.reshape(-1, self.in_features).contiguous()).to(inputs.dtype)
            product = multiplied.view(*inputs.shape[:-1], self.out_features)
            return product if self.bias is None else product + self.bias
        numbers = unpacked_numbers(self.weight, self.scales, self.in_features, self.bits, inputs.dtype)
        if self.bits != packed_weight.INT4 and inputs.dtype != torch.float16:
            product = (F.linear(inputs, numbers) * self.scales).to(inputs.dtype)
            return product if self.bias is None else product + self.bias
        if self.bits != packed_weight.INT4:
            # Sums of numbers up to 127 or 448 could leave what float16 holds.
            numbers.mul_(self.scales[:, None])
        return F.linear(inputs, numbers, self.bias)

    def _float8_product(self, inputs: torch.Tensor) -> torch.Tensor:
        """[M, columns] -> [M, rows] in bfloat16, the only dtype in which GPUs add up scaled rows."""
        if self._has_kernel[inputs.is_cuda] and not torch.compiler.is_compiling():
            from engines.kernels.elementwise import quantize_rows

            with launching_on(inputs.device):
                numbers, scales = quantize_rows(inputs)
        else:
            numbers, scales = float8_rows(inputs)
        return torch._scaled_mm(
            numbers, self.weight.t(), scales[:, None], self.scales[None], out_dtype=torch.bfloat16, use_fast_accum=True
        )


def _few_rows(
    inputs: torch.Tensor, data: torch.Tensor, scales: torch.Tensor, bias: torch.Tensor | None, bits: int
) -> torch.Tensor:
    columns = inputs.shape[-1]
    states = launch(inputs.reshape(-1, columns), PackedWeight(data, scales, columns, bits), bias=bias)
    return states.view(*inputs.shape[:-1], data.shape[0])


_few_rows_compiled = torch.library.custom_op("evprof::few_rows", _few_rows, mutates_args=())
"""The same as one operation to torch.compile, which does not look into it."""


@_few_rows_compiled.register_fake
def _(
    inputs: torch.Tensor, data: torch.Tensor, scales: torch.Tensor, bias: torch.Tensor | None, bits: int
) -> torch.Tensor:
    return inputs.new_empty(*inputs.shape[:-1], data.shape[0])


INT8, INT4, NF4, FP8 = "int8", "int4", "nf4", "fp8"
PROJECTIONS = ("qkv", "out", "gate_up", "down")

_BITS = {INT8: packed_weight.INT8, INT4: packed_weight.INT4, FP8: packed_weight.FLOAT8}
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
    """Packs the projections layer by layer on `device`. Raises UserError without the library, Cancelled when
    stopped."""
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
