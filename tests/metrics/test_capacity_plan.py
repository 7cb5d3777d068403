"""What a memory holds: the most that is told fits, and one more does not."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from evprof.core.units import GIB, MIB
from evprof.metrics.costs.cache_map import (
    KINDS,
    PlannedModel,
    plan,
)
from evprof.metrics.limits.memory_need import CUDA_WORKSPACE_BYTES, CacheShape
from evprof.metrics.limits.sizes import PUBLISHED_VISION, VICUNA_7B

LLAVA = PlannedModel(
    name="LLaVA-1.5 7B",
    dtype="bfloat16",
    weight_bytes=14_126_000_000,
    cache=CacheShape(32, 32, 128, 2),
    shape=VICUNA_7B,
    vision=PUBLISHED_VISION["llava"],
    text=60,
    frame_positions=576,
    shared_positions=0,
    frames=1,
    answer=128,
    context_limit=4096,
    workspace_bytes=CUDA_WORKSPACE_BYTES,
)
MODELS = (LLAVA, replace(LLAVA, name="pooled", vision=PUBLISHED_VISION["eventgpt"], frame_positions=1, frames=5))


@given(model=st.sampled_from(MODELS), memory=st.integers(1 * GIB, 200 * GIB), kind=st.sampled_from(KINDS))
def test_the_most_fits_and_one_more_does_not(model: PlannedModel, memory: int, kind: str) -> None:
    found = plan(model, memory, kind)
    assert found.most_frames is not None
    for count, needed in (
        (found.most_positions, lambda count: model.needed_bytes(count, model.frames, kind)),
        (found.most_frames, lambda count: model.needed_bytes(model.positions(count), count, kind)),
    ):
        assert count == 0 or needed(count) <= memory
        assert needed(count + 1) > memory
    assert found.fits == (found.most_frames >= model.frames)


def test_a_24_gib_card_by_hand() -> None:
    model = LLAVA
    found = plan(model, 24 * GIB)
    left = 24 * GIB - model.weight_bytes - 512 * MIB
    # Half a MiB of cache a position, and then some for its activations.
    assert 0.6 * left / (512 * 1024) < found.most_positions < left / (512 * 1024)
    assert not plan(model, 12 * GIB).fits
    assert plan(model, 12 * GIB).most_positions == 0
