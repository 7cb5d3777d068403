"""Section: imported files as published and by our definitions, and why these differ."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evprof.core.units import MIB, TIMES
from evprof.export.report.data import ReportData
from evprof.export.report.figures import ratio_cell, rows_cell
from evprof.export.report.parts import (
    Badge,
    Block,
    Bullets,
    Cell,
    Paragraph,
    Section,
    Table,
    not_available,
    row_of,
    section_of,
)
from evprof.metrics.published import (
    Average,
    Both,
    PublishedCell,
    PublishedFile,
    PublishedTime,
    common_blocks,
    published_files,
)

_SAME_MS = 0.05
"""Totals nearer than this print alike."""


def section(data: ReportData) -> Section:
    """One part per imported file."""
    files = [file for source in data.sources for file in published_files(source.runs, source.facts.get("imports"))]
    missing = "no result file was imported (evprof import FILE.json -o S.evprof)."
    return section_of("As published and by our definitions", [one for file in files for one in _file(file)], missing)


def _file(file: PublishedFile) -> list[Block]:
    facts, name = file.facts, Path(str(file.facts.get("path"))).name
    written = f", written {facts['written_at']}" if facts.get("written_at") else ""
    counts = ", ".join(f"{facts.get(key)} {word}" for key, word in _COUNTS.items())
    blocks: list[Block] = [Paragraph(f"{name}: {facts.get('family')}, {counts}{written}.", badge=Badge.IMPORTED)]
    if file.pair is not None:
        blocks.append(_pair_table(name, *file.pair))
    elif file.cells:
        blocks.append(_cell_table(name, file.cells))
    if differences := _all_differences(file.cells):
        blocks += [Paragraph("Reasons for the differences:"), Bullets(differences)]
    problems = facts.get("problems")
    if isinstance(problems, list) and problems:
        blocks += [Paragraph(f"Problems of {name}:", "warn"), Bullets(tuple(map(str, problems)))]
    return blocks


_COUNTS = {"rows": "rows", "runs": "runs", "failed": "failed", "warmups": "warm-up"}


def _pair_table(name: str, draft: PublishedCell, target: PublishedCell) -> Table:
    heads = (
        *("", "holds"),
        *("as published: EventGPT", "video model", "ratio"),
        *("by our definitions: EventGPT", "video model", "ratio"),
    )
    both = draft, target
    rows = [_row("Prefill length, tokens", *(cell.prefill_length for cell in both), digits=0, ratio_digits=1)]
    stages = dict.fromkeys(entry.covers[-1] for cell in both for entry in cell.times)
    rows += [_stage_row(draft.time(stage), target.time(stage)) for stage in stages]
    rows += [
        _row(f"{_listed(block).capitalize()}, ms", draft.within(block), target.within(block), holds="together")
        for block in common_blocks(both)
        if len(block) > 1 and max(_pieces(cell, block) for cell in both) > 1
    ]
    total = _row("Total, ms", draft.total_ms, target.total_ms, digits=1)
    printed = _row("Total, ms", draft.total_ms, target.total_ms)
    rows.append((*total[:2], *printed[2:5], *total[5:]))
    if draft.total_with_warmup_ms or target.total_with_warmup_ms:
        warm = (Both(None, cell.total_with_warmup_ms or cell.total_ms.ours) for cell in both)
        rows.append(_row("Total with warm-up, ms", *warm, digits=1))
    rows += [
        _row("Prefill, tok/s", *map(_prefill_rate, both), digits=0),
        _row("Decode, tok/s", draft.decode_tok_s, target.decode_tok_s, digits=1),
        _row("Samples/s", *(_mapped(cell.total_ms, lambda mean: 1000 / mean) for cell in both)),
        _row(
            "KV cache, MiB",
            *(_mapped(cell.kv_bytes, lambda mean: mean / MIB) for cell in both),
            digits=1,
            ratio_digits=1,
        ),
        _row("Generated tokens", draft.output_tokens, target.output_tokens, digits=1),
    ]
    caption = f"{name}: as published, and the same rows by our definitions"
    return Table(heads, tuple(row for row in rows if any(cell.badge for cell in row[1:])), caption, text_columns=2)


def _pieces(cell: PublishedCell, block: Sequence[str]) -> int:
    return sum(bool(set(entry.accounts_for) & set(block)) for entry in cell.times)


def _stage_row(own: PublishedTime | None, other: PublishedTime | None) -> tuple[Cell, ...]:
    """One time of both models; ours gives a ratio only where both times hold the same stages."""
    label = next(entry.name for entry in (own, other) if entry is not None)
    holds = " / ".join(dict.fromkeys(_listed(entry.covers if entry else ()) for entry in (own, other)))
    row = list(_row(f"{label}, ms", _times(own), _times(other), has_spread=True, holds=holds))
    if own is not None and other is not None and own.accounts_for != other.accounts_for:
        row[7] = Cell("n/a", tone="dim", note="the two times do not cover the same stages")
    return tuple(row)


def _row(
    label: str,
    draft: Both,
    target: Both,
    *,
    digits: int = 2,
    ratio_digits: int = 2,
    has_spread: bool = False,
    holds: str = "",
) -> tuple[Cell, ...]:
    """Both models as published with the digits that were printed, then by our definitions."""

    def cells(own: Average | None, other: Average | None, places: int) -> list[Cell]:
        return [*(_value(one, digits, has_spread=has_spread) for one in (own, other)), _ratio(own, other, places)]

    published = cells(draft.published, target.published, ratio_digits)
    return row_of(label, holds, *published, *cells(draft.ours, target.ours, 2))


def _value(value: Average | None, digits: int, *, has_spread: bool = False) -> Cell:
    if value is None:
        return not_available()
    spread = f" ± {value.std:.{digits}f}" if has_spread and value.count > 1 else ""
    return Cell(f"{value.mean:.{digits}f}{spread}", Badge.IMPORTED)


def _ratio(own: Average | None, other: Average | None, digits: int) -> Cell:
    if own is None or other is None or not own.mean:
        return not_available()
    value = other.mean / own.mean
    return ratio_cell(value) if digits == 2 else Cell(f"{value:.{digits}f}{TIMES}", Badge.DERIVED)


def _times(entry: PublishedTime | None) -> Both:
    return Both(None, None) if entry is None else entry.time_ms


def _listed(stages: Sequence[str]) -> str:
    return " + ".join(stages) or "nothing"


def _mapped(value: Both, change: Any) -> Both:
    """Both averages in another unit, without their spread."""
    parts = (value.published, value.ours)
    return Both(*(part and Average(change(part.mean), 0.0, part.count) for part in parts))


def _prefill_rate(cell: PublishedCell) -> Both:
    """Length over time: ours only where the length that was processed is known."""
    times, lengths = _times(cell.time("prefill")), cell.prefill_length

    def rate(length: Average | None, time: Average | None) -> Average | None:
        return None if length is None or time is None else Average(1000 * length.mean / time.mean, 0.0, time.count)

    return Both(rate(lengths.published, times.published), rate(lengths.ours, times.ours))


def _cell_table(name: str, cells: Sequence[PublishedCell]) -> Block:
    """Configurations one under the other, for files that are no pair of models."""
    rows = [
        row_of(
            cell.label.removesuffix(f" · {name}"),
            rows_cell(cell.rows - cell.failed),
            _value(cell.total_ms.published, 2, has_spread=True),
            _value(cell.total_ms.ours, 2, has_spread=True),
            _value(cell.decode_tok_s.ours, 1),
            "; ".join(f"{entry.name}: {_listed(entry.covers)}" for entry in cell.times) or "no stage",
        )
        for cell in cells
        if cell.rows != cell.failed
    ]
    if not rows:
        return Paragraph(f"{name} holds no row that was measured; the failed ones are in the list of failures.", "warn")
    heads = (
        *("configuration", "runs", "total as published, ms", "all measured stages, warm-up apart, ms"),
        *("decode, tok/s", "what was measured"),
    )
    return Table(heads, tuple(rows), f"{name}: as published, and the same rows by our definitions")


def _all_differences(cells: Sequence[PublishedCell]) -> tuple[str, ...]:
    """Of all configurations; a sentence that holds for several stands once."""
    sentences: dict[str, list[str]] = {}
    for cell in cells:
        for sentence in _differences(cell):
            sentences.setdefault(sentence, []).append(cell.label.split(" · ")[0])
    return tuple(f"{'; '.join(names)}: {sentence}" for sentence, names in sentences.items())


def _differences(cell: PublishedCell) -> list[str]:
    """Why the two columns differ, in words."""
    reasons = []
    if cell.warmups:
        rows = "row that is" if cell.warmups == 1 else "rows that are"
        reasons.append(f"the published averages take in {cell.warmups} {rows} warm-up; ours keep them apart.")
    left_out = [entry for entry in cell.times if not entry.is_in_total]
    published, ours = cell.total_ms.published, cell.total_with_warmup_ms or cell.total_ms.ours
    if left_out and published is not None and ours is not None and not cell.has_own_total:
        parts = ", ".join(_listed(entry.accounts_for) for entry in left_out)
        reasons.append(
            f"the published total leaves out {parts} ({ours.mean - published.mean:,.1f} ms): {published.mean:.2f} ms "
            f"become {ours.mean:.2f} ms."
        )
    if cell.has_own_total and published and ours and abs(published.mean - ours.mean) > _SAME_MS:
        reasons.append(
            f"the published total of {published.mean:,.1f} ms is a sum of sections; the stages in it cover "
            f"{ours.mean:,.1f} ms."
        )
    for entry in cell.times:
        rest = [stage for stage in entry.covers if stage not in entry.accounts_for]
        again = f"; {_listed(rest)} is a second pass of what is timed apart as well" if rest else ""
        if len(entry.covers) > 1:
            reasons.append(f"“{entry.name}” ({entry.key}) covers {_listed(entry.covers)}{again}.")
    if "load" not in cell.stages and cell.times:
        reasons.append("loading was not measured, so there is no end-to-end total.")
    if cell.prefill_length.published is not None and cell.prefill_length.ours is None:
        reasons.append(
            f"the published prefill length ({cell.prefill_length.published.mean:,.0f}) is not what was processed; see "
            "the problems below."
        )
    counted, whole = cell.output_tokens.published, cell.output_tokens.ours
    if counted is not None and "published_output_tokens" in cell.figures:
        left = cell.figures["published_output_tokens"].count
        rest_text = "no row" if whole is None else f"{whole.count:,} rows ({whole.mean:,.1f} tokens)"
        reasons.append(
            f"the published length is of all {counted.count:,} rows ({counted.mean:,.1f} tokens); ours is of "
            f"{rest_text}: the ids of {left:,} are not all of their text."
        )
    windows = [cell.figures.get(f"overlap_window_from_{start}_ms") for start in ("load", "vision")]
    if windows[0] is not None and windows[1] is not None:
        reasons.append(
            f"the published overlap window of {windows[0].mean:,.0f} ms begins at the video model's load; when both "
            f"models begin their vision at the same moment it is {windows[1].mean:,.0f} ms."
        )
    return reasons
