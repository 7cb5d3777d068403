"""Low-rank changes of the draft's projections, learnt from what the target said; merged, they cost nothing per token.

W' = W + up @ down for each changed matrix of a layer (Hu et al., arXiv 2106.09685). How they are taught is
`engines.training.trainees`'s.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
import torch.nn.functional as F
from torch import nn

from engines.adapters.folder import check_draft, check_kind, load_tensors, size_of
from engines.decoder.llama import LlamaDecoder
from evprof.core.vocabulary.drafters import LORA
from evprof.loaders.adapters import AdapterInfo

PROJECTIONS = ("qkv", "out", "gate_up", "down")
"""A layer's matrices as `LlamaLayer` fuses them."""


class LowRankLinear(nn.Module):
    """A frozen projection and its change, while it is being learnt; it changes nothing at first."""

    def __init__(self, base: nn.Module, rank: int, sizes: tuple[int, int], like: torch.Tensor) -> None:
        super().__init__()
        rows, columns = sizes
        self.base = base
        self.down = nn.Parameter(torch.randn(rank, columns, device=like.device) * columns**-0.5)
        self.up = nn.Parameter(torch.zeros(rows, rank, device=like.device))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """[..., columns] -> [..., rows]; the change is computed in float32."""
        changed = F.linear(F.linear(inputs.float(), self.down), self.up)
        result: torch.Tensor = self.base(inputs) + changed.to(inputs.dtype)
        return result


def projections(decoder: LlamaDecoder) -> Iterator[tuple[str, nn.Module, str, nn.Linear]]:
    """Every matrix that may be changed: its name, the layer that holds it, the attribute's name, the projection."""
    for index, layer in enumerate(decoder.layers):
        for name in PROJECTIONS:
            yield f"layers.{index}.{name}", layer, name, getattr(layer, name)


def lora_shapes(decoder: LlamaDecoder, rank: int) -> dict[str, tuple[int, int]]:
    """Name -> shape of every tensor of an adapter of this rank for this model."""
    shapes: dict[str, tuple[int, int]] = {}
    for name, _, _, linear in projections(decoder):
        shapes[f"{name}.up"] = (linear.out_features, rank)
        shapes[f"{name}.down"] = (rank, linear.in_features)
    return shapes


def merge(decoder: LlamaDecoder, tensors: Mapping[str, torch.Tensor]) -> None:
    """Adds up @ down to each of the decoder's projections, in place; the product is made in float32."""
    with torch.no_grad():
        for name, _, _, linear in projections(decoder):
            weight = linear.weight
            up, down = (tensors[f"{name}.{part}"].to(weight.device, torch.float32) for part in ("up", "down"))
            weight.copy_((weight.float() + up @ down).to(weight.dtype))


def load_lora(info: AdapterInfo, draft: LlamaDecoder) -> None:
    """Changes a loaded draft as it was taught. Raises UserError for another kind or another model's sizes."""
    check_kind(info, LORA)
    check_draft(info, draft)
    merge(draft, load_tensors(info, lora_shapes(draft, size_of(info, "rank", most=4096)), dtype=torch.float32))
