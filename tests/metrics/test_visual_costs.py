"""What frames cost: counted tokens and bytes, shares of times, and nothing left over."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import cell_runs
from evprof.core.records import FrameRecord
from evprof.core.run_info import LengthFacts
from evprof.core.run_log import RunLog
from evprof.metrics.costs.visual_costs import VisualCosts, visual_costs
from evprof.metrics.figures.kv_cache import bytes_by_origin
from evprof.metrics.limits.sizes import ModelSizes, sizes_of

STAGES = {"load": 10.0, "vision": 30.0, "prefill": 500.0, "decode": 140.0}


def run_of(**changes: Any) -> RunLog:
    settings: dict[str, Any] = {"frames": 2, "prompt": 1200, "is_imported": False, "samples": 1, "stages": STAGES}
    return cell_runs.Cell(**(settings | changes)).runs()[0]


def costs_of(run: RunLog) -> tuple[VisualCosts, ModelSizes]:
    sizes = sizes_of(run.info.models["target"], {})
    assert sizes is not None
    found = visual_costs(run, sizes=sizes)
    assert found is not None
    return found, sizes


@given(
    own=st.lists(st.integers(1, 600), min_size=1, max_size=12),
    shared=st.integers(0, 577),
    text=st.integers(1, 60),
)
def test_frames_and_what_they_share_add_up(own: list[int], shared: int, text: int) -> None:
    run = run_of()
    visual = sum(own) + shared
    run.info.lengths = {"target": LengthFacts(visual + text, 0, text, visual, own)}
    found, _ = costs_of(run)
    parts = [*(frame.cost for frame in found.frames), found.shared]
    assert [frame.cost.tokens for frame in found.frames] == own
    assert sum(part.tokens for part in parts) == visual == found.whole.tokens
    assert sum(part.kv_bytes for part in parts) == found.whole.kv_bytes == bytes_by_origin(run)["visual"]
    assert sum(part.vision_ms or 0 for part in parts) == pytest.approx(30)
    assert found.whole.prefill_ms == pytest.approx(500 * visual / (visual + text))
    assert found.whole.decode_ms is not None
    assert 0 < found.whole.decode_ms < 140
    assert found.first_token_ms
    assert found.share_of_first_token == pytest.approx((30 + (found.whole.prefill_ms or 0)) / found.first_token_ms)


def test_frames_keep_their_sensor_time() -> None:
    run = run_of()
    for index in range(2):
        run.absorb(FrameRecord(1, "target", index, 1000 * index, 1000 * index + 900, f"slice {index}", b""))
    found, _ = costs_of(run)
    assert [(frame.label, frame.start_us) for frame in found.frames] == [("slice 0", 0), ("slice 1", 1000)]
    assert found.sensor_s == pytest.approx(0.0019)


def test_what_is_not_known_is_told_and_not_guessed() -> None:
    run = run_of(stages={"vision+prefill": 500.0, "decode": 140.0}, model={"layers": 2})
    found = visual_costs(run)
    assert found.whole.vision_ms is None
    assert found.whole.decode_ms is None
    assert any("Vision was not timed apart" in sentence for sentence in found.why)
    assert any("the model's sizes" in sentence for sentence in found.why)
