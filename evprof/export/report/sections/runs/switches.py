"""Section: configurations that differ in one setting alone, and both models shown the same input."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from evprof.core.records import DRAFT, TARGET
from evprof.core.run_log import RunLog
from evprof.core.vocabulary.modes import mode_of
from evprof.export.report.data import ReportData
from evprof.export.report.figures import ms_cell, ratio_cell, rows_cell
from evprof.export.report.parts import Block, Cell, Paragraph, Section, Table, not_available
from evprof.export.report.sections.evidence import badge_of, names_of
from evprof.metrics.arithmetic.statistics import summarize
from evprof.metrics.configurations.gathering import Configuration, without_reference
from evprof.metrics.configurations.settings_text import settings_of
from evprof.metrics.estimates.estimates import Read
from evprof.metrics.estimates.paired import compare, values_of
from evprof.metrics.figures.decoding import decode_ms_per_token
from evprof.metrics.figures.stages import total_ms

TITLE = "One setting against another"

MOST_ROWS = 40

_TEXT = (
    "Time of the second / time of the first over the samples that both measured, with 95 % intervals; a ratio is "
    "coloured only where its interval leaves 1 out. What a setting does to answers is told by the runs' own warnings."
)

Settings = dict[str, str]


def section(data: ReportData) -> Section:
    """A row for every configuration that an earlier one differs from in one setting, and none equals."""
    rows = _twins(data)
    if not rows:
        return Section(TITLE, missing="Two configurations of one model that differ in one setting; run optimizations.")
    heads = (
        "setting",
        "first",
        "second",
        "total of the first",
        "of the second",
        "total",
        "time per token",
        "n",
        "runs",
    )
    table = Table(heads, tuple(rows[:MOST_ROWS]), f"Totals {data.basis}, means over samples", text_columns=3)
    return Section(TITLE, (table, Paragraph(_TEXT)))


def same_input(data: ReportData) -> Sequence[Block]:
    """Draft and target where both read the same kind of input in the same way."""
    found: dict[tuple[str, ...], dict[str, Configuration]] = {}
    for column in _alone(data):
        settings = _settings(column)
        key = tuple(settings.get(name, "") for name in ("reads", "read with", "vision cache", "frame cache"))
        found.setdefault(key, {}).setdefault(column.runs[0].info.role, column)
    rows = []
    for (reads, decoder, kept, frames), pair in found.items():
        if DRAFT in pair and TARGET in pair:
            caches = [
                f"{name} {value}" for name, value in (("vision cache", kept), ("frame cache", frames)) if value != "off"
            ]
            words = ", ".join([f"{reads} with {decoder}", *caches])
            rows.append((Cell(words), *_compared(pair[DRAFT], pair[TARGET], data.basis, is_judged=False)))
    heads = ("input", "draft", "target", "target / draft", "time per token", "n", "runs")
    caption = f"Both models shown the same input, totals {data.basis}, means over samples, ratios with 95 % intervals"
    return [Table(heads, tuple(rows), caption)] if rows else []


def _alone(data: ReportData) -> list[Configuration]:
    return [column for column in without_reference(data.columns) if not mode_of(column.runs[0].info.mode).is_paired]


def _twins(data: ReportData) -> list[tuple[Cell, ...]]:
    names = names_of(data)
    listed = [(column, _settings(column)) for column in _alone(data)]
    rows = []
    for place, (column, settings) in enumerate(listed):
        if any(settings == known for _, known in listed[:place]):
            continue
        for base, known in listed[:place]:
            differing = [name for name in {**known, **settings} if known.get(name) != settings.get(name)]
            if base.session == column.session and len(differing) == 1:
                told = Cell(f"{differing[0]}: {known.get(differing[0], '—')} → {settings.get(differing[0], '—')}")
                cells = _compared(base, column, data.basis, is_judged=True)
                rows.append((told, Cell(names[id(base)]), Cell(names[id(column)]), *cells))
                break
    return rows


def _settings(column: Configuration) -> Settings:
    """Everything that a configuration was asked, by name, with who answers and what read its input."""
    run = column.runs[0]
    model, loading = run.info.models.get(run.info.role), run.info.loading.get(run.info.role)
    own = {"role": run.info.role, "model": model.name if model else ""}
    return own | {"read with": (loading.decoder if loading else None) or ""} | _asked(run)


def _asked(run: RunLog) -> Settings:
    return {setting.name: setting.text for setting in settings_of(run, run.info.role)}


def _compared(base: Configuration, other: Configuration, basis: str, *, is_judged: bool) -> tuple[Cell, ...]:
    """Both totals, the ratios of total and time per token, samples and runs."""
    total: Read = partial(total_ms, basis=basis)
    badge = badge_of((*base.runs, *other.runs))
    found = compare(base, other, total)
    return (
        *(ms_cell(summarize(values_of(column, total)), badge) for column in (base, other)),
        *(_ratio(base, other, read, is_judged=is_judged) for read in (total, decode_ms_per_token)),
        rows_cell(found.count if found else None),
        Cell(f"{len(base.runs)} and {len(other.runs)}"),
    )


def _ratio(base: Configuration, other: Configuration, read: Read, *, is_judged: bool) -> Cell:
    found = compare(base, other, read)
    if found is None:
        return not_available()
    interval = found.ratio_interval
    return ratio_cell(found.ratio, interval, lower_is_better=True if is_judged and interval else None)
