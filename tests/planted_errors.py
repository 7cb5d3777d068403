"""The fused step's kernels in Python, and seven errors planted into kernels.

The errors replace functions of `engines.kernels`, so that they work with Triton's kernels and with those in Python.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from engines.kernels import attention, elementwise, projections

_SHARES = 2


def use_python_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention, "rotate_and_write", _rotate_and_write)
    monkeypatch.setattr(attention, "attend_to_cache", _attend_to_cache)
    monkeypatch.setattr(projections, "norm_project", _norm_project)
    monkeypatch.setattr(projections, "project_add", _project_add)
    monkeypatch.setattr(projections, "norm_gate_up", _norm_gate_up)
    monkeypatch.setattr(elementwise, "add_norm", _add_norm)
    monkeypatch.setattr(elementwise, "silu_product", _silu_product)


def _add_norm(hidden: torch.Tensor, update: torch.Tensor, norm: torch.Tensor, eps: float) -> Any:
    total = hidden + update
    return total, _normed(total, norm, eps).to(total.dtype)


def _silu_product(gate_up: torch.Tensor) -> torch.Tensor:
    gate, up = gate_up.float().chunk(2, -1)
    return (F.silu(gate) * up).to(gate_up.dtype)


def _normed(hidden: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    return F.rms_norm(hidden.float(), weight.shape, weight.float(), eps).to(hidden.dtype).float()


def _norm_project(
    hidden: torch.Tensor, norm: torch.Tensor, weight: Any, eps: float, bias: Any, *, out: torch.Tensor
) -> torch.Tensor:
    return out.copy_(F.linear(_normed(hidden, norm, eps), weight.float(), bias))


def _project_add(
    inputs: torch.Tensor, weight: Any, residual: torch.Tensor, bias: Any, *, out: torch.Tensor
) -> torch.Tensor:
    return out.copy_(F.linear(inputs.float(), weight.float(), bias) + residual.float())


def _norm_gate_up(
    hidden: torch.Tensor, norm: torch.Tensor, weight: Any, eps: float, *, out: torch.Tensor, activation: Any = F.silu
) -> torch.Tensor:
    gate, up = F.linear(_normed(hidden, norm, eps), weight.float()).chunk(2, -1)
    return out.copy_(activation(gate) * up)


def _rotate_and_write(
    states: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    start: torch.Tensor,
    depths: torch.Tensor,
    *,
    keys: torch.Tensor,
    values: torch.Tensor,
    queries: torch.Tensor,
) -> None:
    new, heads, width = queries.shape
    kv_heads, begin = keys.shape[1], int(start)
    parts = states.float().view(new, -1, width)
    places = begin + depths[:new]
    turned = parts * cos[places][:, None].float() + parts.roll(width // 2, -1) * sin[places][:, None].float()
    queries.copy_(turned[:, :heads])
    keys[0, :, begin : begin + new] = turned[:, heads : heads + kv_heads].transpose(0, 1).to(keys.dtype)
    values[0, :, begin : begin + new] = parts[:, heads + kv_heads :].transpose(0, 1).to(values.dtype)


def _attend_to_cache(
    keys: torch.Tensor,
    values: torch.Tensor,
    start: torch.Tensor,
    seen: torch.Tensor,
    buffers: attention.AttentionBuffers,
    *,
    weigh: Callable[..., torch.Tensor] = torch.softmax,
) -> torch.Tensor:
    """Over two shares, each with its average and the logarithm of its exponentials' sum."""
    new, heads, width = buffers.queries.shape
    before, groups = int(start), heads // keys.shape[1]
    bits = (seen[:new, None] >> torch.arange(new)) & 1
    mask = torch.cat([torch.ones(new, before, dtype=torch.bool), bits.bool()], 1)
    held = (part[0, :, : before + new].float().repeat_interleave(groups, 0) for part in (keys, values))
    key, value = held
    scores = buffers.queries.float().transpose(0, 1) @ key.transpose(1, 2) * width**-0.5
    scores = scores.masked_fill(~mask, -torch.inf)
    averages, weights = [], []
    for score, part in zip(scores.chunk(_SHARES, 2), value.chunk(_SHARES, 1), strict=True):
        highest = score.amax(-1, keepdim=True).clamp_min(-1e30)
        chances = (score - highest).exp()
        total = chances.sum(-1, keepdim=True)
        averages.append(chances.to(keys.dtype).float() @ part / total.clamp_min(1e-30))
        weights.append(highest + total.log())
    shares = weigh(torch.stack(weights), 0) * torch.stack(averages)
    attended = shares.sum(0).transpose(0, 1).flatten(1)
    return buffers.attended.copy_(attended)


def _wrapped(monkeypatch: pytest.MonkeyPatch, change: Callable[..., tuple[Any, ...]]) -> None:
    right = attention.attend_to_cache
    monkeypatch.setattr(attention, "attend_to_cache", lambda *given: right(*change(*given)))


def rotated_one_off(monkeypatch: pytest.MonkeyPatch) -> None:
    right = attention.rotate_and_write

    def rotate(states: Any, cos: Any, sin: Any, start: Any, depths: Any, **held: Any) -> None:
        right(states, cos, sin, start, depths + 1, **held)

    monkeypatch.setattr(attention, "rotate_and_write", rotate)


def own_key_unseen(monkeypatch: pytest.MonkeyPatch) -> None:
    def change(keys: Any, values: Any, start: Any, seen: Any, buffers: Any) -> tuple[Any, ...]:
        own = 1 << torch.arange(16, dtype=torch.int32, device=seen.device)
        return keys, values, start, seen & ~own, buffers

    _wrapped(monkeypatch, change)


def one_key_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    def change(keys: Any, values: Any, start: Any, seen: Any, buffers: Any) -> tuple[Any, ...]:
        lost = int(start) - 1
        kept = [torch.cat([part[:, :, :lost], part[:, :, lost + 1 :]], 2).contiguous() for part in (keys, values)]
        return *kept, start - 1, seen, buffers

    _wrapped(monkeypatch, change)


def sees_one_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    _wrapped(monkeypatch, lambda keys, values, start, seen, buffers: (keys, values, start, seen | seen << 1, buffers))


def scores_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """By 2 %."""

    def change(keys: Any, values: Any, start: Any, seen: Any, buffers: Any) -> tuple[Any, ...]:
        buffers.queries.mul_(1.02)
        return keys, values, start, seen, buffers

    _wrapped(monkeypatch, change)


def gelu_for_silu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        projections, "norm_gate_up", lambda *given, out: _norm_gate_up(*given, out=out, activation=F.gelu)
    )


def shares_unweighted(monkeypatch: pytest.MonkeyPatch) -> None:
    def attend(*given: Any) -> torch.Tensor:
        return _attend_to_cache(*given, weigh=lambda weights, _: torch.full_like(weights, 1 / _SHARES))

    monkeypatch.setattr(attention, "attend_to_cache", attend)


def triton_shares_unweighted(monkeypatch: pytest.MonkeyPatch) -> None:
    right = attention._weigh_shares

    class Unweighted:
        def __getitem__(self, grid: Any) -> Callable[..., Any]:
            return lambda parts, weights, *given, **named: right[grid](parts, weights.zero_(), *given, **named)

    monkeypatch.setattr(attention, "_weigh_shares", Unweighted())


ERRORS = (
    rotated_one_off,
    own_key_unseen,
    one_key_lost,
    sees_one_ahead,
    scores_too_large,
    shares_unweighted,
    gelu_for_silu,
)

TRITON_ERRORS = tuple(triton_shares_unweighted if plant is shares_unweighted else plant for plant in ERRORS)
