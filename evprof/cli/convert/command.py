"""`evprof convert`: its options, and the recipe they mean."""

from __future__ import annotations

import argparse
import os
import re
from pathlib import Path

from evprof.cli.command import Command, CommandExample
from evprof.cli.options import add_json_option, add_list_options, add_part_options, add_ray_options
from evprof.cli.terminal.console import Console
from evprof.run.conversion.task import COMPRESSIONS, LAYOUTS, PRESETS, RAW_FORMATS, TARGETS


class ConvertCommand(Command):
    """Turn recordings and videos into other formats: one file, or every row of a list of samples.

    frames: PNG pictures, EventGPT's renderings of an event recording or the frames of a video. npy, npz, h5 (as DSEC),
    raw (Prophesee): event recordings; made from a video, they are simulated. mp4: a video with the key frames you want,
    of a video, a folder of pictures or an event recording.

    A list of samples becomes a folder with a manifest.csv of its own. After Ctrl-C, or worse, the same command goes on.
    """

    name = "convert"
    examples = (
        CommandExample("evprof convert scene.raw -o scene.h5", "turn a recording into another format"),
        CommandExample("evprof convert scene.npy -o pictures --frames 5", "draw the pictures that EventGPT sees"),
        CommandExample("evprof convert scene.mp4 -o scene.npy", "simulate events from a video"),
        CommandExample(
            "evprof convert dataset.csv -o converted --to npy --jobs 2", "convert every recording of a list"
        ),
    )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        _add_convert_options(parser)
        add_json_option(parser)

    def run(self, options: argparse.Namespace, console: Console) -> int:
        from evprof.cli.convert.converting import convert

        return convert(options, console)


def _add_convert_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("input", metavar="IN", help="a recording, a video, a folder, or a list of samples")
    parser.add_argument("-o", "--output", metavar="OUT", type=_place, required=True, help="file or folder to write")
    parser.add_argument("--to", choices=TARGETS, help="what to make (default: by the name of OUT; a folder is frames)")
    parser.add_argument("--overwrite", action="store_true", help="replace existing files; for a list, start over")
    _add_part(parser.add_argument_group("which part"))
    _add_list(parser.add_argument_group("of a list of samples, or a folder with events and video"))
    _add_events(parser.add_argument_group("event recordings"))
    _add_pictures(parser.add_argument_group("pictures"))
    _add_video(parser.add_argument_group("MP4"))
    _add_simulation(parser.add_argument_group("events from a video (simulated)"))


def _add_part(group: argparse._ArgumentGroup) -> None:
    add_part_options(group)
    group.add_argument(
        "--clip-ms", type=float, metavar="MS", help="a folder with events and video: cut into clips of MS ms"
    )


def _add_list(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--only", choices=("events", "video"), help="read only this half of every sample")
    add_list_options(group)
    group.add_argument("--jobs", type=int, metavar="N", default=1, help="files written at a time (default: 1)")
    add_ray_options(group, "convert on all processors", "CPU threads for each file (default: 1)")


def _add_events(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--layout", choices=LAYOUTS, help="npy: EventGPT's dict (default) or no pickle")
    group.add_argument("--compressed", action="store_true", default=None, help="npz: smaller and slower")
    group.add_argument("--compression", choices=COMPRESSIONS, help="h5: how (default: blosc-zstd, as DSEC)")
    group.add_argument("--raw-format", choices=RAW_FORMATS, help="raw: Prophesee's encoding (default: evt3)")
    group.add_argument(
        "--sort", action="store_true", default=None, help="into time order, which h5 and raw need (held in memory)"
    )


def _add_pictures(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--frames", type=int, metavar="N", help="how many (default: 5 of events, every one of a video)")
    group.add_argument("--every", type=int, metavar="N", help="a video: every Nth frame")
    group.add_argument(
        "--fps", type=_rate, metavar="FPS", help="frames per second of the result; fractions: 30000/1001"
    )
    group.add_argument("--window-ms", type=float, metavar="MS", help="events: a picture for every MS ms")
    group.add_argument("--window-events", type=int, metavar="N", help="events: a picture for every N events")
    group.add_argument(
        "--rendering",
        metavar="NAME",
        help="events: eventgpt (default), polarity, count, decay, time-surface",
    )
    group.add_argument("--canvas", type=_size, metavar="WxH", help="events: size of every picture")


def _add_video(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--gop", type=int, metavar="N", help="a key frame every N frames (default: 12)")
    group.add_argument("--b-frames", type=int, metavar="N", help="at most N in a row (default: 2)")
    group.add_argument("--crf", type=int, metavar="N", help="0 lossless to 51 worst (default: 20)")
    group.add_argument("--preset", choices=PRESETS, help="x264's effort (default: medium)")
    group.add_argument("--size", type=_size, metavar="WxH", help="scale the pictures (default: as they are)")


def _add_simulation(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--threshold", type=float, metavar="X", help="contrast of an event, log intensity (default: 0.2)"
    )
    group.add_argument("--threshold-off", type=float, metavar="X", help="the same for darker (default: as --threshold)")
    group.add_argument("--threshold-spread", type=float, metavar="X", help="its spread over pixels (default: 0.03)")
    group.add_argument("--refractory-us", type=int, metavar="US", help="a pixel's rest after an event (default: 0)")
    group.add_argument("--seed", type=int, metavar="N", help="seed of the spread (default: 0)")
    group.add_argument("--simulate-width", type=int, metavar="N", help="scale the video to N pixels (default: its own)")


def _place(text: str) -> Path:
    if not text.strip():
        raise argparse.ArgumentTypeError("it names no place")
    found = Path(text)
    # `.` and `..` have no name to write another beside.
    return found if found.name not in ("", "..") else Path(os.path.abspath(text))


def _size(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"([0-9]{1,5})[xX]([0-9]{1,5})", text)
    if found is None:
        raise argparse.ArgumentTypeError(f"'{text}' is no size; give one as 640x480")
    return int(found[1]), int(found[2])


def _rate(text: str) -> str:
    from fractions import Fraction

    try:
        rate = Fraction(text) if len(text) <= 20 and "e" not in text.lower() else None
    except (ValueError, ZeroDivisionError):
        rate = None
    if rate is None or rate <= 0:
        raise argparse.ArgumentTypeError(f"'{text}' is no rate; give one as 30, 29.97 or 30000/1001")
    return str(rate)
