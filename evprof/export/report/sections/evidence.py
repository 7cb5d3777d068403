"""What analysing sections share: names of configurations, which of them form pairs, and what the sessions note.

Only lookups; figures are computed by `evprof.metrics` and told by the sections.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from evprof.core.records import DRAFT, TARGET
from evprof.core.run_log import RunLog
from evprof.core.vocabulary.modes import mode_of
from evprof.export.report.data import ReportData
from evprof.export.report.figures import interval_text, ms_cell, number_text, ratio_cell
from evprof.export.report.parts import Badge, Cell, not_available
from evprof.metrics.claims.evidence import Evidence
from evprof.metrics.configurations.baselines import RunPool, baseline_over
from evprof.metrics.configurations.gathering import Configuration, without_reference
from evprof.metrics.limits.sizes import DeviceCeiling, ModelSizes, ceiling_of, read_ceilings, read_models, sizes_of
from evprof.metrics.speculation.payoff import MeasuredSpeedup, Payoff, payoff_over

MOST_PAIRS = 8
"""Pairs a section tells of; the comparison of all configurations is another section's."""


@dataclass(frozen=True)
class ConfigurationPair:
    """Two configurations, the baseline first."""

    base: Configuration
    other: Configuration


def names_of(data: ReportData) -> dict[int, str]:
    """id of a column -> what it is called everywhere in the report."""
    return {id(column): name for column, name in zip(data.columns, data.names, strict=True)}


def badge_of(runs: Iterable[RunLog], otherwise: Badge = Badge.MEASURED) -> Badge:
    """What a figure read off these runs is: imported when any of them is."""
    return Badge.IMPORTED if any(run.info.imported is not None for run in runs) else otherwise


def pairs_of(data: ReportData) -> list[ConfigurationPair]:
    """The configurations that ask to be compared, in order: draft and target of one cell, session or report, and
    speculation against the target alone; without any of these, every configuration of a session against its first."""
    return data.once("pairs", lambda: _pairs(without_reference(data.columns)))


def _pairs(columns: Sequence[Configuration]) -> list[ConfigurationPair]:
    found: list[ConfigurationPair] = []
    for session in dict.fromkeys(column.session for column in columns):
        found += _within([column for column in columns if column.session == session])
    if not found:
        found = _roles(columns) or [ConfigurationPair(columns[0], other) for other in columns[1:]]
    return found


def _within(columns: Sequence[Configuration]) -> list[ConfigurationPair]:
    """Pairs of one session."""
    by_request: dict[tuple[str, int], list[Configuration]] = {}
    for column in columns:
        if mode_of(_mode(column)).is_side_by_side:
            info = column.runs[0].info
            by_request.setdefault((info.cell, 0 if info.cell else info.group_id), []).append(column)
    found = [pair for together in by_request.values() for pair in _roles(together)]
    if not found:
        found = _roles(columns)
    runs = RunPool(run for column in columns for run in column.runs)
    for column in columns:
        if mode_of(_mode(column)).drafts and (plain := plain_of(column, columns, runs)) is not None:
            found.append(ConfigurationPair(plain, column))
    return found or [ConfigurationPair(columns[0], other) for other in columns[1:]]


def plain_of(column: Configuration, columns: Sequence[Configuration], runs: RunPool) -> Configuration | None:
    """The configuration among `columns`, of one session and with these `runs`, that holds most of the baseline of one
    that speculates."""
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


def noted_models(data: ReportData) -> dict[str, ModelSizes]:
    """What suites noted of their models, by name."""
    return read_models(data.facts("models"))


def noted_ceilings(data: ReportData) -> list[DeviceCeiling]:
    """What suites measured of their machines."""
    return read_ceilings(data.facts("ceilings"))


def evidence_of(data: ReportData) -> Evidence:
    """What the claims are judged by."""
    return data.once(
        "evidence",
        lambda: Evidence(
            columns=data.columns,
            pairs=[(pair.base, pair.other) for pair in pairs_of(data)],
            warmups=data.warmups,
            models=noted_models(data),
            ceilings=noted_ceilings(data),
        ),
    )


def payoff_in(data: ReportData, column: Configuration) -> Payoff | None:
    """What speculation in a configuration comes to against its baseline; None without one."""
    return data.once(f"payoff {id(column)}", lambda: payoff_over(column.runs, data.beside(column)))


def saved_cell(payoff: Payoff | None) -> Cell:
    """What speculation saves an answer, in ms, with its interval; below 0 it costs."""
    saved = payoff.saved if payoff else None
    if saved is None:
        return ms_cell(None)
    ends = f" {interval_text(saved.delta_interval, 'ms')}" if saved.delta_interval else " ms"
    return Cell(f"{number_text(saved.delta)}{ends}", Badge.DERIVED)


def measured_cell(found: MeasuredSpeedup | None) -> Cell:
    """How many times as fast speculation was, with its interval."""
    return ratio_cell(found.speedup, found.interval, lower_is_better=False) if found else not_available()


def runs_against(payoff: Payoff | None) -> Cell:
    """How many runs speculated, and what they are weighed against."""
    return Cell(f"{len(payoff.runs)} against {payoff.baseline.words}") if payoff else not_available()


def sizes_in(run: RunLog, noted: dict[str, ModelSizes], role: str | None = None) -> ModelSizes | None:
    """The sizes of a run's answering model, or of that of `role`."""
    return sizes_of(run.info.models.get(role or run.info.role), noted)


def ceiling_in(run: RunLog, ceilings: list[DeviceCeiling]) -> DeviceCeiling | None:
    """What was measured where a run's answering model computed."""
    return ceiling_of(run, run.info.role, ceilings)


def is_imported(column: Configuration) -> bool:
    """Whether a configuration comes from a file of another program."""
    return column.runs[0].info.imported is not None


def listed(names: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}" if names else ""
