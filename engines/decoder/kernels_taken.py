"""Which attention kernels a model's passes took, told after the run from the lengths they really had."""

from __future__ import annotations

from engines.decoder.attention import added, causal_mask, kernel_of
from engines.decoder.compiled_step import CompiledStep
from engines.decoder.decoding import CachedModel
from engines.decoder.early_exit import EarlyExitStep
from engines.decoder.identical_step import POSITIONS, IdenticalStep
from engines.decoder.llama import LlamaDecoder


def kernels_taken(cached: CachedModel, block: int) -> dict[str, str]:
    """The kernel by pass: "prefill", "decode" and, of a model that verifies blocks of so many tokens, "verify".

    A pass that did not happen, or whose step does not tell, is left out. Takes no memory that counts.
    """
    decoder, prompt, length = cached.decoder, cached.prompt_length, cached.length
    if not isinstance(decoder, LlamaDecoder) or not prompt:
        return {}
    found = {"prefill": _kernel(decoder, prompt, min(cached.prefill_chunk or prompt, prompt))}
    if length > prompt:
        step = cached.own_step
        is_own = step is not None and step.problem is None and not isinstance(step, (CompiledStep, EarlyExitStep))
        sizes = {"decode": 1} | ({"verify": min(block, length)} if block > 1 else {})
        if is_own and isinstance(step, IdenticalStep):
            is_own, sizes = False, dict.fromkeys(sizes, POSITIONS)
        for name, new in sizes.items():
            found[name] = getattr(step, "attention_kernel", None) if is_own else _kernel(decoder, length, new)
    return {name: kernel for name, kernel in found.items() if kernel}


def _kernel(decoder: LlamaDecoder, length: int, new: int) -> str | None:
    """Of a pass whose `new` last positions look at `length`."""
    config, weight = decoder.config, decoder.embed_tokens.weight
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    one = weight.new_empty(1, 1, 1, width)
    queries = one.expand(-1, config.num_attention_heads, new, -1)
    keys = one.expand(-1, config.num_key_value_heads or config.num_attention_heads, length, -1)
    is_first = new == length > 1
    mask = None if is_first else causal_mask(length - new, new, None, weight.device)
    if mask is not None:
        mask = added(mask, one.dtype)
    return kernel_of(queries, keys, mask, is_causal=is_first, kind=decoder.attention)
