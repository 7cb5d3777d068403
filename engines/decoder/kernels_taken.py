"""Which attention kernels a model's passes took, by the lengths that they had."""

from __future__ import annotations

from engines.decoder.attention import kernel_of
from engines.decoder.compiled_step import CompiledStep
from engines.decoder.decoding import CachedModel
from engines.decoder.early_exit import EarlyExitStep
from engines.decoder.identical_step import POSITIONS, IdenticalStep
from engines.decoder.llama import LlamaDecoder


def kernels_taken(cached: CachedModel, block: int) -> dict[str, str]:
    """The kernel by pass: "prefill", "decode" and, of a model that verifies blocks of so many tokens, "verify".

    A pass that did not happen, or whose step does not say, is left out. Allocates nothing.
    """
    decoder, prompt, length = cached.decoder, cached.prompt_length, cached.length
    if not isinstance(decoder, LlamaDecoder) or not prompt:
        return {}
    kernels = {"prefill": _kernel(decoder, prompt, min(cached.prefill_chunk or prompt, prompt))}
    if length > prompt:
        step = cached.own_step
        is_own = step is not None and step.problem is None and not isinstance(step, (CompiledStep, EarlyExitStep))
        sizes = {"decode": 1} | ({"verify": min(block, length)} if block > 1 else {})
        if is_own and isinstance(step, IdenticalStep):
            is_own, sizes = False, dict.fromkeys(sizes, POSITIONS)
        for name, new in sizes.items():
            kernels[name] = getattr(step, "attention_kernel", None) if is_own else _kernel(decoder, length, new)
    return {name: kernel for name, kernel in kernels.items() if kernel}


def _kernel(decoder: LlamaDecoder, length: int, new: int) -> str | None:
    """Of a pass whose `new` last positions look at `length`."""
    layer, is_first = decoder.ordered[0], new == length > 1
    # PyTorch chooses by shapes, strides and device: views of a table serve, and a full device describes its kernels.
    table = decoder.rotary.cos.view(-1)
    queries = table[: layer.head_dim].expand(1, layer.heads, new, -1)
    keys = table[: layer.head_dim].expand(1, layer.kv_heads, length, -1)
    mask = None if is_first or new == 1 else table[:length].expand(1, 1, new, -1)
    return kernel_of(queries, keys, mask, is_causal=is_first, kind=decoder.attention)
