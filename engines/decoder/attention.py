"""Attention over visible keys and values: which kernel computes it, and which positions a query may see."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from evprof.core.errors import UserError

SDPA, FLASH, CUDNN, EAGER = "sdpa", "flash", "cudnn", "eager"
"""PyTorch's choice of kernel; its flash kernel or none; cuDNN's or none; matrix products and a softmax one by one."""

_BACKENDS = {
    "flash": SDPBackend.FLASH_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "math": SDPBackend.MATH,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
}

ALONE = {FLASH: "PyTorch's flash attention", CUDNN: "cuDNN's attention"}

# Here, because whatever computes attention imports this. cuDNN, PyTorch's first choice on Hopper GPUs, builds a plan
# for every new length in every thread, which takes longer than many decode steps: only a prefill may ask for it.
torch.backends.cuda.enable_cudnn_sdp(False)


@dataclass(frozen=True)
class PromptMask:
    positions: int
    dtype = "bool"
    nbytes = 0

    @property
    def shape(self) -> tuple[int, int]:
        """[batch, positions]."""
        return 1, self.positions


def attend(
    queries: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    mask: torch.Tensor | None,
    *,
    is_causal: bool,
    kind: str = SDPA,
) -> torch.Tensor:
    """Queries [B, H, S, D] over keys and values [B, kv_heads, L, D] -> [B, H, S, D]. `mask` [B or 1, 1, S, L] is
    boolean or added to the scores; `is_causal` is for S = L without a mask."""
    shares = queries.shape[1] != keys.shape[1]
    if kind != EAGER:
        return F.scaled_dot_product_attention(
            queries, keys, values, attn_mask=mask, is_causal=is_causal, enable_gqa=shares
        )
    if shares:
        groups = queries.shape[1] // keys.shape[1]
        keys, values = keys.repeat_interleave(groups, 1), values.repeat_interleave(groups, 1)
    scores = queries @ keys.transpose(-1, -2) * queries.shape[-1] ** -0.5
    if is_causal:
        mask = causal_mask(0, queries.shape[-2], None, queries.device)
    if mask is not None:
        is_told = mask.dtype == torch.bool
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min) if is_told else scores + mask
    seen: torch.Tensor = scores.softmax(dim=-1, dtype=torch.float32).to(values.dtype) @ values
    return seen


def causal_mask(start: int, new: int, padding: torch.Tensor | None, device: torch.device) -> torch.Tensor | None:
    """Which of `start` + `new` positions each new one sees: [1 or B, 1, new, start + new]; None if all. Padded
    positions see themselves."""
    if padding is None and new == 1:
        return None
    seen = torch.arange(start + new, device=device)
    asking = seen[start:, None]
    mask = seen <= asking
    if padding is None:
        return mask[None, None]
    mask = mask & (seen >= padding[:, None, None]) | (seen == asking)
    return mask[:, None]


def added(mask: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """A boolean mask as a term of the scores: 0 or -inf. PyTorch's kernels compute the same in every layer."""
    return torch.zeros(mask.shape, device=mask.device, dtype=dtype).masked_fill_(~mask, -torch.inf)


def choosing_kernel(kind: str, mask: torch.Tensor | None, *, is_causal: bool = False) -> AbstractContextManager[None]:
    """Restricts PyTorch to one kernel for "flash", and for "cudnn" in a prefill. Passes under a mask are not
    restricted."""
    return _only(kind) if _is_restricted(kind, mask, is_causal) else nullcontext()


def _is_restricted(kind: str, mask: torch.Tensor | None, is_causal: bool) -> bool:
    return mask is None and (kind == FLASH or (kind == CUDNN and is_causal))


@contextmanager
def _only(kind: str) -> Iterator[None]:
    try:
        with sdpa_kernel(_BACKENDS[kind]):
            yield
    except RuntimeError as error:
        if not str(error).startswith(("No available kernel", "No viable backend")):
            raise
        raise UserError(
            f"{ALONE[kind]} cannot compute this model's attention on this device; choose --attention sdpa."
        ) from None


def attention_backends() -> dict[str, list[str]]:
    """PyTorch's attention kernels: the `order` in which it tries them, with disabled ones last, and those `enabled`."""
    switches = torch.backends.cuda
    is_on = {
        "flash": switches.flash_sdp_enabled(),
        "efficient": switches.mem_efficient_sdp_enabled(),
        "math": switches.math_sdp_enabled(),
        "cudnn": switches.cudnn_sdp_enabled(),
    }
    names = {backend.value: name for name, backend in _BACKENDS.items()}
    # On some GPUs PyTorch moves cuDNN forward in its first choice. Its place means nothing while it is disabled.
    order = [names[place] for place in torch._C._get_sdp_priority_order() if place in names]
    order.sort(key=lambda name: not is_on[name])
    return {"order": order, "enabled": [name for name in order if is_on[name]]}
