"""The table of the comparison window as text: heads and rows of cells. No widgets.

Figures come from `evprof.metrics.comparison.document`, as in `evprof compare`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from evprof.core.units import count_text
from evprof.core.vocabulary.figures import SECTIONS, figure_of
from evprof.metrics.comparison.comparability import comparability
from evprof.metrics.comparison.differences import difference_of
from evprof.metrics.comparison.document import setting_rows
from evprof.metrics.comparison.rows import ComparisonRow, comparison_rows
from evprof.metrics.configurations.gathering import BOTH_MODELS, Configuration
from evprof.metrics.configurations.settings_text import run_label
from evprof.view.labels import stages_in
from ui.comparison.book import OpenSession
from ui.run_facts.figures import figure_text, interval_text, ratio_text
from ui.run_facts.run_text import NOTHING, cell_names, mode_name, run_title

MOST_NAMED, MOST_WHY = 4, 3
"""Figures that a note names, and columns whose difference from the baseline is explained."""


@dataclass(frozen=True)
class ColumnHead:
    title: str
    session: str
    counts: str
    is_baseline: bool
    tip: str


@dataclass(frozen=True)
class FigureCell:
    """A value, the number of runs if it differs from the head's, and the change from the baseline.

    `judgement` is "good", "bad" or "".
    """

    value: str
    count: str = ""
    change: str = ""
    judgement: str = ""
    tip: str = ""


@dataclass(frozen=True)
class SheetRow:
    """A section's head (no cells), a setting (one line), or a figure (two lines)."""

    name: str
    cells: tuple[FigureCell, ...] = ()
    unit: str = ""
    swatch: str = ""
    tip: str = ""
    is_setting: bool = False


@dataclass(frozen=True)
class ComparisonSheet:
    """The whole comparison.

    `why` holds a sentence for each of the first other columns; `differences` says why figures cannot be compared;
    `hidden` counts rows left out.
    """

    why: tuple[str, ...] = ()
    heads: tuple[ColumnHead, ...] = ()
    rows: tuple[SheetRow, ...] = ()
    notes: tuple[str, ...] = ()
    baseline: int = 0
    hidden: int = 0
    differences: str = ""

    def as_text(self) -> str:
        """Tab-separated lines: per column the value, the change from the baseline, and the count."""
        lines = [[sentence] for sentence in (self.differences, *self.why) if sentence]
        lines += [["", *(head.title for head in self.heads)], ["", *(head.session for head in self.heads)]]
        for row in self.rows:
            cells = (" ".join(filter(None, (cell.value, cell.change, cell.count))) for cell in row.cells)
            lines.append([f"{row.name} {row.unit}".strip(), *cells])
        return "\n".join("\t".join(line) for line in lines)


def sheet(
    listed: Sequence[Configuration],
    baseline: int,
    basis: str,
    sessions: Mapping[str, OpenSession],
    *,
    differences_only: bool = False,
) -> ComparisonSheet:
    """Compares at least one column with the one at index `baseline`; may take a second over thousands of runs."""
    titles = titles_of(listed)
    rows = comparison_rows(listed, baseline, basis)
    shown = [row for row in rows if not differences_only or any(row.differing)]
    why = _why(listed, titles, baseline, basis)
    settings = [row for row in setting_rows(listed) if row.differs]
    lines = [SheetRow("Settings that differ")] if settings else []
    lines += [
        SheetRow(row.name, tuple(FigureCell(_setting(row.key, value)) for value in row.values), is_setting=True)
        for row in settings
    ]
    for section in SECTIONS:
        inside = [row for row in shown if figure_of(row.metric).head == section]
        lines += [SheetRow(section)] if inside else []
        lines += [_figure_row(row, listed, baseline) for row in inside]
    return ComparisonSheet(
        tuple(why),
        tuple(
            _head(column, title, sessions[column.session], index == baseline)
            for index, (column, title) in enumerate(zip(listed, titles, strict=True))
        ),
        tuple(lines),
        (*_left_out(listed, titles, sessions), *_notes(rows, why)),
        baseline,
        len(rows) - len(shown),
        comparability(listed, baseline).sentence,
    )


def _why(listed: Sequence[Configuration], titles: Sequence[str], baseline: int, basis: str) -> list[str]:
    """Why each of the first other columns takes more or less time than the baseline."""
    others = [index for index in range(len(listed)) if index != baseline][:MOST_WHY]
    names = [(titles[baseline], titles[index]) if len(listed) > 2 else () for index in others]
    differences = (difference_of(listed[baseline], listed[index], basis) for index in others)
    sentences = (one.why(sides) for one, sides in zip(differences, names, strict=True))
    return list(filter(None, sentences))


def _setting(key: str, value: str | None) -> str:
    return NOTHING if value is None else mode_name(value) if key == "mode" else value


def titles_of(listed: Sequence[Configuration]) -> list[str]:
    """Names that distinguish the columns; with the session's name where two sessions have the same."""
    names = [" · ".join(filter(None, title_parts(column))) for column in listed]
    return [
        f"{name} · {Path(column.session).stem}" if names.count(name) > 1 and column.session else name
        for name, column in zip(names, listed, strict=True)
    ]


def title_parts(column: Configuration) -> tuple[str, str]:
    """A configuration's name, and what it runs: the cell and the model, or the request and its settings."""
    run, name = column.runs[0], column.model
    if column.is_cell:
        cell, _ = cell_names(run)
        return cell, "" if name in cell else name
    return run_title(run), " · ".join(filter(None, (name, run_label([run]))))


def _head(column: Configuration, title: str, session: OpenSession, is_baseline: bool) -> ColumnHead:
    runs, samples, info = len(column.runs), len(column.samples()), column.runs[0].info
    counts = [count_text(samples, "sample")] if column.is_cell else []
    counts += [count_text(runs, "run")] if not column.is_cell or runs > samples else []
    counts += [f"{column.failures:,} failed"] if column.failures else []
    tip = [column.label, mode_name(info.mode), session.path or session.title]
    tip += [f"imported from {info.imported.path}"] if info.imported is not None else []
    tip.append("the baseline" if is_baseline else "click: compare the others with this one")
    return ColumnHead(title, session.title, " · ".join(counts), is_baseline, "\n".join(tip))


def _figure_row(row: ComparisonRow, listed: Sequence[Configuration], baseline: int) -> SheetRow:
    figure, stage = figure_of(row.metric), row.metric.removesuffix("_ms")
    return SheetRow(
        figure.title,
        tuple(_cell(row, index, column, index == baseline) for index, column in enumerate(listed)),
        {"bytes": "MiB", "tokens": "", "": "%"}.get(row.unit, row.unit),
        stage if stages_in(stage) else "",
        "\n".join((figure.tip, *row.notes)).strip(),
    )


def _cell(row: ComparisonRow, index: int, column: Configuration, is_baseline: bool) -> FigureCell:
    value, count, delta, ratio = row.values[index], row.counts[index], row.delta[index], row.ratio[index]
    if value is None:
        return FigureCell(NOTHING, tip="not measured")
    shown = figure_text(value, row.unit)
    few = f"n = {count:,}" if count != (len(column.samples()) if column.is_cell else len(column.runs)) else ""
    tip = [f"{shown} {row.unit}".strip() + (f", mean, n = {count:,}" if count > 1 else "")]
    if column.model == BOTH_MODELS and not figure_of(row.metric).is_of_answer and not stages_in(row.metric[:-3]):
        few = few or column.runs[0].info.role
    if is_baseline or delta is None:
        return FigureCell(shown, few, tip="\n".join(tip if is_baseline else [*tip, "The baseline has no such figure."]))
    ends = row.ci95[index] if row.ci95 else None
    change = [delta_text(delta, row.unit)]
    if ratio is not None:
        change.append(f"{ratio_text(ratio)} {'' if ends is None else interval_text(ends)}".strip())
        tip.append("ratio to the baseline" + (", with its 95 % interval" if ends is not None else ""))
    if (pairs := row.paired_counts[index]) is not None:
        tip.append(f"in pairs over the {count_text(pairs, 'sample')} that both have")
    judgement = row.judge(index)
    tip += [{"good": "better", "bad": "worse"}[judgement]] if judgement else []
    return FigureCell(shown, few, " · ".join(change), judgement, "\n".join(tip))


def delta_text(delta: float, unit: str) -> str:
    """A difference with its sign: `+412`, `−0.31`, `±0`; of shares in percentage points: `+4.2 points`."""
    text = figure_text(abs(delta), unit) + (" points" if unit == "" else "")
    if unit == "tokens" and abs(delta) % 1:
        text = f"{abs(delta):.1f}"
    if not any(digit in text for digit in "123456789"):
        return "±0"
    return ("+" if delta > 0 else "−") + text


def _left_out(listed: Sequence[Configuration], titles: Sequence[str], sessions: Mapping[str, OpenSession]) -> list[str]:
    failed = [f"{one.failures:,} of {title}" for one, title in zip(listed, titles, strict=True) if one.failures]
    warm = sum(sessions[column.session].left_out(column) for column in listed)
    notes = [f"Failed rows, left out: {'; '.join(failed)}."] if failed else []
    if warm:
        notes.append(f"{warm:,} warm-up, cold or profiled run{' is' if warm == 1 else 's are'} left out.")
    return notes


def _notes(rows: Sequence[ComparisonRow], why: Sequence[str]) -> list[str]:
    """The notes on figures that `why` does not say, each once, with the names of the figures if they are few."""
    titles: dict[str, list[str]] = {}
    for row in rows:
        for note in row.notes:
            if any(note.rpartition("not called: ")[2] in sentence for sentence in why):
                continue
            titles.setdefault(note, []).append(figure_of(row.metric).title)
    return [f"{', '.join(names)}: {note}" if len(names) <= MOST_NAMED else note for note, names in titles.items()]
