"""Attention over visible keys and values: which kernel computes it, and which positions a query may see."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own convention
from torch.nn.attention import SDPBackend, sdpa_kernel

from evprof.core.errors import UserError

SDPA, FLASH, EAGER = "sdpa", "flash", "eager"
"""PyTorch's choice of kernel; its flash kernel or none; matrix products and a softmax one by one."""


@dataclass(frozen=True)
class PromptMask:
    """The attention mask of one prompt as a record describes it: [1, positions], every one of them seen.

    It takes no memory, because without padding the kernel needs to know nothing but that attention is causal.
    """

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
    """Queries [B, H, S, D] over keys and values [B, kv_heads, L, D] -> [B, H, S, D].

    `mask` [B or 1, 1, S, L] is True where a query may look, or what is added to its scores (see `added`); `is_causal`
    is for S = L without one.
    """
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
    """Which of `start` + `new` positions each of the `new` last ones may see: [1 or B, 1, new, start + new].

    None when all may be seen. Every position sees itself, so that a padded one has something to average.
    """
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
    """A mask that is True where a query may look, as what is added to its scores: nothing there, -inf elsewhere.

    PyTorch's kernels make the same of it, but in every layer anew.
    """
    return torch.zeros(mask.shape, device=mask.device, dtype=dtype).masked_fill_(~mask, -torch.inf)


def choosing_kernel(kind: str, mask: torch.Tensor | None) -> AbstractContextManager[None]:
    """Restricts PyTorch to its flash kernel for "flash", leaves it alone otherwise.

    A pass under a mask (a verified block, a padded batch) is left alone too: flash kernels on CUDA take no mask.
    """
    return _only_flash() if kind == FLASH and mask is None else nullcontext()


@contextmanager
def _only_flash() -> Iterator[None]:
    try:
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            yield
    except RuntimeError as error:
        if "No available kernel" not in str(error):
            raise
        raise UserError(
            "PyTorch's flash attention cannot compute this model's attention on this device; choose --attention sdpa."
        ) from None
