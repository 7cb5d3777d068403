"""Section: imported files as published and by our definitions, and the reasons for the differences."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from evprof.core.records import COVERS
from evprof.core.units import MIB, TIMES
from evprof.export.report import parts as doc
from evprof.export.report.data import ReportData
from evprof.export.report.figures import ratio_cell, rows_cell
from evprof.export.report.parts import Badge, Block, Bullets, Cell, Paragraph, Section, Table
from evprof.metrics.published import Average, Both, PublishedCell, PublishedFile, common_blocks, published_files

_SAME_MS = 0.05
"""Totals nearer than this print alike."""

_COUNTS = {"rows": "rows", "runs": "runs", "failed": "failed", "warmups": "warm-up"}


def section(data: ReportData) -> Section:
    files = [file for source in data.sources for file in published_files(source.runs, source.facts.get("imports"))]
    missing = "no result file was imported (evprof import FILE.json -o S.evprof)."
    return doc.section_of(
        "As published and by our definitions", [one for file in files for one in _file(file)], missing
    )


def _file(file: PublishedFile) -> list[Block]:
    facts, name = file.facts, Path(str(file.facts.get("path"))).name
    written = f", written {facts['written_at']}" if facts.get("written_at") else ""
    counts = ", ".join(f"{facts.get(key)} {word}" for key, word in _COUNTS.items())
    blocks: list[Block] = [Paragraph(f"{name}: {facts.get('family')}, {counts}{written}.", badge=Badge.IMPORTED)]
    if file.pair is not None:
        blocks.append(_pair_table(name, *file.pair))
    elif file.cells:
        blocks.append(_cell_table(name, file.cells))
    sentences: dict[str, list[str]] = {}
    for cell in file.cells:
        for sentence in _differences(cell):
            sentences.setdefault(sentence, []).append(cell.label.split(" · ")[0])
    if sentences:
        reasons = tuple(f"{'; '.join(names)}: {sentence}" for sentence, names in sentences.items())
        blocks += [Paragraph("Reasons for the differences:"), Bullets(reasons)]
    problems = facts.get("problems")
    if isinstance(problems, list) and problems:
        blocks += [Paragraph(f"Problems of {name}:", "warn"), Bullets(tuple(map(str, problems)))]
    return blocks


class Line(NamedTuple):
    """A figure of one configuration: its label, its value with the printed digits, and the stages that it holds."""

    label: str
    both: Both
    digits: int = 2
    ratio_digits: int = 2
    covers: tuple[str, ...] = ()
    accounts_for: tuple[str, ...] = ()


NOTHING = Line("", Both(None, None))


def _lines(cell: PublishedCell, blocks: Sequence[tuple[str, ...]]) -> Iterator[tuple[str, Line]]:
    """The figures of a configuration under keys that another has, too."""
    yield "length", Line("Prefill length, tokens", cell.prefill_length, 0, 1)
    for time in cell.times:
        yield time.covers[-1], Line(f"{time.name}, ms", time.time_ms, 2, 2, time.covers, time.covers)
    for block in blocks:
        yield _listed(block), Line(f"{_listed(block).capitalize()}, ms", cell.within(block))
    stages = tuple(cell.stages)
    yield "total", Line("Total, ms", cell.total_ms, accounts_for=stages)
    if cell.total_with_warmup_ms is not None:
        both = Both(None, cell.total_with_warmup_ms)
        yield "warm-up", Line("Total with warm-up, ms", both, accounts_for=stages)
    prefill = cell.time("prefill")
    if prefill is not None:
        rate = _rate(cell.prefill_length, prefill.time_ms)
        yield "prefill rate", Line("Prefill, tok/s", rate, 0, accounts_for=prefill.covers)
    yield "decode rate", Line("Decode, tok/s", cell.decode_tok_s, 1)
    yield "samples", Line("Samples/s", _mapped(cell.total_ms, lambda mean: 1000 / mean), accounts_for=stages)
    yield "cache", Line("KV cache, MiB", _mapped(cell.kv_bytes, lambda mean: mean / MIB), 1, 1)
    yield "tokens", Line("Generated tokens", cell.output_tokens, 1)


def _mapped(value: Both, change: Callable[[float], float]) -> Both:
    """Both averages in another unit, without their spread."""
    parts = (value.published, value.ours)
    return Both(*(part and Average(change(part.mean), 0.0, part.count) for part in parts))


def _rate(lengths: Both, times: Both) -> Both:
    """Length over time: ours only where the processed length is known."""
    return Both(
        *(
            None if length is None or time is None else Average(1000 * length.mean / time.mean, 0.0, time.count)
            for length, time in ((lengths.published, times.published), (lengths.ours, times.ours))
        )
    )


def _pair_table(name: str, draft: PublishedCell, target: PublishedCell) -> Table:
    blocks = [
        block
        for block in common_blocks((draft, target))
        if len(block) > 1
        and any(sum(bool({*time.covers} & {*block}) for time in cell.times) > 1 for cell in (draft, target))
    ]
    sides = [dict(_lines(cell, blocks)) for cell in (draft, target)]
    order = (key for pair in zip(*sides, strict=False) for key in pair)
    keys = dict.fromkeys((*order, *sides[0], *sides[1]))
    rows = [_row(*(side.get(key, NOTHING) for side in sides)) for key in keys]
    heads = (
        *("", "holds"),
        *("as published: EventGPT", "video model", "ratio"),
        *("by our definitions: EventGPT", "video model", "ratio"),
    )
    caption = f"{name}: as published, and the same rows by our definitions"
    return Table(heads, tuple(row for row in rows if any(cell.badge for cell in row[1:])), caption, text_columns=2)


def _row(draft: Line, target: Line) -> tuple[Cell, ...]:
    """Both models as published with the printed digits, then by our definitions."""
    line = draft if draft.label else target
    holds = " / ".join(dict.fromkeys(_listed(one.covers) for one in (draft, target) if one.covers))
    cells: list[Cell] = []
    for kind in ("published", "ours"):
        one, two = (getattr(side.both, kind) for side in (draft, target))
        cells += [_value(one, line.digits, has_spread=bool(holds)), _value(two, line.digits, has_spread=bool(holds))]
        if kind == "ours" and draft.accounts_for != target.accounts_for:
            cells.append(Cell("n/a", tone="dim", note="the two do not cover the same stages"))
        elif one is None or two is None or not one.mean:
            cells.append(doc.not_available())
        elif kind == "published" and line.ratio_digits == 1:
            cells.append(Cell(f"{two.mean / one.mean:.1f}{TIMES}", Badge.DERIVED))
        else:
            cells.append(ratio_cell(two.mean / one.mean))
    return doc.row_of(line.label, holds, *cells)


def _value(value: Average | None, digits: int, *, has_spread: bool = False) -> Cell:
    if value is None:
        return doc.not_available()
    spread = f" ± {value.std:.{digits}f}" if has_spread and value.count > 1 else ""
    return Cell(f"{value.mean:.{digits}f}{spread}", Badge.IMPORTED)


def _listed(stages: Sequence[str]) -> str:
    return " + ".join(stages) or "nothing"


def _cell_table(name: str, cells: Sequence[PublishedCell]) -> Block:
    """Configurations one under the other, for files without a pair of models."""
    rows = [
        doc.row_of(
            cell.label.removesuffix(f" · {name}"),
            rows_cell(len(cell.runs)),
            _value(cell.total_ms.published, 2, has_spread=True),
            _value(cell.total_ms.ours, 2, has_spread=True),
            _value(cell.decode_tok_s.ours, 1),
            "; ".join(f"{entry.name}: {_listed(entry.covers)}" for entry in cell.times) or "no stage",
        )
        for cell in cells
        if cell.runs
    ]
    if not rows:
        return Paragraph(f"{name} holds no row that was measured; the failed ones are in the list of failures.", "warn")
    heads = (
        *("configuration", "runs", "total as published, ms", "all measured stages, warm-up apart, ms"),
        *("decode, tok/s", "what was measured"),
    )
    return Table(heads, tuple(rows), f"{name}: as published, and the same rows by our definitions")


def _differences(cell: PublishedCell) -> Iterator[str]:
    """The reasons for the difference of the two columns."""
    if cell.warmups:
        rows = "row that is" if cell.warmups == 1 else "rows that are"
        yield f"the published averages take in {cell.warmups} {rows} warm-up; ours keep them apart."
    left_out = [entry for entry in cell.times if not entry.is_in_total]
    published, ours = cell.total_ms.published, cell.total_with_warmup_ms or cell.total_ms.ours
    if left_out and published is not None and ours is not None and not cell.has_own_total:
        parts = ", ".join(_listed(entry.accounts_for) for entry in left_out)
        yield (
            f"the published total leaves out {parts} ({ours.mean - published.mean:,.1f} ms): {published.mean:.2f} ms "
            f"become {ours.mean:.2f} ms."
        )
    if cell.has_own_total and published and ours and abs(published.mean - ours.mean) > _SAME_MS:
        yield (
            f"the published total of {published.mean:,.1f} ms is a sum of sections; the stages in it cover "
            f"{ours.mean:,.1f} ms."
        )
    for entry in cell.times:
        rest = [stage for stage in entry.covers if stage not in entry.accounts_for]
        again = f"; {_listed(rest)} is a second pass of what is timed apart as well" if rest else ""
        if len(entry.covers) > 1:
            yield f"“{entry.name}” ({entry.key}) covers {_listed(entry.covers)}{again}."
    for name, count in cell.lacking.items():
        yield f"{count:,} of {len(cell.runs):,} rows lack {name.replace(COVERS, ' + ')}: not in the total."
    if "load" not in cell.stages and cell.times:
        yield "loading was not measured, so there is no end-to-end total."
    if cell.prefill_length.published is not None and cell.prefill_length.ours is None:
        yield (
            f"the published prefill length ({cell.prefill_length.published.mean:,.0f}) is not what was processed; see "
            "the problems below."
        )
    counted, whole = cell.output_tokens.published, cell.output_tokens.ours
    if counted is not None and cell.own_counts:
        of_rows = "no row" if whole is None else f"{whole.count:,} rows ({whole.mean:,.1f} tokens)"
        left = f": the ids of {cell.partial_ids:,} are not all of their text."
        of_all = f"all {counted.count:,} rows ({counted.mean:,.1f} tokens)"
        why = left if cell.partial_ids else ", without the prompt's ids."
        yield f"the published length is of {of_all}; ours is of {of_rows}{why}"
