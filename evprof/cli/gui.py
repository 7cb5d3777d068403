"""`evprof gui`."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from evprof.cli.command import Command
from evprof.cli.terminal.console import Console
from evprof.core.errors import USAGE, UserError

DEFAULT_SIZE = (1600, 1000)
LONGEST_EDGE_PX = 16_384


class GuiCommand(Command):
    """Open the window (also what `evprof` alone does).

    PATH is an event recording, a video, a folder with both, a list of samples, a saved session, or a result file of
    earlier scripts, which is imported. With --screenshot the window is drawn once without a display, saved as PNG, and
    the program ends.
    """

    name = "gui"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Paths, and how a screenshot is drawn."""
        parser.add_argument(
            "paths", metavar="PATH", nargs="*", help="events, video, list of samples, .evprof or results"
        )
        parser.add_argument("--screenshot", metavar="OUT.png", type=Path, help="draw the window once, save it, end")
        parser.add_argument("--size", metavar="WxH", type=_size, help="size of the window (default: 1600x1000)")
        parser.add_argument("--theme", choices=("light", "dark"), help="default: what was chosen last")
        parser.add_argument("--scale", type=float, metavar="N", help="pixels per point of the screenshot (default: 1)")

    def run(self, options: argparse.Namespace, console: Console) -> int:
        """Starts the window, or draws it once."""
        for path in options.paths:
            if not Path(path).exists():
                raise UserError(f"There is no file or folder '{path}'; check the path.")
        if options.screenshot is None:
            if options.scale is not None:
                raise UserError("--scale belongs to --screenshot OUT.png.", exit_code=USAGE)
            return open_window([str(Path(path).resolve()) for path in options.paths], options)
        return _draw(options, console)


def open_window(paths: list[str], options: argparse.Namespace, *, demo: bool = False) -> int:
    """Shows the window until it is closed; with `demo` it runs the bundled demo at once."""
    from evprof.cli.terminal.crash import write_report
    from evprof.cli.terminal.display import missing_display
    from evprof.cli.terminal.program import engine_argv, program_argv

    reason = missing_display()
    if reason:
        raise UserError(f"The window cannot open: {reason} Try evprof demo --headless, or gui --screenshot OUT.png.")
    from ui.window.app import run_window

    return run_window(
        paths,
        engine_argv=engine_argv(),
        examine_argv=program_argv("_examine", "model"),
        theme=getattr(options, "theme", None),
        size=getattr(options, "size", None),
        demo=demo,
        report=write_report,
    )


def _draw(options: argparse.Namespace, console: Console) -> int:
    size, scale = options.size or DEFAULT_SIZE, 1.0 if options.scale is None else options.scale
    if not 0.25 <= scale <= 8 or max(size) * scale > LONGEST_EDGE_PX:
        raise UserError(
            f"A picture of {size[0]}x{size[1]} at --scale {scale:g} cannot be drawn: the scale may lie between 0.25 "
            f"and 8, and no edge may pass {LONGEST_EDGE_PX} pixels.",
            exit_code=USAGE,
        )
    if not options.screenshot.resolve().parent.is_dir():
        raise UserError(f"--screenshot: there is no folder '{options.screenshot.resolve().parent}'; make it first.")
    from ui.window.app import save_screenshot

    save_screenshot(
        [str(Path(path).resolve()) for path in options.paths],
        options.screenshot,
        size=size,
        theme=options.theme or "dark",
        scale=scale,
    )
    console.note(f"saved {options.screenshot}")
    return 0


def _size(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d{2,5})[xX×](\d{2,5})", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"'{text}' is no size such as 1600x1000")
    return int(match[1]), int(match[2])
