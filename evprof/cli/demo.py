"""`evprof demo`."""

from __future__ import annotations

import argparse
import os
import subprocess
from pathlib import Path

from evprof.cli.command import Command, add_json_option
from evprof.cli.parser import CommandExample
from evprof.cli.terminal.console import Console

PICTURE_TIMEOUT_S = 120


class DemoCommand(Command):
    """Run the bundled pair on the bundled sample.

    First side by side, then with speculative decoding: three runs, after a warm-up of each model. With a display this
    happens in the window; without one it says so, runs headless, and saves the session and a picture of the window.
    """

    name = "demo"
    examples = (
        CommandExample("evprof demo", "watch the bundled models in the window"),
        CommandExample("evprof demo --headless", "the same three runs without a window"),
        CommandExample(
            "evprof demo --headless -o demo.evprof --json", "keep the session and print its figures as JSON"
        ),
    )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Where and whether."""
        parser.add_argument("--headless", action="store_true", help="run without a window, even where one could open")
        parser.add_argument(
            "-o",
            "--output",
            metavar="S.evprof",
            type=Path,
            help="session to write or to append to, without the window (default: a new one in the user's data folder)",
        )
        add_json_option(parser)

    def run(self, options: argparse.Namespace, console: Console) -> int:
        """The window with the demo running, or the demo without it."""
        from evprof.cli.terminal.display import missing_display

        reason = missing_display()
        if not (options.headless or options.json or reason or options.output):
            from evprof.cli.gui import open_window

            return open_window([], options, demo=True)
        if not reason and options.output and not options.headless:
            console.note("Running without the window, because -o names the session; leave it out to watch.")
        if reason and not options.headless:
            console.note(f"Running without the window: {reason}")
        return run_headless(options, console, with_picture=bool(reason) and not options.headless)


def run_headless(options: argparse.Namespace, console: Console, *, with_picture: bool) -> int:
    """Three runs, saved and printed; the exit code follows their status."""
    from evprof.cli.run.recorded_session import (
        RecordedSession,
        conclude,
        default_session_path,
        exit_code,
        reserved_place,
    )
    from evprof.run.demo import demo_requests

    path = options.output or default_session_path()
    with reserved_place(path), RecordedSession(path, console) as session:
        for request in demo_requests():
            if exit_code(session.run(request)):
                break
    code = conclude(session, console)
    if with_picture and session.problem is None:
        picture = path.with_suffix(".png")
        if draw(path, picture, console):
            console.note(f"picture of the window saved: {picture}")
    return code


def draw(session: Path, picture: Path, console: Console) -> bool:
    """Draws the window showing `session` into `picture`, in a process of its own: Qt must not meet torch here."""
    from evprof.cli.terminal.program import program_argv

    environment = {**os.environ, "QT_QPA_PLATFORM": "offscreen"}
    argv = program_argv("gui", str(session), "--screenshot", str(picture))
    try:
        done = subprocess.run(
            argv, capture_output=True, text=True, env=environment, timeout=PICTURE_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        console.warn(f"warning: the window could not be drawn: {error}")
        return False
    if done.returncode:
        console.warn(f"warning: the window could not be drawn: {done.stderr.strip()}")
    return done.returncode == 0 and picture.exists()
