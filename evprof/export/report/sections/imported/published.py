"""As published and by our definitions: what imported files printed, what their rows give, and why that differs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from evprof.core.units import MIB, TIMES, percent_text
from evprof.export.report.data import ReportData
from evprof.export.report.figures import number_text, ratio_cell, rows_cell
from evprof.export.report.parts import Badge, Block, Bullets, Cell, Paragraph, Section, Table, not_available
from evprof.export.report.sections.imported.published_statistics import series_table, statistics_table
from evprof.metrics.published import (
    Average,
    Both,
    PublishedCell,
    PublishedFile,
    PublishedTime,
    common_blocks,
    known_report,
    published_files,
)

TITLE = "As published and by our definitions"

_SAME_MS = 0.05
"""Totals nearer than this print alike."""


def section(data: ReportData) -> Section:
    """One part per imported file."""
    blocks: list[Block] = []
    for source in data.sources:
        for file in published_files(source.runs, source.facts.get("imports")):
            blocks += _file_blocks(file)
    if not blocks:
        return Section(TITLE, missing="no result file was imported (evprof import FILE.json -o S.evprof).")
    return Section(TITLE, tuple(blocks))


def _file_blocks(file: PublishedFile) -> list[Block]:
    facts, name = file.facts, Path(str(file.facts.get("path"))).name
    written = f", written {facts['written_at']}" if facts.get("written_at") else ""
    blocks: list[Block] = [
        Paragraph(
            f"{name}: {facts.get('family')}, {facts.get('rows')} rows, {facts.get('runs')} runs, "
            f"{facts.get('failed')} failed, {facts.get('warmups')} warm-up{written}.",
            badge=Badge.IMPORTED,
        )
    ]
    pair = file.pair
    if pair is not None:
        blocks.append(_pair_table(name, *pair))
        blocks.append(_contributions(file, *pair))
        blocks += _contradiction(file)
    elif file.cells:
        blocks += _cell_table(name, file.cells)
    else:
        blocks.append(Paragraph(f"{name} holds statistics and no rows of runs, so nothing of it is compared."))
    if differences := _all_differences(file.cells):
        blocks += [Paragraph("What makes the difference:"), Bullets(differences)]
    blocks += [*statistics_table(name, facts), *series_table(name, facts)]
    problems = facts.get("problems")
    if isinstance(problems, list) and problems:
        blocks.append(Paragraph(f"Problems of {name}:", tone="warn"))
        blocks.append(Bullets(tuple(map(str, problems))))
    return blocks


def _pair_table(name: str, draft: PublishedCell, target: PublishedCell) -> Table:
    heads = (
        *("", "holds"),
        *("as published: EventGPT", "video model", "ratio"),
        *("by our definitions: EventGPT", "video model", "ratio"),
    )
    rows = [_row("Prefill length, tokens", draft.prefill_length, target.prefill_length, digits=0, ratio_digits=1)]
    for stage in dict.fromkeys(entry.covers[-1] for cell in (draft, target) for entry in cell.times):
        rows.append(_stage_row(draft.time(stage), target.time(stage)))
    rows += [
        _row(f"{_listed(block).capitalize()}, ms", draft.within(block), target.within(block), told="together")
        for block in common_blocks((draft, target))
        if len(block) > 1 and max(_pieces(cell, block) for cell in (draft, target)) > 1
    ]
    rows += [
        *_total_rows(draft, target),
        _row("Prefill, tok/s", _prefill_rate(draft), _prefill_rate(target), digits=0),
        _row("Decode, tok/s", draft.decode_tok_s, target.decode_tok_s, digits=1),
        _row("Samples/s", _per_second(draft), _per_second(target)),
        _row("KV cache, MiB", _mib(draft.kv_bytes), _mib(target.kv_bytes), digits=1, ratio_digits=1),
        _row("Generated tokens", draft.output_tokens, target.output_tokens, digits=1),
    ]
    kept = [row for row in rows if any(cell.badge for cell in row[1:])]
    caption = f"{name}: as published, and the same rows by our definitions"
    return Table(heads, tuple(kept), caption=caption, text_columns=2)


def _pieces(cell: PublishedCell, block: Sequence[str]) -> int:
    return sum(bool(set(entry.accounts_for) & set(block)) for entry in cell.times)


def _stage_row(own: PublishedTime | None, other: PublishedTime | None) -> tuple[Cell, ...]:
    """One time of both models; ours gives a ratio only where both times hold the same stages."""
    label = next(entry.name for entry in (own, other) if entry is not None)
    told = " / ".join(dict.fromkeys((_covers(own), _covers(other))))
    row = list(_row(f"{label}, ms", _times(own), _times(other), has_spread=True, told=told))
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
    told: str = "",
) -> tuple[Cell, ...]:
    """Both models as published with the digits that were printed, then by our definitions."""

    def cells(own: Average | None, other: Average | None, places: int) -> list[Cell]:
        return [
            _value(own, digits, has_spread=has_spread),
            _value(other, digits, has_spread=has_spread),
            _ratio(own, other, places),
        ]

    published = cells(draft.published, target.published, ratio_digits)
    return (Cell(label), Cell(told), *published, *cells(draft.ours, target.ours, 2))


def _total_rows(draft: PublishedCell, target: PublishedCell) -> list[tuple[Cell, ...]]:
    """The printed total beside that of all measured stages, and ours with the warm-up rows in where there are any."""
    row = _row("Total, ms", draft.total_ms, target.total_ms, digits=1)
    printed = _row("Total, ms", draft.total_ms, target.total_ms)
    rows = [(*row[:2], *printed[2:5], *row[5:])]
    if draft.total_with_warmup_ms or target.total_with_warmup_ms:
        with_it = [
            Both(None, cell.total_with_warmup_ms or cell.total_ms.ours)  # a model that needed none has one total
            for cell in (draft, target)
        ]
        rows.append(_row("Total with warm-up, ms", *with_it, digits=1))
    return rows


def _value(value: Average | None, digits: int, *, has_spread: bool = False) -> Cell:
    if value is None:
        return not_available()
    spread = f" ± {_fixed(value.std, digits)}" if has_spread and value.count > 1 else ""
    return Cell(f"{_fixed(value.mean, digits)}{spread}", Badge.IMPORTED)


def _ratio(own: Average | None, other: Average | None, digits: int) -> Cell:
    if own is None or other is None or not own.mean:
        return not_available()
    value = other.mean / own.mean
    return ratio_cell(value) if digits == 2 else Cell(f"{_fixed(value, digits)}{TIMES}", Badge.DERIVED)


def _fixed(value: float, digits: int) -> str:
    return f"{value:.{digits}f}"


def _times(entry: PublishedTime | None) -> Both:
    return Both(None, None) if entry is None else entry.time_ms


def _covers(entry: PublishedTime | None) -> str:
    return "nothing" if entry is None else _listed(entry.covers)


def _listed(stages: Sequence[str]) -> str:
    return " + ".join(stages) or "nothing"


def _mib(value: Both) -> Both:
    return Both(*(None if part is None else _scaled(part, 1 / MIB) for part in (value.published, value.ours)))


def _per_second(cell: PublishedCell) -> Both:
    parts = (cell.total_ms.published, cell.total_ms.ours)
    return Both(*(None if part is None else Average(1000 / part.mean, 0.0, part.count) for part in parts))


def _prefill_rate(cell: PublishedCell) -> Both:
    """Length over time: ours only where the length that was processed is known."""
    time = cell.time("prefill")
    lengths = (cell.prefill_length.published, cell.prefill_length.ours)
    times = (None, None) if time is None else (time.time_ms.published, time.time_ms.ours)
    found = [
        None if length is None or taken is None else Average(1000 * length.mean / taken.mean, 0.0, taken.count)
        for length, taken in zip(lengths, times, strict=True)
    ]
    return Both(found[0], found[1])


def _scaled(value: Average, factor: float) -> Average:
    return Average(value.mean * factor, value.std * factor, value.count)


def _contributions(file: PublishedFile, draft: PublishedCell, target: PublishedCell) -> Table:
    """What each stage adds to the difference: by the report's words, by its own table, by our definitions."""
    report = known_report(file)
    parts = [
        (
            block,
            _difference(draft.within(block).published, target.within(block).published),
            _difference(draft.within(block).ours, target.within(block).ours),
        )
        for block in common_blocks((draft, target))
    ]
    summed = {stage for cell in (draft, target) for entry in cell.times if entry.is_in_total for stage in entry.covers}
    whole = _difference(draft.total_ms.published, target.total_ms.published)
    ours_whole = _difference(draft.total_ms.ours, target.total_ms.ours)
    heads = ["stage", "by the published table", "by our definitions", "share of ours"]
    if report is not None:
        heads.insert(1, "the report's words")
    rows = []
    for block, published, ours in parts:
        cells = [
            _ms(published) if summed.issuperset(block) else not_available("(not in its total)"),
            _ms(ours),
            _share(ours, ours_whole),
        ]
        if report is not None:
            said = report.contributions_ms.get(_listed(block))
            cells.insert(0, not_available("(not said)") if said is None else Cell(f"{said:,.0f} ms", Badge.IMPORTED))
        rows.append((Cell(_listed(block)), *cells))
    last = [_ms(whole), _ms(ours_whole), _share(ours_whole, ours_whole)]
    if report is not None:
        last.insert(0, Cell(f"{report.difference_ms:,.0f} ms", Badge.IMPORTED))
    rows.append((Cell("in all"), *last))
    return Table(tuple(heads), tuple(rows), caption="What each stage adds to the difference of the two models")


def _contradiction(file: PublishedFile) -> list[Block]:
    """Where a known report's words and its own table disagree."""
    report, pair = known_report(file), file.pair
    if report is None or pair is None:
        return []
    wrong = []
    for stage, said in report.contributions_ms.items():
        found = _difference(*(_times(cell.time(stage)).published for cell in pair))
        if found is not None and abs(found - said) >= 1:
            wrong.append(f"{stage} {said:,.0f} ms, where its own table gives {found:,.0f} ms")
    if not wrong:
        return []
    return [
        Paragraph(
            f"The file is the source of {report.title}. Of the {report.difference_ms:,.0f} ms of difference it "
            f"attributes to {'; to '.join(wrong)}.",
            tone="warn",
            badge=Badge.DERIVED,
        )
    ]


def _difference(own: Average | None, other: Average | None) -> float | None:
    return None if own is None or other is None else other.mean - own.mean


def _ms(value: float | None) -> Cell:
    return not_available() if value is None else Cell(f"{number_text(value)} ms", Badge.DERIVED)


def _share(value: float | None, whole: float | None) -> Cell:
    if value is None or not whole:
        return not_available()
    return Cell(percent_text(value / whole), Badge.DERIVED)


def _cell_table(name: str, cells: Sequence[PublishedCell]) -> list[Block]:
    """Configurations one under the other, for files that are no pair of models."""
    rows = []
    for cell in cells:
        if cell.rows == cell.failed:
            continue
        parts = "; ".join(f"{entry.name}: {_listed(entry.covers)}" for entry in cell.times) or "no stage"
        rows.append(
            (
                Cell(cell.label.removesuffix(f" · {name}")),
                rows_cell(cell.rows - cell.failed),
                _value(cell.total_ms.published, 2, has_spread=True),
                _value(cell.total_ms.ours, 2, has_spread=True),
                _value(cell.decode_tok_s.ours, 1),
                Cell(parts),
            )
        )
    if not rows:
        return [Paragraph(f"{name} holds no row that was measured; what failed is in the list of failures.", "warn")]
    heads = (
        "configuration",
        "runs",
        "total as published, ms",
        "all measured stages, warm-up apart, ms",
        "decode, tok/s",
        "what was measured",
    )
    return [Table(heads, tuple(rows), caption=f"{name}: as published, and the same rows by our definitions")]


def _all_differences(cells: Sequence[PublishedCell]) -> tuple[str, ...]:
    """Of all configurations; what holds for several is said once."""
    found: dict[str, list[str]] = {}
    for cell in cells:
        for sentence in _differences(cell):
            found.setdefault(sentence, []).append(cell.label.split(" · ")[0])
    return tuple(f"{'; '.join(names)}: {sentence}" for sentence, names in found.items())


def _differences(cell: PublishedCell) -> list[str]:
    """Why the two columns differ, in words."""
    found = []
    if cell.warmups:
        rows = "row that is" if cell.warmups == 1 else "rows that are"
        found.append(f"the published averages take in {cell.warmups} {rows} warm-up; ours keep them apart.")
    left_out = [entry for entry in cell.times if not entry.is_in_total]
    published, ours = cell.total_ms.published, cell.total_with_warmup_ms or cell.total_ms.ours
    if left_out and published is not None and ours is not None and not cell.has_own_total:
        parts = ", ".join(f"{_listed(entry.accounts_for)}" for entry in left_out)
        found.append(
            f"the published total leaves out {parts} ({ours.mean - published.mean:,.1f} ms): "
            f"{published.mean:.2f} ms become {ours.mean:.2f} ms."
        )
    if cell.has_own_total and published and ours and abs(published.mean - ours.mean) > _SAME_MS:
        found.append(
            f"the published total of {published.mean:,.1f} ms is a sum of sections; the stages in it cover "
            f"{ours.mean:,.1f} ms."
        )
    found += [
        f"“{entry.name}” ({entry.key}) covers {_listed(entry.covers)}{_apart(entry)}."
        for entry in cell.times
        if len(entry.covers) > 1
    ]
    if "load" not in cell.stages and cell.times:
        found.append("loading was not measured, so there is no end-to-end total.")
    if cell.prefill_length.published is not None and cell.prefill_length.ours is None:
        found.append(
            f"the published prefill length ({cell.prefill_length.published.mean:,.0f}) is not "
            "what was processed; see the problems below."
        )
    counted, whole = cell.output_tokens.published, cell.output_tokens.ours
    if counted is not None and "published_output_tokens" in cell.figures:
        left = cell.figures["published_output_tokens"].count
        rest = "no row" if whole is None else f"{whole.count:,} rows ({whole.mean:,.1f} tokens)"
        found.append(
            f"the published length is of all {counted.count:,} rows ({counted.mean:,.1f} tokens); ours is of {rest}: "
            f"the ids of {left:,} are not all of their text."
        )
    return found + _window(cell.figures)


def _window(figures: Mapping[str, Average]) -> list[str]:
    """The overlap window from both of its possible starts."""
    published, ours = (figures.get(f"overlap_window_from_{start}_ms") for start in ("load", "vision"))
    if published is None or ours is None:
        return []
    return [
        f"the published overlap window of {published.mean:,.0f} ms begins at the video model's load; when both models "
        f"begin their vision at the same moment it is {ours.mean:,.0f} ms."
    ]


def _apart(entry: PublishedTime) -> str:
    rest = [stage for stage in entry.covers if stage not in entry.accounts_for]
    return f"; {_listed(rest)} is a second pass of what is timed apart as well" if rest else ""
