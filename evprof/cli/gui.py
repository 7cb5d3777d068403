"""`evprof gui`."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from evprof.cli.command import Command, CommandExample
from evprof.cli.terminal.console import Console
from evprof.core.errors import UsageError, UserError

DEFAULT_SIZE = (1600, 1000)
LONGEST_EDGE_PX = 16_384


class GuiCommand(Command):
    """Open the window (also what `evprof` alone does).

    PATH is an event recording, a video, a folder with both, a list of samples, a saved session, or a result file of
    another program, which is imported. With --screenshot the window is drawn once without a display, saved as PNG, and
    the program ends.
    """

    name = "gui"
    examples = (
        CommandExample("evprof gui scene.evprof", "open a session"),
        CommandExample("evprof gui scene.npy scene.mp4", "open a recording and its video"),
        CommandExample("evprof gui scene.evprof --screenshot window.png --theme light", "save a picture of the window"),
    )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "paths", metavar="PATH", nargs="*", help="events, video, list of samples, .evprof or results"
        )
        parser.add_argument("--screenshot", metavar="OUT.png", type=Path, help="save a picture of the window and exit")
        parser.add_argument("--size", metavar="WxH", type=_size, help="size of the window (default: 1600x1000)")
        parser.add_argument("--theme", choices=("light", "dark"), help="default: the last one chosen")
        parser.add_argument("--scale", type=float, metavar="X", help="pixels per point of the screenshot (default: 1)")

    def run(self, options: argparse.Namespace, console: Console) -> int:
        for path in options.paths:
            if not Path(path).exists():
                from evprof.cli.preflight import nearest_path

                guess = nearest_path(Path(path)) or "; check the path."
                raise UserError(f"There is no file or folder '{path}'{guess}")
        if options.screenshot is None:
            if options.scale is not None:
                raise UsageError("--scale belongs to --screenshot OUT.png.")
            return open_window([str(Path(path).resolve()) for path in options.paths], options)
        return _draw(options, console)


def open_window(paths: list[str], options: argparse.Namespace, *, demo: bool = False) -> int:
    from evprof.cli.terminal import program
    from evprof.cli.terminal.crash import write_report
    from evprof.cli.work_forms import works

    if reason := program.missing_display():
        raise UserError(f"The window cannot open: {reason} Run without one: evprof demo --headless.")
    program.leave_to_window_program()
    with program.loading_window():
        from ui.window.app import run_window

        return run_window(
            paths,
            engine_argv=program.engine_argv(),
            theme=getattr(options, "theme", None),
            size=getattr(options, "size", None),
            demo=demo,
            report=write_report,
            works=works(options.whole_parser),
            before_files=_keep_videos_apart,
        )


def _keep_videos_apart() -> None:
    from evprof.cli.terminal.program import program_argv
    from evprof.loaders.videos.apart import keep_apart

    keep_apart(program_argv("_video"), soon=True)


def _draw(options: argparse.Namespace, console: Console) -> int:
    size, scale = options.size or DEFAULT_SIZE, 1.0 if options.scale is None else options.scale
    if not 0.25 <= scale <= 8 or max(size) * scale > LONGEST_EDGE_PX:
        raise UsageError(
            f"A picture of {size[0]}x{size[1]} at --scale {scale:g} cannot be drawn: the scale may lie between 0.25 "
            f"and 8, and no edge may pass {LONGEST_EDGE_PX} pixels."
        )
    if not options.screenshot.resolve().parent.is_dir():
        raise UserError(f"--screenshot: there is no folder '{options.screenshot.resolve().parent}'; make it first.")
    for path in options.paths:
        if options.screenshot.exists() and Path(path).exists() and options.screenshot.samefile(path):
            raise UserError(f"--screenshot: '{options.screenshot}' is what is to be shown; name another file.")
    from evprof.cli.terminal.program import leave_to_window_program, program_argv
    from evprof.core.files.whole_file import refuse_session
    from evprof.loaders.videos.apart import keep_apart

    refuse_session(options.screenshot)
    leave_to_window_program()
    from ui.window.app import save_screenshot

    keep_apart(program_argv("_video"))
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
