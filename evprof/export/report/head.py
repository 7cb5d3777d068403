"""The head of a report: which sessions, when, how many samples, configurations, rows and failures."""

from __future__ import annotations

from evprof.core.sample import UNKNOWN
from evprof.core.units import count_text
from evprof.export.report.data import ReportData
from evprof.metrics.configurations.gathering import sample_key

FEW_SESSIONS = 3
"""From as many on sessions are named without their folders; the commands at the end name them in full."""


def summary_of(data: ReportData) -> str:
    """One sentence: what was measured, how often, and what is missing."""
    rows = len(data.runs)
    if not data.columns:
        return "Imported statistics; the sessions hold no run that finished."
    said = f"{count_text(rows, 'run')} of {count_text(len(data.columns), 'configuration')}"
    if samples := sample_count(data):
        said += f" on {count_text(samples, 'sample')}"
    if data.failures:
        said += f"; {count_text(len(data.failures), 'run')} failed and {_enter(len(data.failures))} no figure"
    return f"{said}."


def facts_of(data: ReportData) -> tuple[tuple[str, str], ...]:
    """Names and texts for the head; only what is known."""
    suites = [suite for source in data.sources if isinstance(suite := source.facts.get("suite"), dict)]
    planned = sum(count for suite in suites if isinstance(count := suite.get("planned_runs"), int))
    # Of sessions among which only some are suites, nobody planned the whole.
    is_planned = 0 < planned < 1 << 63 and len(suites) == len(data.sources)
    done = f"{len(data.runs):,} of {planned:,} planned" if is_planned else str(len(data.runs))
    # A suite that was continued has warmed up more often, which is nothing of its results.
    warm = "" if suites else f", {len(data.warmups):,} for warming up"
    paths = [source.path for source in data.sources]
    said = {
        "Sessions": ", ".join(str(path) if len(paths) < FEW_SESSIONS else path.name for path in paths),
        "Recorded": dates(data),
        "Device": str(data.environment.get("device") or ""),
        "Configurations": str(len(data.columns)),
        "Samples": str(sample_count(data) or ""),
        "Runs": f"{done}, {len(data.failures):,} failed{warm}",
        "Totals": f"{data.basis} unless said otherwise" if data.columns else "",
    }
    return tuple((name, text) for name, text in said.items() if text)


def sample_count(data: ReportData) -> int:
    """How many different (sample, prompt) pairs the comparable runs took; 0 where nothing is known of them."""
    return len({sample_key(run) for run in data.runs if run.info.sample != UNKNOWN})


def dates(data: ReportData) -> str:
    """First and last moment a run began, UTC; empty where none says so (imported files do not)."""
    known = sorted(run.info.started_at for run in (*data.runs, *data.failures) if run.info.started_at)
    if not known:
        return ""
    first, last = (moment.replace("T", " ")[:16] for moment in (known[0], known[-1]))
    if first == last:
        return f"{first} UTC"
    return f"{first} to {last[11:] if first[:10] == last[:10] else last} UTC"


def _enter(count: int) -> str:
    return "enters" if count == 1 else "enter"
