"""`evprof compare`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from evprof.cli.command import Command, add_json_option
from evprof.cli.console import Console
from evprof.core.errors import USAGE, UserError

if TYPE_CHECKING:
    from evprof.metrics.comparison import Column

BASES = ("end-to-end", "without-load", "model-only")


class Compare(Command):
    """Compare runs of one or more sessions.

    Repeats of one request are one column. Warm-up, profiled, failed and cancelled runs are left out. Totals count on
    a basis: end-to-end (the wall), without-load (reading the files left out), or model-only (vision, prefill, decode).
    The generation ratio is the token-count ratio times the time-per-token ratio.
    """

    name = "compare"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Sessions, baseline and basis."""
        parser.add_argument("sessions", metavar="S.evprof", nargs="+")
        parser.add_argument(
            "--baseline", metavar="RUN", type=int, help="run id of the first session (default: the first run)"
        )
        parser.add_argument("--basis", choices=BASES, default=BASES[0], help="what totals count (default: %(default)s)")
        add_json_option(parser)

    def run(self, options: argparse.Namespace, console: Console) -> int:
        """Reads, compares and prints."""
        from evprof.cli.run_text import print_rows
        from evprof.metrics.comparison import compare_document, comparison_rows

        listed = _columns(options.sessions, console)
        baseline = _baseline(listed, options.baseline)
        document = compare_document(listed, baseline, options.basis)
        if console.is_json:
            console.document(document)
            return 0
        index = listed.index(baseline)
        labels = [
            f"#{column.run_id}" if len(options.sessions) == 1 else _letter(place) for place, column in enumerate(listed)
        ]
        for label, column in zip(labels, listed, strict=True):
            where = f" in {Path(column.session).name}" if len(options.sessions) > 1 else ""
            repeats = f" ({len(column.runs)} repeats)" if len(column.runs) > 1 else ""
            mark = ", the baseline" if column is baseline else ""
            console.print(f"{label}: run {column.label}{where}{repeats}{mark}")
        console.print()
        print_rows(comparison_rows(listed, index, options.basis), labels, index, console)
        _print_pair(document, console)
        return 0


def _columns(sessions: list[str], console: Console) -> list[Column]:
    from evprof.cli.recorded_session import read_runs
    from evprof.core.run_info import FINISHED
    from evprof.metrics.comparison import columns

    listed: list[Column] = []
    for path in sessions:
        runs = read_runs(path)
        left_out = [str(run.run_id) for run in runs if run.info.status != FINISHED]
        if left_out:
            console.note(f"{path}: left out because they did not finish: run {', '.join(left_out)}")
        listed += columns([run for run in runs if run.info.status == FINISHED], path)
    if len(listed) < 2:
        raise UserError(
            f"A comparison needs two finished runs that are neither warm-up nor profiled; "
            f"{', '.join(sessions)} {'holds' if len(sessions) == 1 else 'hold'} {len(listed)}."
        )
    return listed


def _baseline(listed: list[Column], run_id: int | None) -> Column:
    if run_id is None:
        return listed[0]
    for column in listed:
        if any(run.run_id == run_id for run in column.runs):
            return column
    known = ", ".join(str(run.run_id) for column in listed for run in column.runs)
    raise UserError(f"--baseline: no run {run_id} takes part in this comparison; there are {known}.", exit_code=USAGE)


def _letter(place: int) -> str:
    return chr(ord("A") + place) if place < 26 else f"column {place + 1}"


def _print_pair(document: dict[str, object], console: Console) -> None:
    """What is said of the baseline and the first other column only."""
    from evprof.core.units import ms_text

    parts = document["contributions"]
    if isinstance(parts, list) and parts:
        console.print()
        console.print("where the difference comes from:")
        for part in sorted(parts, key=lambda entry: -abs(entry["delta_ms"])):
            share = "" if part["share"] is None else f"{part['share']:>8.0%}"
            sign = "+" if part["delta_ms"] >= 0 else "-"
            console.print(f"  {part['stage']:<14}{sign + ms_text(abs(part['delta_ms'])):>10}{share}")
    found = document["generation"]
    if isinstance(found, dict) and found["product"] is not None:
        console.print(
            f"generation: {found['token_count_ratio']:.2f}x tokens · "
            f"{found['time_per_token_ratio']:.2f}x time per token = {found['product']:.2f}x"
        )
    match = document["token_match"]
    if isinstance(match, dict) and match["rate"] is not None:
        console.print(
            f"same token at the same position: {match['matched']} of {match['compared']} ({match['rate']:.0%})"
        )
