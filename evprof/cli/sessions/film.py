"""`evprof film`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from evprof.cli.command import Command
from evprof.cli.parser import CommandExample
from evprof.cli.sessions.export import run_numbers
from evprof.cli.terminal.console import Console
from evprof.cli.terminal.progress import Progress
from evprof.core.errors import USAGE, UserError
from evprof.core.units import count_text

if TYPE_CHECKING:
    from evprof.core.run_info import RunInfo


class FilmProgress(Progress):
    """Counts pictures."""

    kept = "nothing"


class FilmCommand(Command):
    """Write a run, or two side by side, as a film.

    Events, video, stages and words on one clock: the scene and the runs begin together, and every picture shows both as
    they were so long after. Slowed down so that it can be followed, as it says. Name it .mp4 or .gif.
    """

    name = "film"
    examples = (
        CommandExample("evprof film scene.evprof -o scene.mp4", "film the last run, with the one beside it"),
        CommandExample("evprof film scene.evprof --runs 2,5 --seconds 20 -o two.gif", "film runs 2 and 5 for 20 s"),
    )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Session, runs, length and place."""
        parser.add_argument("session", metavar="S.evprof", help="session whose runs are filmed")
        parser.add_argument(
            "-o",
            "--output",
            metavar="FILE.mp4|FILE.gif",
            type=Path,
            required=True,
            help="film to write: FILE.mp4 or FILE.gif",
        )
        parser.add_argument("--runs", metavar="LIST", type=run_numbers, help="one run or two (default: the last)")
        parser.add_argument(
            "--seconds",
            metavar="SECONDS",
            type=float,
            default=10.0,
            help="how long the film lasts, 1 to 60 (default 10)",
        )

    def run(self, options: argparse.Namespace, console: Console) -> int:
        """Draws and writes picture after picture."""
        from evprof.export.film.film import check_film_name, film_columns, write_film
        from evprof.export.stored_runs import stored_source

        check_film_name(options.output)
        _, stored = stored_source(Path(options.session))
        pair = _pair(stored.infos, list(options.runs or ()))
        stored.keep([info for info in stored.infos if info.run_id in pair])
        columns = film_columns({run.run_id: run for run in stored}, pair)
        with FilmProgress(console, options.output.name, "pictures") as progress, progress.until_stopped() as stop:
            begun = False

            def reached(done: int, count: int) -> None:
                nonlocal begun
                if not begun:
                    begun = True
                    progress.start(count)
                progress.reach(done)

            count = write_film(columns, options.output, seconds=options.seconds, reached=reached, stop=stop)
        console.note(f"saved {options.output} ({count_text(count, 'picture')})")
        return 0


def _pair(infos: Sequence[RunInfo], chosen: Sequence[int]) -> tuple[int | None, int | None]:
    """The runs of both columns. Raises UserError (exit code 2) for runs that are not there, and for more than two."""
    from evprof.core.run_log import RunLog
    from evprof.view.columns import pair_for

    known = {info.run_id: RunLog(info) for info in infos}
    missing = [number for number in chosen if number not in known]
    if missing:
        raise UserError(
            f"--runs: there is no run {missing[0]} in this session; `evprof show` lists what there is.",
            exit_code=USAGE,
        )
    if not known:
        raise UserError("The session holds no runs, so there is nothing to film.")
    if len(chosen) > 2:
        raise UserError(f"--runs: a film shows one run or two, not {len(chosen)}.", exit_code=USAGE)
    return (chosen[0], chosen[1]) if len(chosen) == 2 else pair_for(known, chosen[0] if chosen else max(known))
