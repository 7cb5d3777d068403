"""Options of several commands that say which samples are meant, and what they stand for."""

from __future__ import annotations

import argparse
from pathlib import Path

from evprof.core.errors import USAGE, UserError


def add_list_options(group: argparse._ActionsContainer) -> None:
    """Adds how a list of samples is read."""
    group.add_argument("--root", metavar="DIR", help="where the paths of the list start (default: its folder)")
    group.add_argument(
        "--questions", choices=("first", "all"), help="of an entry with several questions (default: first)"
    )
    group.add_argument("--limit", type=int, metavar="N", help="take the first N samples")


def add_part_options(group: argparse._ActionsContainer) -> None:
    """Adds which part of a recording is meant, and where its times and its rectification are."""
    group.add_argument(
        "--start-ms", type=float, metavar="MS", help="begin MS ms after the earliest event or first frame"
    )
    group.add_argument("--duration-ms", type=float, metavar="MS", help="take so many ms (default: to the end)")
    group.add_argument("--video-times", metavar="FILE", help="text with the time in µs of every picture of a folder")
    group.add_argument("--rectify", metavar="MAP.h5", help="DSEC rectification map for the events")


def option_of(name: str) -> str:
    """How a person types it: `--start-ms` of `start_ms`."""
    return f"--{name.replace('_', '-')}"


def us_of(options: argparse.Namespace, name: str) -> int | None:
    """An option in ms as µs. Raises UserError (exit code 2) for a number that is no time."""
    value: float | None = getattr(options, name)
    if value is None:
        return None
    if not abs(value) < 1e12:
        raise UserError(f"{option_of(name)} must be a time in ms, not {value}.", exit_code=USAGE)
    return round(value * 1000)


def check_least(options: argparse.Namespace, **least: int) -> None:
    """Raises UserError (exit code 2) for a count that was given and is less than the least that means anything."""
    for name, lowest in least.items():
        count = getattr(options, name)
        if count is not None and count < lowest:
            raise UserError(f"{option_of(name)} must be at least {lowest}, not {count}.", exit_code=USAGE)


def existing(path: str | None, option: str) -> str | None:
    """The absolute path. Raises UserError when nothing is there: better now than after models were loaded."""
    if path is None:
        return None
    from evprof.loaders.pictures.frame_folder import frame_paths, is_frame_set

    if is_frame_set(path):
        frame_paths(path)
    elif not Path(path).exists():
        from evprof.cli.preflight.places import nearest_path

        raise UserError(
            f"{option}: there is no file or folder '{path}'{nearest_path(Path(path)) or '; check the path.'}"
        )
    return str(Path(path).resolve())
