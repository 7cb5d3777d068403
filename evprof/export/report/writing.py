"""Reports from session files to one Markdown or HTML file: reads, gathers, sets, writes; whole or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from evprof.core.errors import USAGE, UserError
from evprof.core.files.whole_file import refuse_session, whole_file
from evprof.export.report.contents import BESIDE_DOCUMENTS, SECTIONS, WITHOUT_RUNS
from evprof.export.report.data import ReportData, Source, gather
from evprof.export.report.documents.sections import document_sections
from evprof.export.report.head import facts_of, summary_of
from evprof.export.report.html import html
from evprof.export.report.markdown import markdown
from evprof.export.report.parts import Report
from evprof.metrics.figures.stages import BASES

SUFFIXES = (".md", ".html")


def write_report(
    paths: Sequence[Path],
    output: Path,
    *,
    title: str | None = None,
    command: str = "",
    basis: str | None = None,
    by_documents: bool = False,
) -> None:
    """Writes what the sessions at `paths` say to `output`, a `.md` or `.html`.

    `command` is what the report tells as the way to make it again; `basis` is what totals count, by default the widest
    on which every configuration has a total; `by_documents`: in the order of the five documents. Raises UserError for
    another suffix or basis (exit code 2), for what is no session, when no run finished, and when the place cannot be
    used.
    """
    sources = [read_source(Path(path)) for path in paths]
    write_sources(sources, output, title=title, command=command, basis=basis, by_documents=by_documents)


def write_sources(
    sources: Sequence[Source],
    output: Path,
    *,
    title: str | None = None,
    command: str = "",
    basis: str | None = None,
    by_documents: bool = False,
    require_comparable: bool = False,
) -> None:
    """Like `write_report`, of sessions that were read already. `require_comparable`: raises UserError where runs were
    not made alike (see `comparability`)."""
    check_output(output)
    if basis is not None and basis not in BASES:
        raise UserError(f"Unknown basis '{basis}'; choose one of {', '.join(BASES)}.", exit_code=USAGE)
    data = gather(sources, basis, command)
    if require_comparable and data.comparability is not None:
        data.comparability.require()
    text = document(build_report(data, title, by_documents=by_documents), output.suffix.lower())
    try:
        with whole_file(output) as stream:
            stream.write(text)
    except OSError as error:
        raise UserError(f"'{output}' cannot be written ({error.strerror or error}); name another place.") from error


def check_output(output: Path) -> None:
    """Raises UserError unless a report may be written there: known by its suffix, no folder, no session."""
    if output.suffix.lower() not in SUFFIXES:
        raise UserError(
            f"A report is Markdown or HTML: name '{output}' with the ending {' or '.join(SUFFIXES)}.", exit_code=USAGE
        )
    if not output.absolute().parent.is_dir():
        raise UserError(f"There is no folder '{output.absolute().parent}' to write '{output.name}' to; make it first.")
    if output.is_dir():
        raise UserError(f"'{output}' is a folder; name a file.")
    refuse_session(output)


def read_source(path: Path) -> Source:
    """One session as sections want it. Raises UserError for anything else."""
    from evprof.session.opened import open_session

    session = open_session(path)
    runs = list(session.runs.values())
    environment = session.environment
    if environment and session.evprof_version:
        environment = {**environment, "evprof": session.evprof_version}
    return Source(path, runs, environment, session.facts)


def build_report(data: ReportData, title: str | None = None, *, by_documents: bool = False) -> Report:
    """All sections in reading order under a head, or the five documents and what stands in none of them."""
    listed = WITHOUT_RUNS if not data.columns else BESIDE_DOCUMENTS if by_documents else SECTIONS
    sections = tuple(section(data) for section in listed)
    if by_documents and data.columns:
        sections = (*document_sections(data), *sections)
    warning = data.comparability.sentence if data.comparability is not None else ""
    return Report(title or default_title(data), summary_of(data), facts_of(data), sections, warning)


def default_title(data: ReportData) -> str:
    """The suites' titles where all sessions are suites; otherwise the names of the sessions."""
    suites = [suite for source in data.sources if isinstance(suite := source.facts.get("suite"), dict)]
    if len(suites) == len(data.sources):
        return " and ".join(dict.fromkeys(str(suite.get("title") or suite.get("name")) for suite in suites))
    names = [source.path.stem for source in data.sources]
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def document(report: Report, suffix: str) -> str:
    """The report as text in the format that a file's suffix asks for."""
    return html(report) if suffix == ".html" else markdown(report)
