"""Reports in the order of the five documents: `documents.toml` lists their items, this module answers them.

An item is a table, a figure, a plan item or a question of a document. It names the blocks of a report that answer it,
what a session must hold for the whole answer (`NEEDS`), and the command that measures it.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from evprof.core.records import COVERS
from evprof.core.run_log import RunLog
from evprof.export.report.data import ReportData
from evprof.export.report.pairs import evidence_of, model_pairs
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
from evprof.metrics.claims.evidence import NOT_MEASURED, Finding, is_alone
from evprof.metrics.claims.models import CLAIMS as ALL_CLAIMS
from evprof.metrics.claims.models import is_hit
from evprof.metrics.claims.speculation import counts_of, speeds
from evprof.metrics.comparison.differences import SEPARATOR
from evprof.metrics.configurations.gathering import Configuration, sample_key
from evprof.metrics.estimates.observations import scene_of
from evprof.metrics.estimates.paired import fewer_or_faster
from evprof.metrics.figures.decoding import output_length
from evprof.metrics.figures.kv_cache import measured_bytes
from evprof.metrics.figures.partition import measured_ms, shape_of
from evprof.metrics.figures.stages import tensor_count

FULL, PARTLY, NONE = "✔", "◐", "✘"
"""All of it; some of it, with the reason; none of it, with the reason."""

CLAIMS = "claims"
"""Shown by items that ask for the verdicts on their document's claims."""

SECTIONS = (answers, comparisons, environment, limits, memory, models, speculation, times)
"""The modules whose functions make the blocks that items name."""


def _kinds(run: RunLog) -> tuple[str, str]:
    return run.info.mode, run.info.speculation.kind if run.info.speculation else ""


def _alone(data: ReportData, role: str = "") -> list[Configuration]:
    """The configurations of one model alone; without any, all."""
    alone = [column for column in data.columns if is_alone(column)] or list(data.columns)
    return [column for column in alone if role in ("", column.runs[0].info.role)]


def _has_stage(data: ReportData, names: str) -> bool:
    """Whether every model has a time of these stages and no others."""
    block = tuple(names.split(COVERS))
    timed: dict[str, bool] = {}
    for column in _alone(data):
        known = any(measured_ms(run, shape_of(run), block) is not None for run in column.runs)
        timed[column.runs[0].info.role] = known or timed.get(column.runs[0].info.role, False)
    return all(timed.values())


def _has_value(data: ReportData, setting: str) -> bool:
    name, value = setting.split("=")
    return any(str(run.info.given_settings.get(name)) == value for run in data.runs)


def _is_varied(data: ReportData, setting: str) -> bool:
    """Whether two configurations (of a role, after a colon) differ in this setting alone."""
    name, _, role = setting.partition(":")
    return any(role in ("", one.runs[0].info.role) for one, _ in evidence_of(data).twins(name))


def _has_length(data: ReportData, role: str) -> bool:
    return any(run.info.lengths.get(role) for column in _alone(data, role) for run in column.runs)


def _has_kind(data: ReportData, kind: str) -> bool:
    return any(kind in _kinds(run) for run in data.runs)


def _has_speed(data: ReportData, kind: str) -> bool:
    return any(kind in _kinds(speed.column.runs[0]) for speed in speeds(evidence_of(data)))


def _reads_same(data: ReportData, kind: str) -> bool:
    """Whether both models read this kind of input, each alone."""
    infos = [column.runs[0].info for column in _alone(data)]
    return len({info.role for info in infos if info.settings.flat().get(f"{info.role}_input") == kind}) == 2


def _finding(data: ReportData, key: str) -> Finding:
    return next(finding for finding in answers.findings(data) if finding.claim.key == key)


def _is_judged(data: ReportData, key: str) -> bool:
    return _finding(data, key).verdict != NOT_MEASURED


def _is_asked(data: ReportData, key: str) -> bool:
    """Whether runs bear on a claim, though they may not decide it."""
    return _finding(data, key).sentence != _finding(data, key).claim.nothing


def _has_generation(data: ReportData, _: str) -> bool:
    return any(fewer_or_faster(*pair.sides) is not None for pair in model_pairs(data))


NEEDS: dict[str, tuple[str, Callable[[ReportData, str], object]]] = {
    "claim": ("a verdict on “{}”", _is_judged),
    "drafter": ("drafts by {}", _has_kind),
    "fact": ("{}", lambda data, key: any(data.facts(key))),
    "generation": ("times and numbers of generated tokens", _has_generation),
    "length": ("the prompt of the {}", _has_length),
    "mode": ("runs in mode {}", _has_kind),
    "pair": ("both models, each alone", lambda data, _: model_pairs(data)),
    "quantity": ("runs about “{}”", _is_asked),
    "same": ("both models over {}", _reads_same),
    "samples": ("{} samples", lambda data, least: len(set(map(sample_key, data.runs))) >= int(least)),
    "scenes": ("{} scenes", lambda data, least: len(set(map(scene_of, data.runs))) >= int(least)),
    "speed": ("the target alone on the same samples", _has_speed),
    "stage": ("{} timed by itself in every model", _has_stage),
    "value": ("{}", _has_value),
    "varied": ("configurations that differ in {} alone", _is_varied),
    "verdict": ("a verdict on “{}”", _is_judged),
}
"""Phrase, with {} for the argument, and test, by the word before the colon of a need in `documents.toml`.

`RUN_NEEDS` has those that one run meets. "shows:TEXT" is a row or a head of the item's tables.
"""

RUN_NEEDS: dict[str, tuple[str, Callable[[RunLog], object]]] = {
    "accepted": ("numbers of drafted and accepted tokens", lambda run: counts_of(run)[1]),
    "cache": ("measured bytes of the KV cache", measured_bytes),
    "frame_cache": ("kept decoded frames", lambda run: any(one.frame_cache for one in run.info.loading.values())),
    "gpu": ("a GPU", lambda run: any(one.device.startswith("cuda") for one in run.info.models.values())),
    "hidden": ("tokens drafted inside a prefill", lambda run: any(entry.hidden for entry in run.rounds)),
    "hits": ("hits of the vision cache", is_hit),
    "loading": ("the parts of loading", lambda run: any(one.bytes_read for one in run.info.loading.values())),
    "peak": ("peak memory of the allocator", lambda run: run.info.memory.peak_allocated_bytes),
    "rejections": ("rejected drafts", lambda run: any(entry.accepted < entry.drafted for entry in run.rounds)),
    "settings": ("the settings of generation", lambda run: "max_new_tokens" in run.info.given_settings),
    "shapes": ("shapes of tensors", tensor_count),
    "sizes": ("sizes of the models", lambda run: any(one.text for one in run.info.models.values())),
    "texts": ("answers", lambda run: answers.answer_of(run) is not None),
    "tokens": ("numbers of tokens", output_length),
    "transfers": ("transfers between devices", lambda run: (facts := run.info.speculation) and facts.transfer_bytes),
    "weights": ("bytes of the weights", lambda run: run.info.memory.weights_bytes),
}

NO_PARTS = {"gpu", "pair", "samples", "scenes", "shows", "speed", "value", "verdict"}
"""Needs that are no part of an answer: a session that meets nothing else answers nothing."""


@dataclass(frozen=True)
class Item:
    """`number` is such as "002.7", `place` its heading in the document. `shows` names its blocks, `needs` what its
    whole answer needs, `beyond` a part that no session can hold, `measured` the command that measures it, `parts` the
    parts of the suite `documents`.
    """

    number: str
    document: str
    kind: str
    place: str
    asks: str
    shows: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    beyond: str = ""
    measured: str = ""
    parts: tuple[str, ...] = ()

    @property
    def phrases(self) -> list[str]:
        return [_phrase(need) for need in self.needs]


def _phrase(need: str) -> str:
    kind, _, argument = need.partition(":")
    if kind == "shows":
        return f"“{argument}” in its tables"
    if kind in ("claim", "verdict"):
        argument = next(claim.text for claim in ALL_CLAIMS if claim.key == argument)
    else:
        argument = argument.replace("=", " ").replace(":", " of the ").replace("_", " ")
    return {**NEEDS, **RUN_NEEDS}[kind][0].format(argument)


_LIST = tomllib.loads((Path(__file__).with_suffix(".toml")).read_text(encoding="utf-8"))["documents"]

TITLES: dict[str, str] = {document: entry["title"] for document, entry in _LIST.items()}

_LISTED = ("shows", "needs", "parts")
ITEMS = tuple(
    Item(f"{document}.{place}", document, **item | {key: tuple(item.get(key, ())) for key in _LISTED})
    for document, entry in _LIST.items()
    for place, item in enumerate(entry["items"], start=1)
)


@dataclass(frozen=True)
class AnsweredItem:
    """An item as these sessions answer it; `reason` says what is missing, `blocks` may stand at another item."""

    item: Item
    mark: str
    reason: str
    blocks: Sequence[Block] = ()
    stands_at: AnsweredItem | None = None

    @property
    def heading(self) -> str:
        """ "✔ 002.2 Results Summary"."""
        return f"{self.mark} {self.item.number} {self.item.place}"


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
    for item in ITEMS:
        own = parts.setdefault(item.parts, part_of(data, item.parts))
        key = (item.parts, item.shows, item.document if item.shows == (CLAIMS,) else "")
        first = firsts.get(key)
        blocks = first.blocks if first else _blocks(item, own)
        mark, reason = _mark(item, own, blocks)
        is_first = first is None and mark != NONE
        stands_at = first if mark != NONE else None
        known.append(AnsweredItem(item, mark, reason, blocks if is_first else (), stands_at))
        if is_first:
            firsts[key] = known[-1]
    return known


def _blocks(item: Item, data: ReportData) -> list[Block]:
    if item.shows == (CLAIMS,):
        return answers.claims_of(data, item.document)
    made = [shown_by(name)(data) for name in item.shows]
    return [block for blocks in made for block in ([blocks] if isinstance(blocks, Table) else blocks)]


def shown_by(name: str) -> Callable[[ReportData], Iterable[Block] | Table]:
    """The function of one of `SECTIONS`: "times.shares"."""
    module, _, function = name.partition(".")
    found: Callable[[ReportData], Iterable[Block] | Table] = getattr(
        next(section for section in SECTIONS if section.__name__.endswith(f".{module}")), function
    )
    return found


def part_of(data: ReportData, parts: tuple[str, ...]) -> ReportData:
    """The configurations of these parts of a suite; all where there are no parts, or none of these."""
    kept = tuple(column for column in data.columns if column.cell.split(SEPARATOR)[0] in parts)
    return replace(data, columns=kept, _kept={}) if kept else data


def _mark(item: Item, data: ReportData, blocks: Sequence[Block]) -> tuple[str, str]:
    asked = [need.replace("claim:", "quantity:") for need in item.needs if need.startswith("claim:")]
    met = {need for need in (*item.needs, *asked) if blocks and _holds(need, data, blocks)}
    missing = [_phrase(need) for need in item.needs if need not in met] + ([item.beyond] if item.beyond else [])
    if {need.partition(":")[0] for need in met} <= NO_PARTS:
        return NONE, f"not in these sessions; measured by evprof {item.measured}" if item.measured else item.beyond
    return (PARTLY, f"without {'; '.join(missing)}") if missing else (FULL, "")


def _holds(need: str, data: ReportData, blocks: Sequence[Block]) -> bool:
    kind, _, argument = need.partition(":")
    if kind == "shows":
        tables = [block for block in blocks if isinstance(block, Table)]
        words = [(*table.heads, *(row[0].text for row in table.rows)) for table in tables]
        return any(argument in word.lower() for each in words for word in each)
    if kind in RUN_NEEDS:
        return data.once(("need", need), lambda: any(map(RUN_NEEDS[kind][1], data.runs)))
    return data.once(("need", need), lambda: bool(NEEDS[kind][1](data, argument)))


def _summary(known: Sequence[AnsweredItem]) -> Section:
    def row(name: str, title: str, items: Iterable[AnsweredItem]) -> tuple[Any, ...]:
        counts = Counter(one.mark for one in items)
        return row_of(name, title, *(str(counts[mark]) for mark in (FULL, PARTLY, NONE)))

    rows = [row(name, title, (one for one in known if one.item.document == name)) for name, title in TITLES.items()]
    rows.append(row("all", "", known))
    open_items = [row_of(one.item.number, one.mark, one.item.place, one.reason) for one in known if one.mark != FULL]
    blocks: list[Block] = [
        Paragraph(
            f"{FULL} answered here, {PARTLY} in part, {NONE} not, by what the sessions hold; every table, figure, plan "
            "item and question has a number, document and place."
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
