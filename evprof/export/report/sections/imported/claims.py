"""Section: what the measurements say of the claims that five analysis documents make."""

from __future__ import annotations

from collections import Counter

from evprof.export.report.data import ReportData
from evprof.export.report.parts import Badge, Cell, Paragraph, Section, Table
from evprof.export.report.sections.evidence import badge_of, evidence_of
from evprof.metrics.claims.evidence import CONFIRMED, NOT_MEASURED, REFUTED, CheckedClaim
from evprof.metrics.claims.table import answer_claims

TITLE = "Claims of the documents"

_TONES = {CONFIRMED: "good", REFUTED: "bad", NOT_MEASURED: "dim"}


def section(data: ReportData) -> Section:
    """One row per claim: document, verdict, evidence, and what is missing where it is not measured."""
    answers = answer_claims(evidence_of(data))
    counted = Counter(answer.finding.verdict for answer in answers)
    told = ", ".join(f"{counted[verdict]} {verdict}" for verdict in (CONFIRMED, REFUTED, NOT_MEASURED))
    others = sum(bool(answer.finding.measured_on) for answer in answers)
    said = (
        f" {others} of the latter {'was' if others == 1 else 'were'} measured on other models than the documents', "
        "which confirms and refutes nothing."
        if others
        else ""
    )
    badge = badge_of(data.runs, Badge.DERIVED)
    rows = tuple(_row(answer, badge) for answer in answers)
    return Section(
        TITLE,
        (
            Paragraph(f"Of {len(answers)} claims: {told}.{said}"),
            Table(
                ("document", "claim", "verdict", "evidence", "measured on"),
                rows,
                caption="Each verdict is computed from this report's data, from runs of the documents' models alone: "
                "EventGPT-7B and LLaVA-1.5-7B, not quantized, in 16 bit; absolute times on a GPU",
                text_columns=5,
            ),
        ),
    )


def _row(answer: CheckedClaim, badge: Badge) -> tuple[Cell, ...]:
    finding = answer.finding
    is_open = finding.verdict == NOT_MEASURED
    sentence = f"{finding.sentence} To be measured: {answer.claim.wanted}." if is_open else finding.sentence
    return (
        Cell(answer.claim.document),
        Cell(answer.claim.text),
        Cell(finding.verdict, None if is_open else badge, _TONES[finding.verdict]),
        Cell(sentence),
        Cell(finding.measured_on if is_open else "the documents' models"),
    )
