"""Stages over frames and clip lengths: a planted slope comes back, and what is said follows from the numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import cell_runs
from evprof.core.run_log import RunLog
from evprof.metrics.arithmetic.scaling import FittedLine
from evprof.metrics.costs.sweeps import (
    FRAMES,
    SECONDS,
    SHRINKS,
    TOO_FEW,
    scaling_document,
    slope_sentence,
    sweeps_of,
)


def grid(frames: tuple[int, ...], slope: float, *, samples: int = 3, scatter: float = 0.0, **more: Any) -> list[RunLog]:
    """One cell per number of frames: prefill = 20 + slope · frames, plus and minus `scatter` from sample to sample."""
    runs: list[RunLog] = []
    for place, count in enumerate(frames):
        for sample in range(samples):
            deviation = scatter * (-1) ** (place + sample)
            cell = cell_runs.Cell(
                name=f"{count} frames",
                stages={"vision": 5.0, "prefill": 20 + slope * count + deviation, "decode": 50.0},
                frames=count,
                prompt=600 * count + 30,
                settings={"frames": count},
                is_imported=False,
                samples=1,
                **more,
            )
            run = cell.runs(1 + 100 * place + sample)[0]
            run.info.sample = replace(run.info.sample, name=f"sample {sample}")
            runs.append(run)
    return runs


@given(slope=st.floats(-2, 60), frames=st.lists(st.integers(1, 64), min_size=2, max_size=6, unique=True))
def test_a_planted_slope_comes_back(slope: float, frames: list[int]) -> None:
    (sweep,) = scaling_document(grid(tuple(frames), slope))
    found = {entry["stage"]: entry["ms_per_step"] for entry in sweep["slopes"]}
    # Times are whole nanoseconds.
    assert found["prefill"] == pytest.approx(slope, abs=1e-5)
    assert found["vision"] == pytest.approx(0, abs=1e-6)
    assert [point["at"] for point in sweep["points"]] == sorted(map(float, frames))
    for point in sweep["points"]:
        assert point["total"]["ms"] == pytest.approx(75 + slope * point["at"], abs=1e-4)
        assert sum(stage["ms"] for stage in point["stages"].values()) == pytest.approx(point["total"]["ms"])
        assert len(point["run_ids"]) == 3


def line(slope: float, interval: tuple[float, float] | None, mean: float = 100.0) -> FittedLine:
    if interval is None:
        return FittedLine(slope, 1.0, 2, 2, 1, 1.0, 9.0, mean)
    return FittedLine(slope, 1.0, 9, 3, 3, 1.0, 9.0, mean, interval)


@pytest.mark.parametrize(
    ("slope", "interval", "expected"),
    [
        (49.0, (47.0, 51.0), "+49 ms per extra second (47 to 51), from 9 runs at 3 lengths of clip"),
        (-3.0, (-4.0, -2.0), "-3 ms per extra second (-4 to -2), from 9 runs"),
        (0.1, (-0.2, 0.4), "-0.2 to 0.4 ms per extra second: flat, from 9 runs at 3 lengths of clip"),
        (20.0, (-5.0, 45.0), "-5 to 45 ms per extra second: not told apart from flat, from 9 runs"),
        (
            20.0,
            None,
            "+20 ms per extra second, from one run at each of 2 lengths of clip: too few runs",
        ),
        (1500.0, (1500.0, 1500.0), "+1,500 ms per extra second, from 9 runs"),
        (0.0, (0.0, 0.0), "0 ms per extra second: flat, from 9 runs"),
    ],
)
def test_what_is_said_follows_from_the_numbers(
    slope: float, interval: tuple[float, float] | None, expected: str
) -> None:
    assert slope_sentence(line(slope, interval), SECONDS).startswith(expected)


@given(counts=st.lists(st.integers(1, 5), min_size=2, max_size=4))
def test_a_verdict_says_what_it_rests_on_and_two_amounts_need_three_runs_each(counts: list[int]) -> None:
    """Four runs at 8 and 16 frames, one of them alone at 8, once said "shrinks"."""
    runs = []
    for place, count in enumerate(counts):
        every = grid((2, 4, 8, 16)[: len(counts)], -3.0, samples=5, scatter=0.2)
        mine = [run for run in every if run.info.settings.frames == (2, 4, 8, 16)[place]][:count]
        for repeat, run in enumerate(mine):
            run.info.sample, run.info.repeat = replace(run.info.sample, name="scene"), repeat
        runs += mine
    (sweep,) = scaling_document(runs)
    prefill = next(entry for entry in sweep["slopes"] if entry["stage"] == "prefill")
    said = "one run at each of" if set(counts) == {1} else f"{sum(counts)} runs at"
    assert f"from {said} {len(counts)} numbers of frames" in prefill["sentence"]
    assert (", only " in prefill["sentence"]) == (min(counts) < 3 and len(set(counts)) > 1)
    if len(counts) == 2:
        assert prefill["verdict"] == (TOO_FEW if min(counts) < 3 else SHRINKS)


def test_clips_of_one_scene_are_a_sweep_over_seconds() -> None:
    runs = grid((4,), 1.0, samples=6)
    for place, run in enumerate(runs):
        seconds = (1, 2, 4)[place % 3]
        run.info.sample = replace(run.info.sample, name="drive", start_us=0, duration_us=seconds * 1_000_000)
        run.info.cell, run.info.repeat = f"{seconds} s", place
    assert sweeps_of(runs, FRAMES) == []
    (sweep,) = sweeps_of(runs, SECONDS)
    assert sweep.places() == [1.0, 2.0, 4.0]
    assert scaling_document(runs)[0]["axis"] == SECONDS.key


def test_unfinished_and_warm_up_runs_stay_out() -> None:
    runs = grid((2, 4), 1.0)
    runs[0].info.status = "failed"
    runs[1].info.warmup = True
    (sweep,) = scaling_document(runs)
    assert sweep["runs"] == len(runs) - 2


def test_shares_of_the_roof_need_a_ceiling() -> None:
    runs = grid((2, 4), 1.0)
    rates = {"copy_bytes_s": 100e9, "matmul_flops_s": 1e12}
    ceiling = {"device": "cpu", "dtype": "float16", "threads": 0, **rates}
    (without,), (with_one,) = scaling_document(runs), scaling_document(runs, {"ceilings": [ceiling]})
    assert {entry["share"] for point in without["points"] for entry in point["roof"]} == {None}
    shares = {entry["stage"]: (entry["figure"], entry["share"]) for entry in with_one["points"][0]["roof"]}
    assert shares["prefill"][0] == "MFU"
    assert shares["decode"][0] == "MBU"
    assert all(share > 0 for _, share in shares.values())
