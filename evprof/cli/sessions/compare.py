"""`evprof compare`."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from evprof.cli.command import Command, CommandExample
from evprof.cli.options import BASES, add_comparable_option, add_json_option
from evprof.cli.terminal.console import Console
from evprof.core.errors import USAGE, UserError
from evprof.core.texts import guess_among

if TYPE_CHECKING:
    from evprof.core.run_log import RunLog
    from evprof.metrics.comparison.document import Configuration

MOST_NAMED, MOST_SHOWN = 10, 200
"""Runs that a sentence lists by number, and letters of a name in it."""


class CompareCommand(Command):
    """Compare runs of one or more sessions.

    Repeats of one request are one column (median), and so are all samples and repeats of a suite's configuration (mean
    over samples, ratios in pairs of samples that both measured). Warm-up, profiled, failed and cancelled runs are left
    out. Totals count on a basis: end-to-end (the wall), without-load (reading the files left out), or model-only
    (vision, prefill, decode). The generation ratio is the token-count ratio times the time-per-token ratio.
    """

    name = "compare"
    examples = (
        CommandExample("evprof compare scene.evprof", "compare the runs of a session"),
        CommandExample(
            "evprof compare eager.evprof compiled.evprof --basis model-only",
            "compare two sessions, without reading the files",
        ),
        CommandExample(
            'evprof compare results/suite.evprof --baseline "8 frames" -o comparison.csv',
            "compare with one configuration and write a table",
        ),
    )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("sessions", metavar="S.evprof", nargs="+", help="sessions whose runs are compared")
        parser.add_argument(
            "--baseline",
            metavar="RUN",
            help="run id of the first session, or the name of a suite's configuration (default: the first)",
        )
        parser.add_argument("--basis", choices=BASES, help=f"what totals count (default: {BASES[0]})")
        parser.add_argument(
            "--differences-only", action="store_true", help="leave out figures and settings that do not differ"
        )
        parser.add_argument(
            "-o",
            "--output",
            metavar="FILE.csv|FILE.json",
            type=Path,
            help="also write it as a table or document: FILE.csv or FILE.json",
        )
        add_comparable_option(parser)
        add_json_option(parser)

    def run(self, options: argparse.Namespace, console: Console) -> int:
        from evprof.cli.sessions.comparison_text import print_comparison
        from evprof.export.comparison_tables import check_comparison_path, write_comparison
        from evprof.metrics.comparison.document import comparability, compare_document

        if options.output is not None:
            check_comparison_path(options.output)
        _refuse_runs(options.sessions)
        listed = [column for path in options.sessions for column in _columns(path, console)]
        _check_count(listed, options.sessions)
        baseline, basis = _baseline(listed, options.baseline), options.basis or BASES[0]
        if options.require_comparable:
            comparability(listed, listed.index(baseline)).require()
        document = compare_document(listed, baseline, basis, differences_only=options.differences_only)
        if options.output is not None:
            write_comparison(document, options.output)
            console.note(f"comparison written: {options.output}")
        if console.is_json:
            console.document(document)
        else:
            print_comparison(document, console)
        return 0


def _refuse_runs(sessions: Sequence[str]) -> None:
    """Numbers of runs are no files: what is meant by them has options of its own."""
    for name in sessions[1:]:
        if name.isdecimal() and not Path(name).exists():
            raise UserError(
                f"{name} is no session: all runs of {sessions[0]} are compared; --baseline {name} compares them with "
                f"run {name}.",
                exit_code=USAGE,
            )


def _columns(path: str, console: Console) -> list[Configuration]:
    from evprof.core.run_info import RUNNING
    from evprof.metrics.comparison.document import configurations_of
    from evprof.session.opened import open_session

    runs = list(open_session(Path(path)).runs.values())
    _tell_left_out(path, runs, console)
    return configurations_of([run for run in runs if run.info.status != RUNNING], path)


def _tell_left_out(path: str, runs: Sequence[RunLog], console: Console) -> None:
    from evprof.core.run_info import CANCELLED, FAILED, RUNNING
    from evprof.metrics.comparison.document import configurations_of, failed_only, is_comparable
    from evprof.metrics.configurations.gathering import last_attempts

    kept = last_attempts(runs)
    unfinished = [run for run in kept if run.info.status in (RUNNING, FAILED, CANCELLED) and not run.info.warmup]
    if unfinished:
        console.warn(f"{path}: left out because they did not finish: run {_numbers(run.run_id for run in unfinished)}")
    for cell in dict.fromkeys(run.info.cell for run in failed_only(runs) if run.info.cell):
        console.warn(f"{path}: no run of '{cell[:MOST_SHOWN]}' finished")
    warmups = sum(run.info.warmup for run in kept)
    again = len(runs) - len(kept)
    profiled = sum(run.info.profiled and not run.info.warmup for run in kept)
    cold_ones = {run.run_id for run in kept if run.info.is_cold and is_comparable(run)}
    taken = {run.run_id for column in configurations_of(kept) for run in column.runs} if cold_ones else set()
    cold = len(cold_ones - taken)
    for count, what in ((warmups, "warm-up"), (cold, "cold"), (profiled, "profiled"), (again, "begun again later")):
        if count:
            console.note(f"{path}: left out: {count} run{'s' if count > 1 else ''} ({what})")


def _numbers(run_ids: Iterable[int]) -> str:
    listed = [str(run_id) for run_id in run_ids]
    more = f" and {len(listed) - MOST_NAMED} more" if len(listed) > MOST_NAMED else ""
    return ", ".join(listed[:MOST_NAMED]) + more


def _check_count(listed: Sequence[Configuration], sessions: Sequence[str]) -> None:
    if len(listed) < 2:
        raise UserError(
            f"A comparison needs two finished runs that are neither warm-up nor profiled, or two configurations; "
            f"{', '.join(sessions)} {'holds' if len(sessions) == 1 else 'hold'} {len(listed)}."
        )


def _baseline(listed: Sequence[Configuration], asked: str | None) -> Configuration:
    """The column of that run, looked for in the order of the sessions, or else of that name."""
    if asked is None:
        return listed[0]
    number = int(asked) if asked.isascii() and asked.isdecimal() else None
    for column in listed:
        if any(run.run_id == number for run in column.runs):
            return column
    for column in listed:
        if asked in (column.cell, column.label):
            return column
    known = [column.cell or str(run.run_id) for column in listed for run in column.runs[:99]]
    raise UserError(
        f"--baseline: no run or configuration '{asked}' takes part in this comparison{guess_among(asked, known)}",
        exit_code=USAGE,
    )
