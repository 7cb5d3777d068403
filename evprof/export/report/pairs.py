"""Which configurations of a report are compared with each other, and what several sections look up about them.

Lookups only: `evprof.metrics` computes figures.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evprof.core.records import DRAFT, TARGET
from evprof.core.run_log import RunLog
from evprof.core.vocabulary.modes import mode_of
from evprof.export.report.data import ReportData
from evprof.metrics.claims.evidence import Evidence
from evprof.metrics.comparison.differences import Difference, difference_of, pairs_side_by_side
from evprof.metrics.configurations.baselines import RunPool, baseline_over
from evprof.metrics.configurations.gathering import Configuration, without_reference
from evprof.metrics.limits.sizes import DeviceCeiling, ModelSizes, ceiling_of, read_ceilings, read_models, sizes_of
from evprof.metrics.speculation.payoff import Payoff, payoff_over

MOST_PAIRS = 4
"""Pairs that a section shows."""


@dataclass(frozen=True)
class ConfigurationPair:
    """Two configurations, the baseline first."""

    base: Configuration
    other: Configuration

    @property
    def sides(self) -> tuple[Configuration, Configuration]:
        return self.base, self.other

    @property
    def runs(self) -> tuple[RunLog, ...]:
        return (*self.base.runs, *self.other.runs)


def pairs_of(data: ReportData) -> list[ConfigurationPair]:
    """The configurations to compare, in order: draft and target of one cell, session or report, and speculation against
    the target alone; without any of these, every configuration of a session against its first."""
    return data.once(("pairs", data.columns), lambda: _pairs(without_reference(data.columns)))


def model_pairs(data: ReportData) -> list[ConfigurationPair]:
    """The pairs whose sides are two models, each alone."""
    return [pair for pair in pairs_of(data) if _role(pair.base) != _role(pair.other)]


def _pairs(columns: Sequence[Configuration]) -> list[ConfigurationPair]:
    sessions = dict.fromkeys(column.session for column in columns)
    found = [
        pair for session in sessions for pair in _within([column for column in columns if column.session == session])
    ]
    return found or _roles(columns) or [ConfigurationPair(columns[0], other) for other in columns[1:]]


def _within(columns: Sequence[Configuration]) -> list[ConfigurationPair]:
    found = [ConfigurationPair(*sides) for sides in pairs_side_by_side(columns)] or _roles(columns)
    runs = RunPool(run for column in columns for run in column.runs)
    for column in columns:
        if mode_of(_mode(column)).drafts and (plain := _plain_of(column, columns, runs)) is not None:
            found.append(ConfigurationPair(plain, column))
    return found or [ConfigurationPair(columns[0], other) for other in columns[1:]]


def _plain_of(column: Configuration, columns: Sequence[Configuration], runs: RunPool) -> Configuration | None:
    """The configuration that holds most of the baseline of one that speculates."""
    baseline = baseline_over(column.runs, runs)
    if baseline is None:
        return None
    wanted = set(baseline.run_ids)
    return max(columns, key=lambda other: sum(run.run_id in wanted for run in other.runs))


def _roles(columns: Sequence[Configuration]) -> list[ConfigurationPair]:
    """The first draft and the first target among these, if there are both."""
    firsts = [
        next((column for column in columns if _role(column) == role and not mode_of(_mode(column)).is_paired), None)
        for role in (DRAFT, TARGET)
    ]
    return [ConfigurationPair(firsts[0], firsts[1])] if firsts[0] is not None and firsts[1] is not None else []


def _mode(column: Configuration) -> str:
    return column.runs[0].info.mode


def _role(column: Configuration) -> str:
    return column.runs[0].info.role


def firsts_of_models(data: ReportData, is_shown: Callable[[RunLog], bool]) -> list[Configuration]:
    """The first configuration of every model in every role whose first run is to be shown, at most four."""
    firsts: dict[tuple[str, str], Configuration] = {}
    for column in without_reference(data.columns):
        info = column.runs[0].info
        model = info.models.get(info.role)
        if is_shown(column.runs[0]):
            firsts.setdefault((info.role, model.name if model else ""), column)
    return list(firsts.values())[:4]


def noted_models(data: ReportData) -> dict[str, ModelSizes]:
    """What suites noted of their models, by name."""
    return read_models(data.facts("models"))


def sizes_in(data: ReportData, run: RunLog) -> ModelSizes | None:
    """The sizes of a run's answering model: noted, or of a published 7B layout."""
    return sizes_of(run.info.models.get(run.info.role), data.once("models", lambda: noted_models(data)))


def ceiling_in(data: ReportData, run: RunLog) -> DeviceCeiling | None:
    """What a suite measured where a run's answering model computed."""
    return ceiling_of(run, run.info.role, data.once("ceilings", lambda: read_ceilings(data.facts("ceilings"))))


def evidence_of(data: ReportData) -> Evidence:
    return data.once(
        ("evidence", data.columns),
        lambda: Evidence(
            columns=data.columns,
            pairs=[pair.sides for pair in pairs_of(data)],
            warmups=data.warmups,
            models=noted_models(data),
            ceilings=read_ceilings(data.facts("ceilings")),
        ),
    )


def difference_in(data: ReportData, pair: ConfigurationPair) -> Difference:
    """What makes up the difference of a pair on the report's basis."""
    key = (id(pair.base), id(pair.other), "difference")
    return data.once(key, lambda: difference_of(pair.base, pair.other, data.basis))


def payoff_in(data: ReportData, column: Configuration) -> Payoff | None:
    """The gain of speculation in a configuration against its baseline; None without one."""
    return data.once((id(column), "payoff"), lambda: payoff_over(column.runs, data.beside(column)))


def number_in(row: Mapping[str, Any], name: str) -> float | None:
    """A finite number of a noted row; None for anything else."""
    value: Any = row.get(name)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and math.isfinite(value) else None


def listed(names: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}" if names else ""
