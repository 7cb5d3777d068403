"""The comparison window's contents in words and figures: heads and rows of cells; it knows no widget.

Figures come from `evprof.metrics.comparison.document`, so that the window and `evprof compare` say the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from evprof.core.units import count_text, percent_text
from evprof.core.vocabulary.figures import SECTIONS, figure_of, judge
from evprof.metrics.comparison.document import (
    ComparisonRow,
    Configuration,
    comparability,
    comparison_rows,
    configuration_generation,
    setting_rows,
)
from evprof.metrics.configurations.settings_text import run_label
from evprof.view.labels import stages_in
from ui.comparison.book import OpenSession
from ui.run_facts.figures import NOTHING, figure_text, interval_text, ratio_text
from ui.run_facts.run_text import cell_names, mode_name, run_title

GOOD, BAD = "good", "bad"

_MOST_NAMED = 4
"""Figures that a note is told with."""


@dataclass(frozen=True)
class ConfigurationHead:
    """A column's head: what it is, where it comes from, how much is in it."""

    title: str
    session: str
    counts: str
    is_baseline: bool
    tip: str


@dataclass(frozen=True)
class FigureCell:
    """One figure of one column. `change` compares it with the baseline; `judgement` is "good", "bad" or ""."""

    value: str
    count: str = ""
    change: str = ""
    judgement: str = ""
    tip: str = ""

    @property
    def is_measured(self) -> bool:
        """Whether there is a value at all."""
        return self.value != NOTHING


@dataclass(frozen=True)
class SheetRow:
    """A line of the table: a head over others (no cells), a setting (one line), or a figure (two lines)."""

    name: str
    unit: str = ""
    cells: tuple[FigureCell, ...] = ()
    swatch: str = ""
    tip: str = ""
    is_head: bool = False
    is_setting: bool = False


@dataclass(frozen=True)
class ComparisonSheet:
    """Everything the window shows of a comparison. `differences`: in what the runs differ that nobody set, and what can
    still be compared; "" where they do not."""

    heads: tuple[ConfigurationHead, ...] = ()
    rows: tuple[SheetRow, ...] = ()
    notes: tuple[str, ...] = ()
    baseline: int = 0
    hidden: int = 0
    differences: str = ""
    columns: tuple[Configuration, ...] = field(default=(), compare=False)

    def as_text(self) -> str:
        """Tab-separated lines: per column the value, the difference, the ratio with its interval, and the count."""
        lines = [[self.differences]] if self.differences else []
        lines += [["", *(head.title for head in self.heads)], ["", *(head.session for head in self.heads)]]
        for row in self.rows:
            name = f"{row.name} {row.unit}".strip()
            if row.is_head:
                lines.append([name])
                continue
            lines.append([name, *(" ".join(filter(None, (c.value, c.change, c.count))) for c in row.cells)])
        return "\n".join("\t".join(line) for line in lines)


def sheet(
    listed: Sequence[Configuration],
    baseline: int,
    basis: str,
    sessions: Mapping[str, OpenSession],
    *,
    differences_only: bool = False,
) -> ComparisonSheet:
    """Works a comparison out; may take a second over thousands of runs. `listed` holds at least one column."""
    titles = titles_of(listed)
    heads = tuple(
        _head(column, title, sessions[column.session], is_baseline=index == baseline)
        for index, (column, title) in enumerate(zip(listed, titles, strict=True))
    )
    rows = comparison_rows(listed, baseline, basis)
    shown = [row for row in rows if not differences_only or any(row.differs(i) for i in range(len(listed)))]
    settings = [row for row in setting_rows(listed) if row.differs]
    lines = [SheetRow("Settings that differ", is_head=True)] if settings else []
    lines += [
        SheetRow(row.name, cells=tuple(FigureCell(value or NOTHING) for value in row.values), is_setting=True)
        for row in settings
    ]
    generation = [
        f"{title}: {found}."
        for column, title in zip(listed, titles, strict=True)
        if column is not listed[baseline] and (found := _generation_sentence(listed[baseline], column))
    ]
    return ComparisonSheet(
        heads,
        (*lines, *_figure_rows(shown, listed, baseline)),
        (*generation, *_left_out(listed, titles, sessions), *_notes(rows)),
        baseline,
        len(rows) - len(shown),
        comparability(listed, baseline).sentence,
        tuple(listed),
    )


def titles_of(listed: Sequence[Configuration]) -> list[str]:
    """Names that tell the columns apart; where two sessions have the same, with the session's."""
    names = [" · ".join(filter(None, title_parts(column))) for column in listed]
    return [
        f"{name} · {Path(column.session).stem}" if names.count(name) > 1 and column.session else name
        for name, column in zip(names, listed, strict=True)
    ]


def title_parts(column: Configuration) -> tuple[str, str]:
    """A configuration's name, and below it what it runs: the cell and the model, or the request and its settings."""
    info = column.runs[0].info
    model = info.models.get(info.role)
    name = model.name if model else info.role
    if column.is_cell:
        cell, _ = cell_names(column.runs[0])
        return cell, "" if name in cell else name
    return run_title(column.runs[0]), " · ".join(filter(None, (name, run_label(column.runs[:1]))))


def _head(column: Configuration, title: str, session: OpenSession, *, is_baseline: bool) -> ConfigurationHead:
    info = column.runs[0].info
    runs = len(column.runs)
    samples = len(column.samples())
    counted = count_text(runs, "run")
    if column.is_cell:
        counted = count_text(samples, "sample")
        counted += f" · {runs:,} runs" if runs > samples else ""
    counted += f" · {column.failures:,} failed" if column.failures else ""
    model = info.models.get(info.role)
    lines = [column.label, mode_name(info.mode), *([model.name] if model else []), session.path or session.title]
    if info.imported is not None:
        lines.append(f"imported from {info.imported.path}")
    lines.append("the baseline" if is_baseline else "click: compare the others to this")
    return ConfigurationHead(title, session.title, counted, is_baseline, "\n".join(lines))


def _figure_rows(rows: Sequence[ComparisonRow], listed: Sequence[Configuration], baseline: int) -> list[SheetRow]:
    lines: list[SheetRow] = []
    for head in SECTIONS:
        inside = [row for row in rows if figure_of(row.metric).head == head]
        if inside:
            lines.append(SheetRow(head, is_head=True))
            lines += [_figure_row(row, listed, baseline) for row in inside]
    return lines


def _figure_row(row: ComparisonRow, listed: Sequence[Configuration], baseline: int) -> SheetRow:
    figure = figure_of(row.metric)
    stage = row.metric.removesuffix("_ms")
    unit = "MiB" if row.unit == "bytes" else "" if row.unit == "tokens" else row.unit
    return SheetRow(
        figure.title,
        unit,
        tuple(_cell(row, index, column, is_baseline=index == baseline) for index, column in enumerate(listed)),
        stage if stages_in(stage) else "",
        "\n".join((figure.tip, *row.notes)).strip(),
    )


def _cell(row: ComparisonRow, index: int, column: Configuration, *, is_baseline: bool) -> FigureCell:
    value, count = row.values[index], row.counts[index]
    # The head says how many there are; a cell does where it is made of fewer.
    told = f"n = {count:,}" if count != (len(column.samples()) if column.is_cell else len(column.runs)) else ""
    if value is None:
        return FigureCell(NOTHING, tip=f"not measured: n = 0 of {len(column.runs):,}")
    shown = value_text(value, row.unit)
    kind = "mean over samples" if column.is_cell else "mean of repeats" if count > 1 else ""
    exact = [f"{shown} {row.unit}".strip() + (f", {kind}, n = {count:,}" if kind else "")]
    if is_baseline:
        return FigureCell(shown, told, tip=exact[0])
    delta, ratio = row.delta[index], row.ratio[index]
    interval = row.ci95[index] if row.ci95 else None
    paired = row.paired_counts[index]
    if delta is None:
        return FigureCell(shown, told, tip=f"{exact[0]}\nThe baseline has no such figure.")
    ends = "" if interval is None else interval_text(interval)
    signed, times = delta_text(delta, row.unit), ratio_text(ratio)
    change = f"{signed} · {times} {ends}".strip() if times else signed
    exact.append(f"{signed} {row.unit} against the baseline".replace("  ", " "))
    if times:
        exact.append(f"{times} of it" + (f", 95 % interval {ends}" if ends else ""))
    if paired is not None:
        exact.append(f"in pairs over the {count_text(paired, 'sample')} that both have")
    judgement = judge(ratio, interval, row.lower_is_better)
    if judgement:
        exact.append("better" if judgement == GOOD else "worse")
    elif interval is not None and not row.differs(index):
        exact.append("no difference: the interval contains 1")
    return FigureCell(shown, told, change, judgement, "\n".join(exact))


def value_text(value: float, unit: str) -> str:
    """A figure without its unit; shares in percent."""
    return percent_text(value, 1) if unit == "" else figure_text(value, unit)


def delta_text(delta: float, unit: str) -> str:
    """A difference with its sign: `+412`, `−0.31`, `±0`; of shares in points of percent: `+4.2 points`."""
    text = figure_text(abs(delta), unit) + (" points" if unit == "" else "")
    if unit == "tokens" and abs(delta) % 1:
        text = f"{abs(delta):.1f}"
    if not any(digit in text for digit in "123456789"):
        return "±0"
    return ("+" if delta > 0 else "−") + text


def _generation_sentence(base: Configuration, other: Configuration) -> str:
    found = configuration_generation(base, other)
    parts = [ratio_text(found[key]) for key in ("product", "token_count_ratio", "time_per_token_ratio")]
    return f"decoding {parts[0]} = {parts[1]} tokens · {parts[2]} time per token" if all(parts) else ""


def _left_out(listed: Sequence[Configuration], titles: Sequence[str], sessions: Mapping[str, OpenSession]) -> list[str]:
    failed = [
        f"{column.failures:,} of {title}" for column, title in zip(listed, titles, strict=True) if column.failures
    ]
    warm = sum(sessions[column.session].left_out(column) for column in listed)
    said = []
    if failed:
        said.append(f"Failed rows, left out: {'; '.join(failed)}.")
    if warm:
        said.append(f"{warm:,} warm-up, cold or profiled run" + (" is" if warm == 1 else "s are") + " left out.")
    return said


def _notes(rows: Sequence[ComparisonRow]) -> list[str]:
    """What has to be known of figures, each once; of which ones, where it is of few."""
    found: dict[str, list[str]] = {}
    for row in rows:
        for note in row.notes:
            found.setdefault(note, []).append(figure_of(row.metric).title)
    return [f"{', '.join(titles)}: {note}" if len(titles) <= _MOST_NAMED else note for note, titles in found.items()]
