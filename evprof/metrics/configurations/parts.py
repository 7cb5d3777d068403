"""Where the time of a configuration goes: the mean of each part over all its runs, the spread, and runs to look at."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np

from evprof.core.records import COVERS, DRAFT, STAGES, TARGET
from evprof.core.run_log import RunLog
from evprof.core.units import ms_from_ns
from evprof.core.vocabulary.modes import mode_of
from evprof.metrics.configurations.gathering import configurations_of
from evprof.metrics.figures.stages import imported_ms, stage_ms, unattributed_ms

ROUND_PARTS = ("draft", "verify", "rollback")
"""What the rounds of a run divide its stage decode into."""

UNATTRIBUTED = "unattributed"

PERCENTS = (5, 50, 95)
"""Percentiles of a part whose runs are named."""

FEWEST_FOR_QUARTILES = 4


class PartKey(NamedTuple):
    """A stage of a role, or with a `parent` a part of it, summed over all rounds; the role is "" outside all stages."""

    role: str
    name: str
    parent: str = ""


@dataclass(frozen=True)
class MeanPart:
    """A part over the runs that have it: `values` are its times in ms with their run ids, shortest first.

    The spread is from the first to the third quartile, of fewer than four runs from the least to the most.
    """

    key: PartKey
    values: tuple[tuple[float, int], ...]

    @property
    def mean_ms(self) -> float:
        return fmean(ms for ms, _ in self.values)

    @property
    def has_quartiles(self) -> bool:
        return len(self.values) >= FEWEST_FOR_QUARTILES

    @property
    def spread_ms(self) -> tuple[float, float]:
        low, high = np.percentile([ms for ms, _ in self.values], (25, 75) if self.has_quartiles else (0, 100))
        return float(low), float(high)

    def at(self, percent: int) -> tuple[float, int]:
        """Time in ms and run id at a percentile: the nearest rank, so that it is one of the runs."""
        return self.values[max(0, math.ceil(percent / 100 * len(self.values)) - 1)]

    def to_json(self) -> dict[str, Any]:
        low, high = self.spread_ms
        picked = {str(percent): self.at(percent) for percent in PERCENTS}
        return {
            **{name: value or None for name, value in self.key._asdict().items()},
            "mean_ms": self.mean_ms,
            "spread_ms": [low, high],
            "spread": "quartiles" if self.has_quartiles else "range",
            "runs": len(self.values),
            "percentiles": {percent: {"ms": ms, "run_id": run_id} for percent, (ms, run_id) in picked.items()},
        }


def mean_parts(runs: Sequence[RunLog]) -> list[MeanPart]:
    """The measured parts in the order of stages: the draft's, the target's, and the time outside all stages."""
    values: dict[PartKey, list[tuple[float, int]]] = {}
    for run in runs:
        for key, ms in _parts_ms(run):
            values.setdefault(key, []).append((ms, run.run_id))
    return [MeanPart(key, tuple(sorted(values[key]))) for key in sorted(values, key=_order)]


def parts_document(runs: Sequence[RunLog]) -> list[dict[str, Any]]:
    """`time_by_part` of a session's document: an entry for each configuration."""
    return [
        {
            "configuration": column.label,
            "run_ids": [run.run_id for run in column.runs],
            "parts": [part.to_json() for part in mean_parts(column.runs)],
        }
        for column in configurations_of(runs)
    ]


def _parts_ms(run: RunLog) -> Iterator[tuple[PartKey, float]]:
    if run.info.imported is not None:
        yield from ((PartKey(run.info.role, name), ms) for name, ms in imported_ms(run).items())
    else:
        measured = ((PartKey(role, name), stage_ms(run, name, role)) for role in (DRAFT, TARGET) for name in STAGES)
        yield from ((key, ms) for key, ms in measured if ms is not None)
    if mode_of(run.info.mode).drafts and run.rounds:
        # What was drafted beside the target's prefill is the stage decode of the draft.
        beside = [entry for entry in run.rounds if not entry.hidden]
        sums = {"draft": sum(entry.draft_ns for entry in beside)} if beside else {}
        sums |= {"verify": sum(entry.verify_ns for entry in run.rounds)}
        sums |= {"rollback": sum(entry.rollback_ns for entry in run.rounds)}
        for name, total_ns in sums.items():
            yield PartKey(run.info.role, name, "decode"), ms_from_ns(total_ns)
    if (outside := unattributed_ms(run)) is not None:
        yield PartKey("", UNATTRIBUTED), outside


def _order(key: PartKey) -> tuple[int, int, int]:
    stage = (key.parent or key.name).split(COVERS)[-1]
    role = (DRAFT, TARGET, "").index(key.role)
    return role, STAGES.index(stage) if key.role else 0, 1 + ROUND_PARTS.index(key.name) if key.parent else 0
