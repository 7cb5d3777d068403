"""Which tiling is kept, with a scripted measurement: nothing of a file is believed that we would not write."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from triton.runtime.errors import OutOfResources

from engines.kernels import projections, tuning
from engines.kernels.projections import norm_project, product_of
from engines.kernels.tuning import candidates, tune

CPU = torch.device("cpu")
WEIGHTS = [torch.ones(8, 32), torch.ones(8, 32)]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(tuning, "cache_folder", lambda: tmp_path / "evprof")
    yield tmp_path / "evprof"
    projections.chosen_tilings.clear()


class Clock:
    """Finds the n-th candidate to be the fastest; some have no room."""

    def __init__(self, fastest: int, too_large: tuple[int, ...] = ()) -> None:
        self.fastest, self.too_large = fastest, too_large
        self.calls = 0

    def __call__(self, call: Callable[[], object], device: torch.device) -> float:
        self.calls += 1
        call()
        if self.calls - 1 in self.too_large:
            raise OutOfResources(300_000, 232_448, "shared memory")
        return 1.0 if self.calls - 1 == self.fastest else 2.0


def test_the_fastest_is_kept_and_taken(folder: Path) -> None:
    wanted = candidates(product_of(1, WEIGHTS[0], torch.float32))[2]
    clock = Clock(2, too_large=(0, 1))
    assert tune(WEIGHTS, 1, torch.float32, measure=clock) == wanted
    assert projections.tiling_of(product_of(1, WEIGHTS[0], torch.float32), CPU) == wanted
    again = Clock(0)
    assert tune(WEIGHTS, 1, torch.float32, measure=again) == wanted
    # Another process, which finds the file.
    projections.chosen_tilings.clear()
    assert tune(WEIGHTS, 1, torch.float32, measure=again) == wanted
    assert again.calls == 0
    assert torch.allclose(norm_project(torch.ones(1, 32), torch.ones(32), WEIGHTS[0], 0.0), torch.full((1, 8), 32.0))


@pytest.mark.parametrize(
    "found",
    [
        "",
        "[]",
        "{",
        '{"MACHINE": 3}',
        '{"MACHINE": {"NAME": [3, 512, 4, 4]}}',
        '{"MACHINE": {"NAME": [8, 8192, 4, 4]}}',
        '{"MACHINE": {"NAME": [8, 512, 4, 400]}}',
        '{"MACHINE": {"NAME": [8, 512, 4]}}',
        '{"MACHINE": {"NAME": "8"}}',
    ],
)
def test_a_file_that_is_not_as_we_write_it(found: str, folder: Path) -> None:
    folder.mkdir()
    name = tuning._name(product_of(1, WEIGHTS[0], torch.float32))
    text = found.replace("MACHINE", tuning._machine(CPU)).replace("NAME", name)
    (folder / "tilings.json").write_text(text)
    clock = Clock(1)
    chosen = tune(WEIGHTS, 1, torch.float32, measure=clock)
    assert clock.calls > 1
    assert json.loads((folder / "tilings.json").read_text())[tuning._machine(CPU)][name] == [
        *dataclasses.astuple(chosen)
    ]
