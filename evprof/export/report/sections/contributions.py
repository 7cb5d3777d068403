"""What each stage adds to the difference between two configurations, and which of them is the bottleneck."""

from __future__ import annotations

from functools import partial
from typing import Any

from evprof.export.report.data import ReportData
from evprof.export.report.figures import interval_cell, ms_cell, number_text, ratio_cell, share_cell, share_text
from evprof.export.report.pairs import MOST_PAIRS, ConfigurationPair, pairs_of
from evprof.export.report.parts import Badge, Block, Cell, Paragraph, Table, not_available, row_of
from evprof.metrics.comparison.differences import OVERLAP, REMAINDER, UNATTRIBUTED, configuration_contributions
from evprof.metrics.estimates.estimates import Verdict
from evprof.metrics.estimates.paired import compare
from evprof.metrics.figures import stages
from evprof.metrics.figures.stages import BASES

WORDS = {
    UNATTRIBUTED: "covered by no stage",
    OVERLAP: "covered by several stages at once",
    REMAINDER: "what only one side measured",
}

Parts = dict[str, list[dict[str, Any]]]
"""The parts of a difference on each basis."""

Totals = dict[str, Verdict | None]
"""The totals of both sides on each basis."""


def contributions(data: ReportData) -> list[Block]:
    """A table of parts and a sentence for every pair, on all three bases."""
    pairs = pairs_of(data)
    blocks = [block for pair in pairs[:MOST_PAIRS] for block in _pair(pair, *map(data.name, pair.sides))]
    if len(pairs) > MOST_PAIRS:
        text = f"{len(pairs) - MOST_PAIRS} other pairs are left out here; evprof compare compares them by name."
        blocks.append(Paragraph(text))
    return blocks


def _pair(pair: ConfigurationPair, base: str, other: str) -> list[Block]:
    by_basis = {basis: configuration_contributions(pair.base, pair.other, basis) for basis in BASES}
    totals = {basis: compare(pair.base, pair.other, partial(stages.total_ms, basis=basis)) for basis in BASES}
    parts = dict.fromkeys(part["stage"] for basis in BASES for part in by_basis[basis])
    if not parts:
        return [Paragraph(f"{base} and {other} have no stage that both measured.", tone="warn")]
    rows = [_row(part, by_basis, totals) for part in parts]
    rows += [_total_row(basis, compared) for basis, compared in totals.items() if compared is not None]
    heads = ("stage", "difference", "95 % of the difference", *(f"share, {basis}" for basis in BASES))
    blocks: list[Block] = [
        Table(heads, tuple(rows), f"{other} less {base}, mean over the samples that both measured"),
        Paragraph(_bottleneck(by_basis, totals, base, other), badge=Badge.DERIVED),
    ]
    if missing := [basis for basis in BASES if totals[basis] is None]:
        text = "one side did not measure everything that such a total counts, or timed it in one piece with more."
        blocks.append(Paragraph(f"No shares {' and '.join(missing)}: {text}"))
    return blocks


def _row(part: str, by_basis: Parts, totals: Totals) -> tuple[Cell, ...]:
    entries = {basis: next((entry for entry in by_basis[basis] if entry["stage"] == part), None) for basis in BASES}
    entry = next(known for known in entries.values() if known is not None)
    shares = [
        not_available() if known is None or totals[basis] is None else share_cell(known["share"])
        for basis, known in entries.items()
    ]
    delta = ms_cell(entry["delta_ms"], Badge.DERIVED)
    return row_of(WORDS.get(part, part), delta, interval_cell(entry["ci95"]), *shares)


def _total_row(basis: str, compared: Verdict) -> tuple[Cell, ...]:
    ratio = ratio_cell(compared.ratio, compared.interval)
    return row_of(
        f"total, {basis} (ratio {ratio.text})",
        ms_cell(compared.delta, Badge.DERIVED),
        interval_cell(compared.delta_interval),
        *(share_cell(1.0) if basis == own else "" for own in BASES),
    )


def _bottleneck(by_basis: Parts, totals: Totals, base: str, other: str) -> str:
    """The stage that makes up most of the difference, on every basis."""
    sentences: list[str] = []
    for basis in BASES:
        compared, parts = totals[basis], [part for part in by_basis[basis] if part["stage"] not in (OVERLAP, REMAINDER)]
        if compared is None or not parts:
            continue
        if _may_be_none(compared):
            sentences.append(f"Counted {basis} the two cannot be told apart.")
            continue
        sign = 1 if compared.delta > 0 else -1
        slower, faster = (other, base) if sign > 0 else (base, other)
        largest = max(parts, key=lambda part: sign * part["delta_ms"])
        share = f", {share_text(largest['share'])}" if largest["share"] is not None else ""
        sentences.append(
            f"Counted {basis}, {slower} takes {number_text(abs(compared.delta))} ms longer than {faster}, most of it "
            f"for {WORDS.get(name := largest['stage'], name)} ({number_text(sign * largest['delta_ms'])} ms{share})."
        )
    unknown = f"Of {base} and {other} no total is known on any basis; the differences stand for themselves."
    return " ".join(sentences) or unknown


def _may_be_none(compared: Verdict) -> bool:
    """Whether the interval of the difference holds 0, or the interval of the ratio holds 1."""
    delta, ratio = compared.delta_interval, compared.interval
    return (delta is not None and delta[0] <= 0 <= delta[1]) or (ratio is not None and ratio[0] <= 1 <= ratio[1])
