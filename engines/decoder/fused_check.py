"""Before a fused step is taken: does it compute on this device what the decoder's own pass does?

Once per model, in setup: some steps, a verified block and a tree over a prompt of random tokens. Only here does the
host wait.
"""

from __future__ import annotations

import torch

from engines.decoder.compiled_step import first_line
from engines.decoder.fused_pass import MOST_POSITIONS, FusedPass
from engines.decoder.kv_cache import StaticKv
from engines.decoder.llama import BlockShape, LlamaDecoder

TOLERANCES = {torch.float32: 1e-3, torch.float16: 2e-2, torch.bfloat16: 1e-1}
"""How far logits may be apart, as a share of their own spread: some roundings of the dtype in every layer."""

_PROMPT = 120
_STARTS = (_PROMPT, 65, 16, 1)
"""Positions at which steps are compared, falling: a cache is cut back from one to the next."""


def check(fused: FusedPass, decoder: LlamaDecoder, block: int) -> None:
    """Raises RuntimeError, with what is wrong, for kernels that do not compile or compute something else."""
    from triton.errors import TritonError

    try:
        problem = difference_found(fused, decoder, block)
    except TritonError as error:
        raise RuntimeError(f"Triton could not make its kernels: {first_line(error)}") from error
    finally:
        fused.arrange(None)
        fused.release()
    if problem:
        raise RuntimeError(problem)


@torch.inference_mode()
def difference_found(fused: FusedPass, decoder: LlamaDecoder, block: int) -> str:
    """What is wrong with a fused pass, without a full stop; "" where logits agree with those of the decoder's own pass.

    Compared are steps of one token and blocks of `block`, as a chain and as a tree.
    """
    device, dtype = decoder.device, decoder.embed_tokens.weight.dtype
    cache = StaticKv(decoder.config, _PROMPT + MOST_POSITIONS, device=device, dtype=dtype)
    decoder.rotary.reach(cache.capacity)
    drawn = torch.randint(decoder.config.vocab_size, (1, cache.capacity), generator=torch.Generator().manual_seed(0))
    ids = drawn.to(device)
    decoder.trunk(decoder.embed(ids[:, :_PROMPT]), cache)
    for start in _STARTS:
        for shape in _shapes(min(block, MOST_POSITIONS), device):
            cache.crop(start)
            fed = ids[:, start : start + len(shape.parents)]
            expected = decoder.head(decoder.trunk(decoder.embed(fed), cache, shape=shape))
            fused.arrange(shape)
            found, _ = fused(decoder, fed, torch.full((1,), start, device=device), cache)
            apart = _distance(found.float(), expected.float())
            # Not the other way round: what is no number is no agreement.
            if not apart <= TOLERANCES[dtype]:
                return (
                    f"its logits of {len(shape.parents)} tokens after {start} are {apart:.2g} of their spread away "
                    f"from the eager ones, and {TOLERANCES[dtype]:g} is allowed"
                )
    return ""


def _shapes(block: int, device: torch.device) -> list[BlockShape]:
    """One token; the block as a chain; and as a tree whose positions have two children each."""
    parents = [[-1]]
    if block > 1:
        parents += [list(range(-1, block - 1)), [-1, *((index - 1) // 2 for index in range(1, block))]]
    return [BlockShape(each, device) for each in parents]


def _distance(found: torch.Tensor, expected: torch.Tensor) -> float:
    """The largest root mean square difference of a position, against the spread of its logits."""
    apart = (found - expected).square().mean(-1).sqrt() / expected.std(-1)
    return float(apart.max())
