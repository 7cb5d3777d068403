"""`evprof demo`."""

from __future__ import annotations

import argparse
import filecmp
import shutil
from pathlib import Path

from evprof.cli.command import Command, CommandExample
from evprof.cli.options import add_json_option, add_session_option
from evprof.cli.terminal.console import Console
from evprof.core.errors import UsageError, UserError


class DemoCommand(Command):
    """Run the bundled models on the bundled sample, and say whether speculation pays.

    Side by side, and with speculative decoding and the bundled EAGLE head, in five turns after warm-ups. With a display
    this happens in the window. Without one the command says so, runs headless and saves the session.
    """

    name = "demo"
    examples = (
        CommandExample("evprof demo", "watch the bundled models in the window"),
        CommandExample("evprof demo --headless", "the same runs without a window"),
        CommandExample("evprof demo --copy-scene .", "get the recording and the video to try other commands on"),
        CommandExample(
            "evprof demo --headless -o demo.evprof --json", "keep the session and print its figures as JSON"
        ),
    )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--headless", action="store_true", help="run without a window, even where one could open")
        add_session_option(parser, ", without the window")
        parser.add_argument("-v", "--verbose", action="store_true", help="print every run with all of its figures")
        parser.add_argument(
            "--copy-scene",
            metavar="DIR",
            type=Path,
            help="run nothing; copy the bundled sample to DIR as scene.npy and scene.mp4",
        )
        add_json_option(parser)

    def run(self, options: argparse.Namespace, console: Console) -> int:
        """The window with the demo running, or the demo without it, or the files of its sample."""
        from evprof.cli.terminal.program import missing_display

        if options.copy_scene is not None:
            if options.json or options.headless or options.output:
                raise UsageError("--copy-scene runs nothing; leave the other options out.")
            copy_scene(options.copy_scene, console)
            return 0
        reason = missing_display()
        if not (options.headless or options.json or reason or options.output):
            from evprof.cli.gui import open_window

            return open_window([], options, demo=True)
        if not reason and options.output and not options.headless:
            console.note("Running without the window, because -o names the session; leave it out to watch.")
        if reason and not options.headless:
            console.note(f"Running without the window: {reason}")
        return run_headless(options, console)


def copy_scene(folder: Path, console: Console) -> None:
    """Copies the recording and the video of the demo's sample. Raises UserError where another file has the name."""
    from evprof.loaders.bundled import bundled_sample

    sample = bundled_sample()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for source, name in ((sample.events_path, "scene.npy"), (sample.video_path, "scene.mp4")):
            copy = folder / name
            if copy.exists() and not filecmp.cmp(str(source), copy, shallow=False):
                raise UserError(f"--copy-scene: '{copy}' is there already and another file; name another folder.")
            shutil.copyfile(str(source), copy)
            console.note(f"saved: {copy}")
    except OSError as error:
        raise UserError(f"--copy-scene: '{folder}' cannot be written to ({error.strerror or error}).") from None


def run_headless(options: argparse.Namespace, console: Console) -> int:
    """All runs, saved and printed; the exit code follows their status."""
    from evprof.cli.run.recorded_session import RecordedSession, conclude, default_session_path, reserved_place
    from evprof.cli.run.text import print_turns
    from evprof.run.requests import demo_requests

    path = options.output or default_session_path()
    console.is_brief = not options.verbose
    with reserved_place(path), RecordedSession(path, console) as session:
        session.run(*demo_requests())
    code = conclude(session, console, tell=None if options.verbose else print_turns)
    if session.problem is None:
        console.note(f"picture of it: evprof gui {path} --screenshot demo.png")
    return code
