"""Reports from session files to one Markdown or HTML file: reads, gathers, renders, writes; whole or not at all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from evprof.core.errors import UsageError, UserError
from evprof.core.files.whole_file import refuse_session, whole_file
from evprof.core.sample import UNKNOWN
from evprof.core.units import count_text
from evprof.export.report.data import ReportData, Source, gather
from evprof.export.report.documents import document_sections
from evprof.export.report.parts import Report, Section
from evprof.export.report.rendering import html, markdown
from evprof.export.report.sections import (
    answers,
    comparisons,
    environment,
    imported,
    limits,
    memory,
    models,
    speculation,
    times,
)
from evprof.metrics.configurations.gathering import sample_key
from evprof.metrics.figures.stages import BASES

WRITERS = {".md": markdown, ".html": html}
"""Suffixes of files, and what renders them."""

FEW_SESSIONS = 3
"""From as many on sessions are named without their folders; the commands at the end name them in full."""

SectionOf = Callable[[ReportData], Section]

SECTIONS: tuple[SectionOf, ...] = (
    times.overview,
    times.section,
    comparisons.section,
    models.section,
    models.frames_section,
    limits.section,
    memory.section,
    speculation.section,
    answers.section,
    answers.claims,
    imported.section,
    environment.section,
)

BESIDE_DOCUMENTS: tuple[SectionOf, ...] = (answers.section, imported.section, environment.section)
"""The sections after the five documents in a report of their order."""


def write_report(
    sources: Sequence[Source | Path],
    output: Path,
    *,
    title: str | None = None,
    command: str = "",
    basis: str | None = None,
    by_documents: bool = False,
    require_comparable: bool = False,
) -> None:
    """Writes a report of sessions, read or at a path, to `output`, a `.md` or `.html`.

    `command` is the command line that makes the report again; `basis` is what totals count, by default the widest on
    which every configuration has a total; `by_documents`: in the order of the five documents. Raises UserError for
    another suffix or basis (exit code 2), for a file that is no session, when no run finished, when the path cannot be
    written, and, with `require_comparable`, where runs were not made alike (see `comparability`).
    """
    check_output(output)
    if basis is not None and basis not in BASES:
        raise UsageError(f"Unknown basis '{basis}'; choose one of {', '.join(BASES)}.")
    read = [source if isinstance(source, Source) else read_source(source) for source in sources]
    data = gather(read, basis, command)
    if require_comparable:
        data.comparability.require()
    text = WRITERS[output.suffix.lower()](build_report(data, title, by_documents=by_documents))
    try:
        with whole_file(output) as stream:
            stream.write(text)
    except OSError as error:
        raise UserError(f"'{output}' cannot be written ({error.strerror or error}); name another place.") from error


def check_output(output: Path) -> None:
    """Raises UserError unless a report may be written there: known by its suffix, no folder, no session."""
    if output.suffix.lower() not in WRITERS:
        raise UsageError(f"A report is Markdown or HTML: name '{output}' with the ending {' or '.join(WRITERS)}.")
    if not output.absolute().parent.is_dir():
        raise UserError(f"There is no folder '{output.absolute().parent}' to write '{output.name}' to; make it first.")
    if output.is_dir():
        raise UserError(f"'{output}' is a folder; name a file.")
    refuse_session(output)


def read_source(path: Path) -> Source:
    """One session as sections read it. Raises UserError for anything else."""
    from evprof.session.opened import open_session

    session = open_session(path)
    runs = list(session.runs.values())
    environment = session.environment
    if environment and session.evprof_version:
        environment = {**environment, "evprof": session.evprof_version}
    return Source(path, runs, environment, session.facts)


def build_report(data: ReportData, title: str | None = None, *, by_documents: bool = False) -> Report:
    """All sections in reading order under a head, or the five documents and what stands in none of them."""
    documents = document_sections(data) if by_documents else ()
    sections = (*documents, *(section(data) for section in (BESIDE_DOCUMENTS if by_documents else SECTIONS)))
    title = title or default_title(data)
    return Report(title, summary_of(data), facts_of(data), sections, data.comparability.sentence)


def default_title(data: ReportData) -> str:
    """The suites' titles where all sessions are suites; otherwise the names of the sessions."""
    suites = _suites(data)
    if len(suites) == len(data.sources):
        return " and ".join(dict.fromkeys(str(suite.get("title") or suite.get("name")) for suite in suites))
    names = [source.path.stem for source in data.sources]
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _suites(data: ReportData) -> list[dict[str, Any]]:
    return [suite for source in data.sources if isinstance(suite := source.facts.get("suite"), dict)]


def summary_of(data: ReportData) -> str:
    """One sentence: what was measured, how often, and what is missing."""
    text = f"{count_text(len(data.runs), 'run')} of {count_text(len(data.columns), 'configuration')}"
    if samples := _sample_count(data):
        text += f" on {count_text(samples, 'sample')}"
    if failed := len(data.failures):
        text += f"; {count_text(failed, 'run')} failed and {'enters' if failed == 1 else 'enter'} no figure"
    return f"{text}."


def facts_of(data: ReportData) -> tuple[tuple[str, str], ...]:
    suites = _suites(data)
    planned = sum(count for suite in suites if isinstance(count := suite.get("planned_runs"), int))
    # Of sessions among which only some are suites, no plan covers the whole.
    is_planned = 0 < planned < 1 << 63 and len(suites) == len(data.sources)
    done = f"{len(data.runs):,} of {planned:,} planned" if is_planned else str(len(data.runs))
    # A suite that was continued has warmed up more often, which says nothing about its results.
    warm = "" if suites else f", {len(data.warmups):,} for warming up"
    paths = [source.path for source in data.sources]
    facts = {
        "Sessions": ", ".join(str(path) if len(paths) < FEW_SESSIONS else path.name for path in paths),
        "Recorded": _dates(data),
        "Device": str(data.environment.get("device") or ""),
        "Configurations": str(len(data.columns)),
        "Samples": str(_sample_count(data) or ""),
        "Runs": f"{done}, {len(data.failures):,} failed{warm}",
        "Totals": f"{data.basis} unless said otherwise",
    }
    return tuple((name, text) for name, text in facts.items() if text)


def _sample_count(data: ReportData) -> int:
    """How many different (sample, prompt) pairs the comparable runs have; 0 where they are not known."""
    return len({sample_key(run) for run in data.runs if run.info.sample != UNKNOWN})


def _dates(data: ReportData) -> str:
    """First and last moment a run began, UTC; empty where no run has one, as in imported files."""
    known = sorted(run.info.started_at for run in (*data.runs, *data.failures) if run.info.started_at)
    if not known:
        return ""
    first, last = (moment.replace("T", " ")[:16] for moment in (known[0], known[-1]))
    if first == last:
        return f"{first} UTC"
    return f"{first} to {last[11:] if first[:10] == last[:10] else last} UTC"
