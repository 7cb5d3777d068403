"""torch-tb-profiler's figures of a trace, by its own classes: what ours are held against."""

from __future__ import annotations

import logging
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evprof.metrics.traces.overview import CATEGORIES


@dataclass
class TensorBoardFigures:
    """Its data and its profile of one trace; times in µs, exact where the tables it shows are rounded."""

    data: Any
    profile: Any

    @property
    def category_us(self) -> list[float]:
        """The mean step's time in the order of our categories."""
        return [float(value) for value in self.data.avg_costs.costs[: len(CATEGORIES)]]

    @property
    def step_us(self) -> list[tuple[str, list[float]]]:
        """Each step's name and times."""
        costs = [[float(value) for value in step.costs[: len(CATEGORIES)]] for step in self.data.steps_costs]
        return list(zip(self.data.steps_names, costs, strict=False))

    @property
    def memory_by_operator(self) -> dict[tuple[str, str], list[int]]:
        """By device and name: self increase, self size, self count, increase, size, count; the calls it counts."""
        found = self.profile.memory_snapshot.get_memory_statistics(self.profile.tid2tree)
        return {(device, name): values for device, rows in found.items() for name, values in rows.items()}

    @property
    def curves(self) -> dict[str, list[list[float]]]:
        """Time since its zero in µs, allocated and reserved bytes, by device."""
        rows: dict[str, list[list[float]]] = self.profile.get_memory_curve("us", "B", patch_for_step_plot=False)["rows"]
        return rows

    @property
    def allocations(self) -> dict[str, list[list[Any]]]:
        """Operator, bytes, time of allocation and of release, duration, by device."""
        rows: dict[str, list[list[Any]]] = self.profile.get_memory_events(time_metric="us", memory_metric="B")["rows"]
        return rows


def tensorboard_figures(path: Path, folder: Path) -> TensorBoardFigures:
    """Runs its parser and its generator; what they warn of is their own affair."""
    from torch_tb_profiler.profiler.data import RunProfileData
    from torch_tb_profiler.profiler.run_generator import RunGenerator

    logging.getLogger("pytorch_profiler").setLevel(logging.CRITICAL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data = RunProfileData.parse("worker", "1", str(path), str(folder))
        return TensorBoardFigures(data, RunGenerator("worker", "1", data).generate_run_profile())
