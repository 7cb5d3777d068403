"""Between processes and within them: variance components, and what sessions note of them."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest

from evprof.metrics.estimates.estimates import ProcessSpread
from evprof.metrics.estimates.repeatability import components, read_repeatability


def test_components_are_those_of_the_textbook() -> None:
    # Levels 9, 10 and 11 of four runs each: mean squares 4 between and 2 / 3 within.
    groups = [[8, 9, 9, 10], [9, 10, 10, 11], [10, 11, 11, 12]]
    found = components(groups)
    assert found is not None
    assert found.mean == 10
    assert found.within == pytest.approx((2 / 3) ** 0.5 / 10)
    assert found.between == pytest.approx(((4 - 2 / 3) / 4) ** 0.5 / 10)
    assert found.means == pytest.approx(0.1)
    assert found.degrees == 2


def test_components_find_what_was_put_in() -> None:
    draw = np.random.default_rng(3)
    groups = [100 + draw.normal(0, 2) + draw.normal(0, 0.5, size=10) for _ in range(400)]
    found = components(map(list, groups))
    assert found is not None
    assert found.between == pytest.approx(0.02, rel=0.1)
    assert found.within == pytest.approx(0.005, rel=0.1)


def test_too_few_values_say_nothing() -> None:
    assert components([]) is None
    alone = components([[3.0]])
    assert alone is not None
    assert (alone.between, alone.within) == (None, None)
    same = components([[1.0, 2.0], [2.0, 1.0]])
    assert same is not None
    assert same.between == 0


def test_notes_are_read_by_place_and_nonsense_is_not_there(cell_runs: ModuleType) -> None:
    [run] = cell_runs.Cell(samples=1, is_imported=False, environment={"device": "this machine"}).runs(1)
    model = run.info.models["target"]
    place = {"machine": "this machine", "device": model.device, "dtype": model.dtype}
    entry = {**place, "relative_sd": 0.018, "degrees": 4}
    noted = [[entry], None, ["x", {**entry, "degrees": 0}, {**entry, "relative_sd": float("nan")}]]
    assert read_repeatability(noted, run) == ProcessSpread(0.018, 4)
    for other in ({"machine": "another"}, {"dtype": "int3"}, {"relative_sd": True}, {"degrees": None}):
        assert read_repeatability([[{**entry, **other}]], run) is None
