"""Bytes, operations and shares of the limit, against figures worked out by hand."""

from __future__ import annotations

import pytest

from evprof.core.vocabulary.families import TextShape, VisionShape
from evprof.metrics.limits import workload

VICUNA = TextShape(layers=32, hidden=4096, intermediate=11_008, heads=32, kv_heads=32, head_dim=128, vocabulary=32_000)
SMALL = TextShape(layers=1, hidden=4, intermediate=6, heads=2, kv_heads=1, head_dim=2, vocabulary=10)


def test_a_small_shape_by_hand() -> None:
    # q 4x4, k 2x4, v 2x4, o 4x4; gate and up 6x4, down 4x6; norms 3x4; head 10x4.
    assert SMALL.layer_weights == 16 + 8 + 8 + 16 + 3 * 24
    assert SMALL.streamed_weights == 120 + 12 + 40
    assert SMALL.parameters == 172 + 40
    assert workload.kv_bytes_per_position(SMALL, 4) == 2 * 1 * 2 * 4
    assert workload.decode_flops(SMALL, 5) == 2 * 160 + 4 * 2 * 2 * 5
    # three positions see 1 + 2 + 3 positions
    assert workload.prefill_flops(SMALL, 3) == 2 * 120 * 3 + 4 * 2 * 2 * 6 + 2 * 40


def test_a_prefill_of_one_is_a_step_with_one_position() -> None:
    assert workload.prefill_flops(VICUNA, 1) == workload.decode_flops(VICUNA, 1)


def test_a_tied_head_is_read_though_its_table_is_counted_once() -> None:
    tied = TextShape(layers=1, hidden=4, intermediate=6, heads=2, kv_heads=1, head_dim=2, vocabulary=10, is_tied=True)
    assert tied.parameters == tied.streamed_weights == SMALL.streamed_weights


def test_vision_by_hand() -> None:
    shape = VisionShape(
        frames=2, layers=3, width=4, intermediate=8, patch=2, patches=9, kept=9, projections=((4, 6), (6, 6))
    )
    embedding = 2 * 9 * 12 * 4
    layer = 2 * 10 * (4 * 16 + 2 * 32) + 4 * 100 * 4
    behind = 2 * 9 * (24 + 36)
    assert workload.vision_flops(shape) == 2 * (embedding + 3 * layer + behind)


def test_clip_l14_at_336_is_near_its_published_operations() -> None:
    # CLIP ViT-L/14@336 is published with 191.1 GFLOPs a picture, a multiply-add counted once.
    shape = VisionShape(
        frames=1, layers=24, width=1024, intermediate=4096, patch=14, patches=576, kept=0, projections=()
    )
    assert workload.vision_flops(shape) / 2 == pytest.approx(191.1e9, rel=0.01)


def test_shares_of_the_limit() -> None:
    assert workload.bandwidth_share(13.2e9, 0.010, 2000e9) == pytest.approx(0.66)
    assert workload.compute_share(9e12, 0.030, 600e12) == pytest.approx(0.5)
    per_token = workload.weight_bytes_per_token(VICUNA, 2) + 640 * workload.kv_bytes_per_position(VICUNA, 2)
    at_the_ceiling_s = per_token / 2039e9
    assert workload.bandwidth_share(per_token, at_the_ceiling_s, 2039e9) == pytest.approx(1)
