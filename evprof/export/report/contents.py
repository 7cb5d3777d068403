"""What a report holds, in reading order: one function of the data per section."""

from __future__ import annotations

from collections.abc import Callable

from evprof.export.report.data import ReportData
from evprof.export.report.parts import Section

SectionOf = Callable[[ReportData], Section]

SECTIONS: tuple[SectionOf, ...] = ()
