"""Products of few rows: full and packed weights, every dtype, odd and round shapes, 1 to 16 tokens."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.kernels import projections
from engines.kernels.packed_weight import FLOAT8, FULL, INT4, INT8, PackedWeight, Tiling
from engines.kernels.projections import norm_gate_up, norm_project, project_add

EPS = 1e-5
LARGEST = {torch.float32: 1e-6, torch.float16: 1e-3, torch.bfloat16: 2e-2}
"""‖found − wanted‖ / ‖wanted‖. The interpreter cuts bfloat16 off where a GPU rounds to the nearest."""

SHAPES = [(64, 256), (96, 128), (33, 200), (7, 65), (40, 704)]
"""Rows and columns; of a gated product, half of the rows."""


class Case:
    """Random activations and weights, and what float64 makes of them."""

    def __init__(self, tokens: int, rows: int, columns: int, dtype: torch.dtype, *, bits: int, seed: int = 0) -> None:
        torch.manual_seed(seed)
        rows += rows % 2
        self.inputs = torch.randn(tokens, columns).to(dtype)
        self.norm = (0.5 + torch.rand(columns)).to(dtype)
        self.full = (0.1 * torch.randn(rows, columns)).to(dtype)
        self.bias = torch.randn(rows).to(dtype)
        self.residual = torch.randn(tokens, rows).to(dtype)
        self.weight: Any = self.full if bits == FULL else PackedWeight.of(self.full, bits)
        self._exact = (self.full if bits == FULL else self.weight.unpacked(torch.float32)).double()

    def found(self) -> dict[str, torch.Tensor]:
        return {
            "norm_project": norm_project(self.inputs, self.norm, self.weight, EPS, self.bias),
            "project_add": project_add(self.inputs, self.weight, self.residual, self.bias),
            "norm_gate_up": norm_gate_up(self.inputs, self.norm, self.weight, EPS),
        }

    def wanted(self) -> dict[str, torch.Tensor]:
        inputs, columns = self.inputs.double(), self.inputs.shape[1]
        normed = F.rms_norm(inputs, (columns,), self.norm.double(), EPS) @ self._exact.T
        gate, up = normed.chunk(2, 1)
        return {
            "norm_project": normed + self.bias,
            "project_add": inputs @ self._exact.T + self.bias + self.residual,
            "norm_gate_up": F.silu(gate) * up,
        }

    def distances(self) -> dict[str, float]:
        found, wanted = self.found(), self.wanted()
        assert all(found[name].dtype == self.inputs.dtype for name in wanted)
        return {name: float((found[name] - wanted[name]).norm() / wanted[name].norm()) for name in wanted}


@pytest.fixture(autouse=True)
def few_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The interpreter takes its time by program."""
    monkeypatch.setattr(projections, "tiling_of", tiled)


def tiled(product: Any, _: torch.device) -> Tiling:
    if product.tokens > 1 and product.bits == INT4:
        return Tiling(32, 128, 4, 2)
    return Tiling(32, 256, 4, 2)


@pytest.mark.parametrize("bits", [FULL, INT8, INT4, FLOAT8])
@pytest.mark.parametrize("dtype", list(LARGEST), ids=str)
def test_products(dtype: torch.dtype, bits: int) -> None:
    worst: dict[str, float] = {}
    for shape, tokens in zip(SHAPES, [1, 5, 16, 1, 3], strict=True):
        for name, distance in Case(tokens, *shape, dtype, bits=bits).distances().items():
            worst[name] = max(worst.get(name, 0.0), distance)
    print(f"largest difference, {dtype}, {bits or 'full'}:", {name: f"{value:.1e}" for name, value in worst.items()})
    assert all(0 < value < LARGEST[dtype] for value in worst.values())


@pytest.mark.parametrize("tokens", range(1, 17))
def test_every_number_of_tokens(tokens: int) -> None:
    assert max(Case(tokens, 48, 160, torch.float32, bits=FULL).distances().values()) < LARGEST[torch.float32]


@settings(max_examples=15)
@given(
    st.sampled_from([15, 16, 17, 31, 32, 33, 64, 65]),
    st.sampled_from([1, 15, 16, 17, 63, 64, 65, 127, 128, 129, 255, 256, 257]),
    st.integers(1, 16),
    st.sampled_from([FULL, INT8, INT4, FLOAT8]),
    st.integers(0, 1000),
)
def test_around_the_edges_of_blocks(rows: int, columns: int, tokens: int, bits: int, seed: int) -> None:
    found = Case(tokens, rows, columns, torch.float32, bits=bits, seed=seed)
    assert max(found.distances().values()) < 5 * LARGEST[torch.float32]


def test_large_activations_in_float16_stay_finite() -> None:
    """Normed they are small, but the norm's scale comes after the product."""
    case = Case(3, 32, 256, torch.float16, bits=FULL)
    case.inputs[:, 7] = 40000.0
    case.norm[7] = 2.0
    found = norm_project(case.inputs, case.norm, case.full, EPS)
    assert found.isfinite().all()
