"""Reports in the order of the five documents: `documents.toml` lists their items, this module answers them.

An item is a table, a figure, a plan item or a question of a document. It names the blocks of a report that answer it,
the command that measures it, and the result files that give it.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from evprof.export.report.data import SEPARATOR, ReportData
from evprof.export.report.parts import Block, Heading, Paragraph, Section, Table, row_of
from evprof.export.report.sections import (
    answers,
    comparisons,
    environment,
    limits,
    memory,
    models,
    speculation,
    times,
)

FULL, PARTLY, NONE = "✔", "◐", "✘"
"""All of it; some of it, with the reason; none of it, with the reason."""

CLAIMS = "claims"
"""Shown by items that ask for the verdicts on their document's claims."""

SHOWS: dict[str, Callable[[ReportData], Iterable[Block]]] = {
    "acceptance": speculation.acceptance,
    "alignment": speculation.alignment,
    "answer lengths": speculation.by_answer_length,
    "architecture": models.architecture,
    "batches": memory.batches,
    "both models": comparisons.both_models,
    "cache layouts": memory.layouts,
    "capacity": limits.capacity,
    "compression": models.compression,
    "contributions": comparisons.contributions,
    "costs of speculation": speculation.costs,
    "draft failures": speculation.failures,
    "fewer or faster tokens": comparisons.fewer_or_faster_tokens,
    "frames": models.frames,
    "hidden drafts": speculation.hidden_drafts,
    "lengths": times.lengths,
    "loading": times.loading,
    "memory peaks": lambda data: [*memory.peaks(data), *comparisons.one_setting(data)],
    "one setting": comparisons.one_setting,
    "operations": times.operations,
    "same input": comparisons.same_input,
    "samples": answers.samples,
    "settings": lambda data: [times.inputs(data), *environment.settings(data)],
    "stage shares": times.shares,
    "texts": answers.generated_texts,
    "theory": limits.theory,
    "what if": speculation.what_if,
}
"""The blocks that items name."""


@dataclass(frozen=True)
class Availability:
    """How far an item is answered (FULL, PARTLY or NONE), by what, and what is missing.

    `source` is a command where it is measured, and the families of result files where it is imported.
    """

    mark: str
    source: str
    reason: str


@dataclass(frozen=True)
class Item:
    """`place` is its heading in the document. `shows` names its blocks; without it no suite measures the item. `parts`
    of the suite `documents` measure it."""

    document: str
    kind: str
    place: str
    asks: str
    shows: str
    measured: Availability
    imported: Availability
    parts: tuple[str, ...]

    @classmethod
    def of(cls, document: str, entry: dict[str, Any]) -> Item:
        """The item of an entry of the list."""

        def way(name: str, prefix: str = "") -> Availability:
            source, reason = entry.get(name, ""), entry.get(f"{name}_but", "")
            mark = NONE if not source else PARTLY if reason else FULL
            return Availability(mark, f"{prefix}{source}" if source else "", reason)

        return cls(
            document,
            kind=entry["kind"],
            place=entry["place"],
            asks=entry["asks"],
            shows=entry.get("shows", ""),
            measured=way("measured", "evprof "),
            imported=way("imported"),
            parts=tuple(entry.get("parts", ())),
        )


_LIST = tomllib.loads((Path(__file__).with_suffix(".toml")).read_text(encoding="utf-8"))["documents"]

TITLES: dict[str, str] = {document: entry["title"] for document, entry in _LIST.items()}
"""The subject of each document."""

ITEMS = tuple(Item.of(document, item) for document, entry in _LIST.items() for item in entry["items"])
"""All items in the documents' order."""


def numbered(document: str) -> list[tuple[str, Item]]:
    """The items of a document with their numbers: "002.7"."""
    own = [item for item in ITEMS if item.document == document]
    return [(f"{document}.{place}", item) for place, item in enumerate(own, start=1)]


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
    known = answered(data)
    listed = (_section(document, [one for one in known if one.item.document == document]) for document in TITLES)
    return (_summary(known), *listed)


def answered(data: ReportData) -> list[AnsweredItem]:
    """Every item; what several of them show is shown at the first."""
    parts: dict[tuple[str, ...], ReportData] = {}
    firsts: dict[tuple[object, ...], AnsweredItem] = {}
    known = []
    is_imported = all(run.info.imported is not None for run in data.runs)
    for number, item in (pair for document in TITLES for pair in numbered(document)):
        way = item.imported if is_imported else item.measured
        # What cannot be had this way has nothing to show, whatever its tables would make of the data.
        if way.mark == NONE or not item.shows:
            known.append(AnsweredItem(number, item, *_mark(item, way, has_blocks=False)))
            continue
        key = (item.parts, item.shows, item.document if item.shows == CLAIMS else "")
        first = firsts.get(key)
        if first is not None:
            known.append(AnsweredItem(number, item, *_mark(item, way, bool(first.blocks)), stands_at=first))
            continue
        own = parts.setdefault(item.parts, part_of(data, item.parts))
        shows = partial(answers.claims_of, document=item.document) if item.shows == CLAIMS else SHOWS[item.shows]
        blocks = tuple(shows(own))
        firsts[key] = AnsweredItem(number, item, *_mark(item, way, bool(blocks)), blocks)
        known.append(firsts[key])
    return known


def part_of(data: ReportData, parts: tuple[str, ...]) -> ReportData:
    """The configurations of these parts of a suite; all where there are no parts, or none of these."""
    kept = tuple(column for column in data.columns if column.cell.split(SEPARATOR)[0] in parts)
    return replace(data, columns=kept, _kept={}) if kept else data


def _mark(item: Item, way: Availability, has_blocks: bool) -> tuple[str, str]:
    if way.mark == NONE:
        return NONE, way.reason
    if not item.shows:
        reasons = (f"by another command than a suite: {way.source}", way.reason)
        return PARTLY, "; ".join(text for text in reasons if text)
    if not has_blocks:
        how = f"measured by {item.measured.source}" if item.measured.source else item.measured.reason
        return NONE, f"not in these sessions; {how}"
    return way.mark, way.reason


def _summary(known: Sequence[AnsweredItem]) -> Section:
    def row(name: str, title: str, items: Iterable[AnsweredItem]) -> tuple[Any, ...]:
        counts = Counter(one.mark for one in items)
        return row_of(name, title, *(str(counts[mark]) for mark in (FULL, PARTLY, NONE)))

    rows = [row(name, title, (one for one in known if one.item.document == name)) for name, title in TITLES.items()]
    rows.append(row("all", "", known))
    open_items = [row_of(one.number, one.mark, one.item.place, one.reason) for one in known if one.mark != FULL]
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


def _section(document: str, known: Sequence[AnsweredItem]) -> Section:
    blocks: list[Block] = []
    for one in known:
        text = f"{one.item.kind.capitalize()}: {one.item.asks}."
        if one.reason:
            text += f" {one.mark} {one.reason[0].upper()}{one.reason[1:]}."
        blocks += [Heading(one.heading), Paragraph(text)]
        if one.stands_at is not None and one.stands_at.blocks:
            blocks.append(Paragraph("Shown at", see=one.stands_at.heading))
        blocks += one.blocks
    return Section(f"Document {document}: {TITLES[document]}", tuple(blocks))
