"""One thing that a document shows, plans or asks, and how it is had: measured here, and from imported files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from evprof.export.report.data import ReportData
from evprof.export.report.parts import Block

FULL, PARTLY, NONE = "✔", "◐", "✘"
"""All of it; some of it, with the reason; none of it, with the reason."""

TABLE, FIGURE, PLAN, QUESTION = "table", "figure", "plan", "question"

OTHER_MODELS = "the claims are about 7B models on a GPU; runs of others are told and judge nothing"
"""Why a claim may stay open."""

Shows = Callable[[ReportData], Sequence[Block]]


@dataclass(frozen=True)
class Way:
    """How far an item is had (one of FULL, PARTLY and NONE), with what, and what is missing.

    `source` is a command where it is measured, and the families of result files where it is imported.
    """

    mark: str
    source: str = ""
    reason: str = ""


@dataclass(frozen=True)
class Item:
    """`document` is its number, `place` its heading there. `parts` of the suite `documents` measure it; `shows` makes
    its blocks of their data, and none where nothing was measured; without it another command than a suite answers.
    """

    document: str
    place: str
    kind: str
    asks: str
    measured: Way
    imported: Way
    parts: tuple[str, ...] = ()
    shows: Shows | None = None


def suite(name: str, reason: str = "") -> Way:
    """Measured by a ready-made suite, in part where there is a reason."""
    return Way(PARTLY if reason else FULL, f"evprof suite {name} -o DIR", reason)


def command(words: str, reason: str = "") -> Way:
    """Measured by another command."""
    return Way(PARTLY if reason else FULL, f"evprof {words}", reason)


def files(families: str, reason: str = "") -> Way:
    """Had from imported files of these families."""
    return Way(PARTLY if reason else FULL, families, reason)


def never(reason: str) -> Way:
    """Not had."""
    return Way(NONE, "", reason)
