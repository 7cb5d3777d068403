"""One thing that a document shows, plans or asks, and how it is had: measured here, and from imported files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from evprof.export.report.data import ReportData
from evprof.export.report.parts import Block

FULL, PARTLY, NONE = "✔", "◐", "✘"
"""All of it; some of it, with the reason; none of it, with the reason."""

TABLE, FIGURE, PLAN, QUESTION = "table", "figure", "plan", "question"

OTHER_MODELS = "the claims are about 7B models on a GPU; runs of others are told and judge nothing"
"""Why a claim may stay open."""

Shows = Callable[[ReportData], Sequence[Block]]


@dataclass(frozen=True)
class Availability:
    """How far an item is had (one of FULL, PARTLY and NONE), with what, and what is missing.

    `source` is a command where it is measured, and the families of result files where it is imported. `parts` of the
    suite `documents` measure it as well.
    """

    mark: str
    source: str = ""
    reason: str = ""
    parts: tuple[str, ...] = ()


AS_USUAL = Availability("")
"""Measured as most items of its document are."""


@dataclass(frozen=True)
class Item:
    """`place` is its heading in the document. `shows` makes its blocks of the data of its parts, and none where nothing
    was measured; without it another command than a suite answers.
    """

    kind: str
    place: str
    asks: str
    shows: Shows | None
    imported: Availability
    measured: Availability = AS_USUAL
    document: str = ""

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts of the suite `documents` that measure it."""
        return self.measured.parts


table, figure, plan, question = (partial(Item, kind) for kind in (TABLE, FIGURE, PLAN, QUESTION))


def listed(document: str, usual: Availability, items: Iterable[Item]) -> tuple[Item, ...]:
    """The items as those of a document, measured in the `usual` way where they name none of their own."""
    return tuple(
        replace(item, document=document, measured=usual if item.measured is AS_USUAL else item.measured)
        for item in items
    )


def suite(name: str, reason: str = "", parts: tuple[str, ...] | None = None) -> Availability:
    """Measured by a ready-made suite, in part where there is a reason; `parts` where it is not the part of its name."""
    return command(f"suite {name} -o DIR", reason, (name,) if parts is None else parts)


def command(words: str, reason: str = "", parts: tuple[str, ...] = ()) -> Availability:
    """Measured by another command."""
    return Availability(PARTLY if reason else FULL, f"evprof {words}", reason, parts)


def files(families: str, reason: str = "") -> Availability:
    """Had from imported files of these families."""
    return Availability(PARTLY if reason else FULL, families, reason)


def never(reason: str) -> Availability:
    """Not had."""
    return Availability(NONE, "", reason)
