"""The sections of a report in the documents' order: what is answered, then document by document, item by item."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from evprof.export.report.data import ReportData
from evprof.export.report.documents.contents import TITLES, numbered
from evprof.export.report.documents.item import FULL, NONE, PARTLY, Availability, Item, Shows
from evprof.export.report.parts import Block, Cell, Heading, Paragraph, Section, Table

SEPARATOR = " · "
"""Follows the name of a part in a configuration's label."""


@dataclass(frozen=True)
class AnsweredItem:
    """An item as these sessions answer it; `reason` says what is missing, `blocks` may stand at another item."""

    number: str
    item: Item
    mark: str
    reason: str
    blocks: Sequence[Block] = ()
    stands_at: AnsweredItem | None = None

    @property
    def heading(self) -> str:
        """ "✔ 002.2 Results Summary"."""
        return f"{self.mark} {self.number} {self.item.place}"


def document_sections(data: ReportData) -> tuple[Section, ...]:
    """The five documents, after a table of what is answered and why the rest is not."""
    found = answers(data)
    listed = [_section(document, [entry for entry in found if entry.item.document == document]) for document in TITLES]
    return (_summary(found), *listed)


def answers(data: ReportData) -> list[AnsweredItem]:
    """Every item; what several of them show is shown at the first."""
    parts: dict[tuple[str, ...], ReportData] = {}
    firsts: dict[tuple[tuple[str, ...], Shows], AnsweredItem] = {}
    found = []
    for document in TITLES:
        for number, item in numbered(document):
            # What is not had this way has nothing to show, whatever its tables would make of the data.
            shows = item.shows if _way(item, data).mark != NONE else None
            key = (item.parts, shows) if shows is not None else None
            first = firsts.get(key) if key is not None else None
            if first is not None:
                mark, reason = _mark(item, _way(item, data), bool(first.blocks))
                found.append(AnsweredItem(number, item, mark, reason, stands_at=first))
                continue
            own = parts.setdefault(item.parts, part_of(data, item.parts))
            blocks = shows(own) if shows is not None else ()
            found.append(AnsweredItem(number, item, *_mark(item, _way(item, data), bool(blocks)), blocks))
            if key is not None:
                firsts[key] = found[-1]
    return found


def part_of(data: ReportData, parts: tuple[str, ...]) -> ReportData:
    """The configurations of these parts of a suite; all where there are no parts, or none of these."""
    kept = tuple(column for column in data.columns if column.cell.split(SEPARATOR)[0] in parts)
    return replace(data, columns=kept, _read={}, _summaries={}, _found={}) if kept else data


def _way(item: Item, data: ReportData) -> Availability:
    is_imported = all(run.info.imported is not None for run in data.runs)
    return item.imported if is_imported else item.measured


def _mark(item: Item, way: Availability, has_blocks: bool) -> tuple[str, str]:
    if way.mark == NONE:
        return NONE, way.reason
    if item.shows is None:
        return PARTLY, "; ".join(
            text for text in (f"by another command than a suite: {way.source}", way.reason) if text
        )
    if not has_blocks:
        return NONE, f"not in these sessions; {_how(item)}"
    return way.mark, way.reason


def _how(item: Item) -> str:
    return f"measured by {item.measured.source}" if item.measured.source else item.measured.reason


def _summary(found: Sequence[AnsweredItem]) -> Section:
    counts = {
        document: Counter(entry.mark for entry in found if entry.item.document == document) for document in TITLES
    }
    rows = [
        (
            Cell(document),
            Cell(title),
            *(Cell(str(counts[document][mark])) for mark in (FULL, PARTLY, NONE)),
        )
        for document, title in TITLES.items()
    ]
    whole = Counter(entry.mark for entry in found)
    rows.append((Cell("all"), Cell(""), *(Cell(str(whole[mark])) for mark in (FULL, PARTLY, NONE))))
    open_items = [
        (Cell(entry.number), Cell(entry.mark), Cell(entry.item.place), Cell(entry.reason))
        for entry in found
        if entry.mark != FULL
    ]
    blocks: list[Block] = [
        Paragraph(
            f"{FULL} answered here, {PARTLY} in part or by another command, {NONE} not; every table, figure, plan item "
            "and question has a number, document and place."
        ),
        Table(("document", "about", FULL, PARTLY, NONE), tuple(rows), "What these sessions answer", text_columns=2),
    ]
    if open_items:
        heads = ("item", "", "in the document", "why")
        blocks.append(Table(heads, tuple(open_items), "What is answered in part or not", text_columns=4))
    return Section("The five documents", tuple(blocks))


def _section(document: str, found: Sequence[AnsweredItem]) -> Section:
    blocks: list[Block] = []
    for entry in found:
        blocks.append(Heading(entry.heading))
        said = f"{entry.item.kind.capitalize()}: {entry.item.asks}."
        if entry.reason:
            said += f" {entry.mark} {entry.reason[0].upper()}{entry.reason[1:]}."
        blocks.append(Paragraph(said))
        if entry.stands_at is not None and entry.stands_at.blocks:
            blocks.append(Paragraph("Shown at", see=entry.stands_at.heading))
        blocks += entry.blocks
    return Section(f"Document {document}: {TITLES[document]}", tuple(blocks))
