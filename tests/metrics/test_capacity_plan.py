"""What a memory holds: the most that is told fits, and one more does not."""

from __future__ import annotations

from types import ModuleType

from hypothesis import given
from hypothesis import strategies as st

from evprof.core.units import GIB, MIB
from evprof.metrics.costs.capacity_plan import (
    KINDS,
    PlannedModel,
    assumptions,
    plan,
    planned_model,
    published_models,
    together_bytes,
)
from evprof.metrics.limits.sizes import sizes_of

PUBLISHED = {model.name: model for model in published_models()}


@given(
    model=st.sampled_from(list(PUBLISHED.values())), memory=st.integers(1 * GIB, 200 * GIB), kind=st.sampled_from(KINDS)
)
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


@given(model=st.sampled_from(list(PUBLISHED.values())), memory=st.integers(14 * GIB, 100 * GIB))
def test_more_memory_and_smaller_numbers_hold_more(model: PlannedModel, memory: int) -> None:
    counts = [plan(model, memory, kind).most_positions for kind in ("as computed", "hqq4")]
    assert plan(model, memory + GIB).most_positions >= counts[0]
    assert plan(model, memory, "hqq4").needed_bytes > model.weight_bytes
    if counts[0] > 1000:
        assert counts[1] > counts[0]


def test_a_24_gib_card_by_hand() -> None:
    model = PUBLISHED[next(name for name in PUBLISHED if name.startswith("LLaVA-1.5"))]
    found = plan(model, 24 * GIB)
    left = 24 * GIB - model.weight_bytes - 512 * MIB
    # Half a MiB of cache a position, and then some for its activations.
    assert 0.6 * left / (512 * 1024) < found.most_positions < left / (512 * 1024)
    assert model.frames_in_context is not None
    assert model.positions(model.frames_in_context) <= 4096 < model.positions(model.frames_in_context + 1)
    assert not plan(model, 12 * GIB).fits
    assert plan(model, 12 * GIB).most_positions == 0


def test_two_models_together_take_what_each_takes() -> None:
    plans = [plan(model, 24 * GIB) for model in list(PUBLISHED.values())[:2]]
    assert together_bytes(plans) == sum(each.needed_bytes for each in plans)


def test_a_runs_model_is_planned_with_its_own_prompt(cell_runs: ModuleType) -> None:
    run = cell_runs.Cell(
        frames=8, prompt=4643, is_imported=False, samples=1, model={"weight_bytes": 14 * GIB}, settings={"frames": 8}
    ).runs()[0]
    known = planned_model(run, "target", sizes_of(run.info.models["target"], {}))
    assert known is not None
    assert known.positions(8) == 4643 + known.answer
    assert (known.frames, known.frame_positions, known.shared_positions) == (8, 576, 0)
    unknown = planned_model(run, "target", None)
    assert unknown is not None
    assert unknown.needed_bytes(5000, 8, KINDS[0]) < known.needed_bytes(5000, 8, KINDS[0])
    assert any("Activations" in sentence for sentence in assumptions([unknown]))
    assert not any("Activations" in sentence for sentence in assumptions([known]))


def test_without_weights_nothing_is_planned(cell_runs: ModuleType) -> None:
    run = cell_runs.Cell(samples=1, prompt=600).runs()[0]
    assert planned_model(run, "target", None) is None
