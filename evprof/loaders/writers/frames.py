"""Writes pictures as a folder of PNG files, named as `evprof inspect --save-frames` names them, with their times."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from evprof.core.errors import UserError
from evprof.core.files.whole_file import whole_folder
from evprof.loaders.pictures.png import encode_png
from evprof.loaders.pictures.render import Picture

TIMES = "times.txt"
"""One time in µs for each picture: what `--video-times` and a list's column video_times read."""

MOST_FRAMES = 1_000_000


def write_frames(folder: Path, pictures: Iterable[tuple[int, Picture]]) -> int:
    """Writes (time in µs, picture) as `frame_00.png` on, and `times.txt`; returns how many.

    The numbers have as many digits as the last one needs, two at least. A folder that is there is replaced, as a whole
    and only once all is written. Raises OSError, UserError without any picture, and whatever `pictures` raises.
    """
    times: list[int] = []
    with whole_folder(folder) as unfinished:
        for time_us, picture in pictures:
            (unfinished / _name(len(times), 7)).write_bytes(encode_png(picture))
            times.append(time_us)
            if len(times) > MOST_FRAMES:
                raise UserError(f"{folder}: would hold more than {MOST_FRAMES:,} pictures; write a part, or fewer.")
        if not times:
            raise UserError(f"{folder}: there are no pictures to write; choose another part.")
        digits = max(2, len(str(len(times) - 1)))
        for index in range(len(times)):
            (unfinished / _name(index, 7)).rename(unfinished / _name(index, digits))
        (unfinished / TIMES).write_text("".join(f"{time_us}\n" for time_us in times), encoding="ascii")
    return len(times)


def is_ours(folder: Path) -> bool:
    """Whether a folder holds nothing but what `write_frames` leaves, so that it may be replaced. Raises OSError."""
    return all(
        entry.is_file() and (entry.name == TIMES or (entry.name.startswith("frame_") and entry.suffix == ".png"))
        for entry in folder.iterdir()
    )


def _name(index: int, digits: int) -> str:
    return f"frame_{index:0{digits}d}.png"
