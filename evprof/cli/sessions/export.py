"""`evprof export`."""

from __future__ import annotations

import argparse
import re
from collections.abc import Container, Iterator, Sequence
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING

from evprof.cli.command import Command, CommandExample
from evprof.cli.terminal.console import HELP_WIDTH, Console
from evprof.core.errors import USAGE, UserError
from evprof.core.texts import guess_among
from evprof.export.formats import FORMATS

if TYPE_CHECKING:
    from evprof.core.run_info import RunInfo
    from evprof.export.report.data import Source


class ExportCommand(Command):
    """Write runs of one or more sessions in another format."""

    name = "export"
    examples = (
        CommandExample("evprof export scene.evprof --format chrome -o scene.json.gz", "write a trace for Perfetto"),
        CommandExample("evprof export scene.evprof --format csv -o runs.csv", "write one row per run"),
        CommandExample("evprof export scene.evprof --format parquet -o frames", "write every stream for data frames"),
        CommandExample(
            'evprof export results/suite.evprof --format json --cell "8 frames" -o runs.json',
            "write the runs of one configuration as JSON",
        ),
    )

    @classmethod
    def description(cls) -> str:
        listed = "\n".join(
            fill(f"{entry.key}: {entry.help}", HELP_WIDTH, subsequent_indent="  ") for entry in FORMATS.values()
        )
        return f"{super().description()}\n\n{listed}"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("sessions", metavar="S.evprof", nargs="+", help="sessions whose runs are written")
        parser.add_argument("--format", metavar="FORMAT", choices=FORMATS, required=True, help="one of those above")
        parser.add_argument("-o", "--output", metavar="PATH", type=Path, required=True, help="file or folder to write")
        parser.add_argument("--runs", metavar="LIST", type=run_numbers, help="only these runs of each session: 1,2,5-8")
        parser.add_argument(
            "--cell", metavar="NAME", action="append", help="only runs of this configuration (repeatable)"
        )

    def run(self, options: argparse.Namespace, console: Console) -> int:
        from evprof.export.files import check_name, write_export

        check_name(options.format, options.output)
        paths = list(dict.fromkeys(Path(path).absolute() for path in options.sessions))
        named = {Path(path).absolute(): Path(path) for path in options.sessions}
        listed = [named[path] for path in paths]
        sources = _sources(listed, options.runs, options.cell)
        for path in write_export(sources, options.format, options.output, many=len(listed) > 1, tell=console.note):
            console.note(f"saved {path}")
        return 0


def run_numbers(text: str) -> dict[int, None]:
    """`1,2,5-8` as numbers, each once and in this order."""
    found: dict[int, None] = {}
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,9})(?:-(\d{1,9}))?\s*", part)
        if match is None:
            raise argparse.ArgumentTypeError(f"'{part}' is no run number; give numbers such as 1,2,5-8")
        first = int(match[1])
        last = int(match[2] or first)
        if last < first or last - first > 1_000_000:
            raise argparse.ArgumentTypeError(f"'{part.strip()}' is no range of run numbers; give one such as 5-8")
        found |= dict.fromkeys(range(first, last + 1))
    return found


def _sources(paths: Sequence[Path], numbers: Container[int] | None, cells: Sequence[str] | None) -> Iterator[Source]:
    """Each session with the chosen runs. Raises UserError, once all are read, when something chosen is nowhere."""
    from evprof.export.report.data import Source
    from evprof.session.opened import open_session

    known: list[RunInfo] = []
    for path in paths:
        session = open_session(path)
        known += [run.info for run in session.runs.values()]
        runs = [run for run in session.runs.values() if _is_chosen(run.info, numbers, cells)]
        yield Source(path, runs, session.environment, session.facts)
    missing_cells = [cell for cell in cells or () if not any(info.cell == cell for info in known)]
    if missing_cells:
        guess = guess_among(missing_cells[0], (info.cell for info in known if info.cell))
        raise UserError(f"--cell: there is no configuration '{missing_cells[0]}'{guess}", exit_code=USAGE)
    if not any(_is_chosen(info, numbers, cells) for info in known) and (numbers or cells):
        raise UserError("--runs: none of these runs is in what was given; `evprof show` lists them.", exit_code=USAGE)


def _is_chosen(info: RunInfo, numbers: Container[int] | None, cells: Sequence[str] | None) -> bool:
    return (numbers is None or info.run_id in numbers) and (cells is None or info.cell in cells)
