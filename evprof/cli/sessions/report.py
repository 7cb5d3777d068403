"""`evprof report`."""

from __future__ import annotations

import argparse
import shlex
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from evprof.cli.command import Command, CommandExample
from evprof.cli.options import BASES, add_comparable_option, typed_words
from evprof.cli.terminal.console import Console

if TYPE_CHECKING:
    from evprof.export.report.data import Source


class ReportCommand(Command):
    """Write what runs say as Markdown or as one HTML file.

    Of one or more sessions: stages, shapes, statistics with intervals, scaling, theory beside measurement, texts,
    claims, failures, and how to make it again. Every figure says whether it is measured, derived, theoretical or
    imported. Warm-up, profiled and failed runs enter no figure. Over no finished run a report is refused and the errors
    are listed.
    """

    name = "report"
    examples = (
        CommandExample("evprof report scene.evprof -o report.html", "write a report as one HTML file"),
        CommandExample(
            'evprof report results/suite.evprof more.evprof -o report.md --title "Two suites"',
            "write one report of several sessions",
        ),
    )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "sessions",
            metavar="SESSION|FILE.json",
            nargs="+",
            help="sessions, or result files that evprof import reads (.json)",
        )
        parser.add_argument(
            "-o",
            "--output",
            metavar="FILE.md|FILE.html",
            type=Path,
            required=True,
            help="where to write: FILE.md or FILE.html",
        )
        parser.add_argument(
            "--title", metavar="TEXT", help="heading (default: the suite's title, or the sessions' names)"
        )
        parser.add_argument(
            "--basis", choices=BASES, help="what totals count (default: the widest that every configuration measured)"
        )

        parser.add_argument(
            "--documents",
            action="store_true",
            help="in the order of the five documents, item by item (docs/documents.md)",
        )
        add_comparable_option(parser)

    def run(self, options: argparse.Namespace, console: Console) -> int:
        from evprof.export.report.writing import check_output, write_report

        check_output(options.output)
        # Rows of an imported file are read while the report is made.
        with TemporaryDirectory(prefix="evprof-") as folder:
            sources = [
                _source(Path(path), Path(folder) / f"{number}.evprof") for number, path in enumerate(options.sessions)
            ]
            write_report(
                sources,
                options.output,
                title=options.title,
                command=command_of(options),
                basis=options.basis,
                by_documents=options.documents,
                require_comparable=options.require_comparable,
            )
        console.note(f"report saved: {options.output}")
        return 0


def _source(path: Path, place: Path) -> Source:
    """One session as read; a result file is imported into a session at `place`."""
    from evprof.export.report.writing import read_source

    if path.suffix.lower() != ".json":
        return read_source(path)
    from evprof.run.legacy_import import import_files

    import_files([path], place, is_passing=True)
    return replace(read_source(place), path=path)


def command_of(options: argparse.Namespace) -> str:
    return shlex.join(
        ["evprof", "report", *options.sessions, "-o", str(options.output), *typed_words(options, ("sessions",))]
    )
