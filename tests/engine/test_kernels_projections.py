"""The products of the fused step, in Triton's interpreter and in its compiler; how weights are packed for them."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import interpreter
from engines.kernels.packed_weight import FLOAT8, FULL, GROUP, INT4, INT8, PackedWeight, Product, default_tiling


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("projections", marks=pytest.mark.whole),
        pytest.param("attention_kernel", marks=pytest.mark.whole),
        pytest.param("fused_layers", marks=pytest.mark.whole),
        pytest.param("fused_step", marks=pytest.mark.whole),
        "tuning",
        pytest.param("packed_step", marks=pytest.mark.whole),
    ],
)
def test_in_the_interpreter(name: str) -> None:
    pytest.importorskip("triton")
    told = interpreter.passes(name)
    print("\n".join(line for line in told.splitlines() if line.startswith("largest difference")))


@given(st.integers(1, 9), st.integers(1, 300), st.sampled_from([INT8, INT4, FLOAT8]), st.integers(0, 1000))
def test_packing(rows: int, columns: int, bits: int, seed: int) -> None:
    """Nothing is further off than half a step; in four bits what is cut to 7 steps, by one."""
    torch.manual_seed(seed)
    weight = torch.randn(rows, columns)
    packed = PackedWeight.of(weight, bits)
    assert packed.shape == (rows, columns)
    found = packed.unpacked(torch.float32)
    error = (found - weight).abs()
    if bits == INT8:
        assert bool((error <= 0.5001 * packed.scales[:, None]).all())
    elif bits == FLOAT8:
        # Three bits after the point, and steps of 2^-9 of a scale among the smallest.
        room = torch.maximum(weight.abs() / 16, packed.scales[:, None] * 2.0**-10)
        assert bool((error <= 1.0001 * room).all())
        assert float(error.norm() / weight.norm()) < 0.035
    else:
        steps = packed.scales.float().abs().repeat_interleave(GROUP, 1)[:, :columns]
        is_cut = (found / steps).abs().round() == 7
        assert bool((error <= torch.where(is_cut, 1.04, 0.501) * steps).all())
        assert float(error.norm() / weight.norm()) < 0.14
    # What is packed already is packed to the same again, but for the rounding of scales.
    again = PackedWeight.of(found, bits).unpacked(torch.float32)
    torch.testing.assert_close(again, found, rtol=0.01, atol=1e-6)


@pytest.mark.parametrize(("bits", "each"), [(INT8, 1.001), (INT4, 0.516), (FLOAT8, 1.001)])
def test_bytes_a_weight(bits: int, each: float) -> None:
    weight = torch.randn(16, 4096)
    assert PackedWeight.of(weight, bits).nbytes == pytest.approx(each * weight.numel(), rel=0.001)


@pytest.mark.parametrize("bits", [INT8, INT4, FLOAT8])
def test_a_row_of_zeros_stays_zero(bits: int) -> None:
    weight = torch.zeros(2, 130)
    weight[1, 5] = 3.0
    assert torch.equal(PackedWeight.of(weight, bits).unpacked(torch.float32)[0], weight[0])


SHAPES_7B = [(12288, 4096, False), (4096, 4096, False), (11008, 4096, True), (4096, 11008, False), (32000, 4096, False)]


@pytest.mark.parametrize("bits", [FULL, INT8, INT4, FLOAT8])
@pytest.mark.parametrize("tokens", [1, 16])
def test_every_multiprocessor_has_work(tokens: int, bits: int) -> None:
    """And no program of a 7B shape asks for fewer than 4 KiB at once."""
    for rows, columns, is_gated in [*SHAPES_7B, (6144, 4096, False)]:
        product = Product(tokens, rows, columns, 2, bits, is_gated)
        tiling = default_tiling(product)
        assert -(-rows // tiling.rows) >= 120
        assert tiling.rows * tiling.columns * product.element_bytes * product.matrices >= 2048
