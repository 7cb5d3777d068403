"""What a memory holds: the most that is told fits, and one more does not."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from evprof.core.units import GIB, MIB
from evprof.core.vocabulary.switches import LOSSY_CACHES
from evprof.metrics.limits.memory_need import CUDA_WORKSPACE_BYTES, CacheShape, PlannedModel
from evprof.metrics.limits.sizes import PUBLISHED_VISION, VICUNA_7B

LLAVA = PlannedModel(
    weight_bytes=14_126_000_000,
    cache=CacheShape(32, 32, 128, 2),
    kind="static",
    shape=VICUNA_7B,
    vision=PUBLISHED_VISION["llava"],
    text=60,
    frame_positions=576,
    shared_positions=0,
    frames=1,
    answer=128,
    workspace_bytes=CUDA_WORKSPACE_BYTES,
)
POOLED = replace(LLAVA, vision=PUBLISHED_VISION["eventgpt"], frame_positions=1, frames=5)


@given(st.sampled_from([LLAVA, POOLED]), st.integers(1 * GIB, 200 * GIB), st.sampled_from(["static", *LOSSY_CACHES]))
def test_the_most_fits_and_one_more_does_not(model: PlannedModel, memory: int, kind: str) -> None:
    model = replace(model, kind=kind)
    frames = model.most_frames(memory)
    assert frames is not None
    for count, needed in (
        (model.most_positions(memory), lambda count: model.needed_bytes(count, model.frames)),
        (frames, lambda count: model.needed_bytes(model.positions(count), count)),
    ):
        assert count == 0 or needed(count) <= memory
        assert needed(count + 1) > memory


def test_a_24_gib_card_by_hand() -> None:
    left = 24 * GIB - LLAVA.weight_bytes - 512 * MIB
    # Half a MiB of cache a position, and then some for its activations.
    assert 0.6 * left / (512 * 1024) < LLAVA.most_positions(24 * GIB) < left / (512 * 1024)
    assert LLAVA.most_positions(12 * GIB) == LLAVA.most_frames(12 * GIB) == 0
