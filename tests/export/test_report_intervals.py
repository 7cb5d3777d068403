"""The intervals of a report: over samples, not over runs."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

from evprof.export.report import readings
from evprof.export.report.data import Source, gather
from evprof.metrics.arithmetic.statistics import mean_interval
from evprof.metrics.figures.stages import END_TO_END


def test_asking_the_same_samples_again_makes_no_mean_surer(cell_runs: ModuleType) -> None:
    """Six samples whose times differ, each asked five times: an interval over thirty runs was half as wide."""
    cell = cell_runs.Cell(is_imported=False)
    runs = []
    for repeat in range(5):
        for run in cell.runs(1 + 6 * repeat):
            run.info.repeat, run.info.start_ns = repeat, 10**9 * run.run_id
            runs.append(run)
    data = gather([Source(Path("one.evprof"), runs)], END_TO_END)
    reading = readings.part("vision")
    found = data.summary(data.columns[0], reading)
    assert found is not None
    assert found.count == 30
    assert found.ci95 is not None
    low, high = mean_interval([reading.read(run) or 0 for run in runs[:6]]) or (0, 0)
    assert found.ci95[0] <= low + 1e-9
    assert found.ci95[1] >= high - 1e-9
