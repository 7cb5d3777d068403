"""Section: the verdicts of these measurements on the claims of the five documents."""

from __future__ import annotations

from collections import Counter
from functools import partial

from evprof.export.report.data import ReportData, badge_of
from evprof.export.report.pairs import evidence_of
from evprof.export.report.parts import Badge, Block, Cell, ColumnsOf, Paragraph, Section, Table, table_of
from evprof.metrics.claims.evidence import CONFIRMED, NOT_MEASURED, REFUTED, CheckedClaim
from evprof.metrics.claims.table import answer_claims

_TONES = {CONFIRMED: "good", REFUTED: "bad", NOT_MEASURED: "dim"}


def section(data: ReportData) -> Section:
    """One row per claim: document, verdict, evidence, and for an open claim what would have to be measured."""
    answers = _answers(data)
    counted = Counter(answer.finding.verdict for answer in answers)
    counts = ", ".join(f"{counted[verdict]} {verdict}" for verdict in (CONFIRMED, REFUTED, NOT_MEASURED))
    others = sum(bool(answer.finding.measured_on) for answer in answers)
    text = (
        f" {others} of the latter {'was' if others == 1 else 'were'} measured on other models than the documents', "
        "which confirms and refutes nothing."
        if others
        else ""
    )
    summary = Paragraph(f"Of {len(answers)} claims: {counts}.{text}")
    return Section("Claims of the documents", (summary, _table(answers, data)))


def of_document(data: ReportData, document: str) -> list[Block]:
    """The verdicts on the claims of one document."""
    answers = [answer for answer in _answers(data) if answer.claim.document == document]
    return [_table(answers, data)] if answers else []


def _answers(data: ReportData) -> list[CheckedClaim]:
    return data.once("claims", partial(answer_claims, evidence_of(data)))


def _table(answers: list[CheckedClaim], data: ReportData) -> Table:
    badge = badge_of(data.runs, Badge.DERIVED)

    def verdict(answer: CheckedClaim) -> Cell:
        known = answer.finding.verdict
        return Cell(known, None if known == NOT_MEASURED else badge, _TONES[known])

    def evidence(answer: CheckedClaim) -> str:
        sentence = answer.finding.sentence
        return f"{sentence} To be measured: {answer.claim.wanted}." if _is_open(answer) else sentence

    columns: ColumnsOf[CheckedClaim] = [
        ("document", lambda answer: answer.claim.document),
        ("claim", lambda answer: answer.claim.text),
        ("verdict", verdict),
        ("evidence", evidence),
        ("measured on", lambda answer: answer.finding.measured_on if _is_open(answer) else "the documents' models"),
    ]
    caption = (
        "Each verdict is computed from this report's data, from runs of the documents' models alone: EventGPT-7B and "
        "LLaVA-1.5-7B, not quantized, in 16 bit; absolute times on a GPU"
    )
    return table_of(answers, columns, caption, text_columns=5)


def _is_open(answer: CheckedClaim) -> bool:
    return answer.finding.verdict == NOT_MEASURED
