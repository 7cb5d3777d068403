"""Reads a folder of pictures as a video: PNG, JPEG, BMP, TIFF or WebP files in natural order.

Their times come from a text that is named or is among them, or from a fixed rate. Only the pictures that are read are
decoded.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from evprof.core.errors import UserError
from evprof.loaders.json_lines import decimal_of
from evprof.loaders.paths import opened_file, readable_file, reason
from evprof.loaders.pictures.frame_folder import frame_paths, is_frame_set, natural_key
from evprof.loaders.pictures.png import scaled_down
from evprof.loaders.pictures.render import Picture
from evprof.loaders.videos.frame_table import FrameTable
from evprof.loaders.videos.source import PILLOW, Choice, VideoFrames, VideoInfo, VideoSource, check_size

if TYPE_CHECKING:
    from PIL.Image import Image

MAX_BYTES = 64 << 20
MAX_PICTURES = 1_000_000

TIMES = ("timestamps.txt", "times.txt")
"""In a folder of pictures, the text with their times; `evprof convert` writes the second."""

RATE = 25
"""Pictures per second without a text of times."""

_LATEST_US = 2**61
_LATEST_UNIX_US = 10**17
"""The year 5138 in µs; the same number of ns is the year 1973."""

_LONGEST_GAP_US = 2_000_000
"""Whole numbers further apart than this are ns: cameras take pictures more often than every two seconds."""

_FORMATS = {
    **dict.fromkeys((".jpg", ".jpeg"), "JPEG"),
    **dict.fromkeys((".tif", ".tiff"), "TIFF"),
    ".png": "PNG",
    ".bmp": "BMP",
    ".webp": "WEBP",
}
_UNREADABLE = (OSError, ValueError, SyntaxError, EOFError, MemoryError, OverflowError)


def read_times_us(path: str | Path) -> npt.NDArray[np.int64]:
    """int64 [N], strictly increasing: µs for each line. Raises UserError naming the line that is none.

    One time a line: whole numbers are µs (DSEC's timestamps.txt), or ns if their size shows it; with a decimal point
    they are seconds. A second number is the end of an exposure that the first one starts (DSEC's
    exposure_timestamps.txt); the time is its middle, as in DSEC's own timestamps.txt. A file name may follow instead
    (`images.txt`, `rgb.txt`, `data.csv`). Commas and blanks separate. Lines that begin with `#`, and a first line of
    words, are skipped.
    """
    rows: list[tuple[int, list[Decimal]]] = []
    has_decimals = False
    for line_number, line in enumerate(_text(path).splitlines(), start=1):
        words = line.replace(",", " ").split()
        if not words or words[0].startswith(("#", "%")) or (not rows and words[0][0].isalpha()):
            continue
        rows.append((line_number, _numbers(path, line_number, words)))
        has_decimals = has_decimals or "." in words[0] or "e" in words[0].lower()
    if not rows:
        raise UserError(f"{path}: holds no times; it needs one in µs for each picture.")
    unit = Decimal(1_000_000) if has_decimals else _whole_unit(rows[0][1][0], rows[-1][1][0], len(rows))
    times: list[int] = []
    for line_number, numbers in rows:
        middle = sum(numbers) * unit / len(numbers)
        if not abs(middle) < _LATEST_US:
            raise UserError(f"{path}: line {line_number} is no time: no clock shows {middle / 1_000_000:.3g} s.")
        if times and round(middle) <= times[-1]:
            raise UserError(f"{path}: line {line_number} is not later than the line before; times must increase.")
        times.append(round(middle))
    return np.array(times, np.int64)


def _text(path: str | Path) -> str:
    found = readable_file(path)
    try:
        if found.stat().st_size > MAX_BYTES:
            raise UserError(f"{path}: is larger than {MAX_BYTES >> 20} MiB, too large for a list of times.")
        with opened_file(found) as file:
            return file.read().decode("utf-8-sig")
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: cannot be read as a list of times ({reason(error)}); give a text file.") from None


def _numbers(path: str | Path, line_number: int, words: list[str]) -> list[Decimal]:
    """The one or two numbers of a line. Decimal, because a float has no room for Unix time in µs."""
    found = [decimal_of(word) for word in words]
    numbers = [number for number in found if number is not None]
    is_name = len(words) == 2 and found[1] is None
    if found[0] is None or not (is_name or 1 <= len(words) == len(numbers) <= 2):
        shown = " ".join(words)[:40]
        raise UserError(f"{path}: line {line_number} is no time ({shown!r}); it needs one number of µs.")
    return numbers


def _whole_unit(first: Decimal, last: Decimal, count: int) -> Decimal:
    """The unit of whole numbers in µs; a list has one unit."""
    gap = (last - first) / max(1, count - 1)
    return Decimal("0.001") if abs(last) >= _LATEST_UNIX_US or gap > _LONGEST_GAP_US else Decimal(1)


class ImageFolder(VideoSource):
    """One folder or set of pictures, or a single one; `table.pts` are their times in µs as `times_path` has them.

    Without `times_path` a folder's own text of times (see TIMES) counts, if it has one for each picture.
    """

    decoder = PILLOW

    def __init__(self, path: str | Path, times_path: str | Path | None = None) -> None:
        self.path = str(path)
        self._times_path = times_path
        self._problems: tuple[str, ...] = ()
        self._paths = picture_paths(path)
        self._is_timed = False
        self._size: tuple[int, int] | None = None
        self._bytes_read = 0

    @property
    def bytes_read(self) -> int:
        return self._bytes_read

    @property
    def paths(self) -> list[Path]:
        return list(self._paths)

    def index(self) -> FrameTable:
        """Reads the times, if there is a file of them; it must hold as many as there are pictures."""
        count = len(self._paths)
        pts = self._own_times() if self._times_path is None else self._read_times(self._times_path)
        self._is_timed = pts is not None
        length = 1_000_000 // RATE
        if pts is None:
            pts = np.arange(count, dtype=np.int64) * length
        elif count > 1:
            length = int(np.median(np.diff(pts)))
        is_key = np.ones(count, dtype=np.bool_)
        self._table = FrameTable(pts, is_key, int(pts[-1]) + length, Fraction(1, 1_000_000))
        return self._table

    def _read_times(self, path: str | Path) -> npt.NDArray[np.int64]:
        pts = read_times_us(path)
        self._bytes_read += Path(path).stat().st_size
        if len(pts) != len(self._paths):
            raise UserError(
                f"{path}: holds {len(pts):,} times for the {len(self._paths):,} pictures of {self.path}; give the "
                "times that belong to them."
            )
        return pts

    def _own_times(self) -> npt.NDArray[np.int64] | None:
        """The times in the folder itself; None, and a problem, if there are none of its own."""
        own = next((place for name in TIMES if (place := Path(self.path) / name).is_file()), None)
        if own is None:
            said = f"Nothing says when the pictures of {self.path} were taken; {RATE} per second are assumed."
            self._problems = () if is_picture(self.path) else (said,)
            return None
        try:
            return self._read_times(own)
        except UserError as error:
            self._problems = (f"{error.sentence} Until then {RATE} pictures per second are assumed.",)
            return None

    def info(self) -> VideoInfo:
        if self._size is None:
            self._decode(0)
        table = self.table
        return VideoInfo(
            _FORMATS[self._paths[0].suffix.lower()].lower(),
            len(table),
            *(self._size or (0, 0)),
            table.duration_us / 1000,
            gop_frames=1,
            first_time_us=int(table.pts[0]) if self._is_timed else None,
            problems=self._problems,
        )

    def walk(self, index: int) -> Iterator[tuple[int, Picture]]:
        if not 0 <= index < len(self._paths):
            raise UserError(f"{self.path}: there is no frame {index} among {len(self._paths)}.")
        yield index, self._decode(index)

    def to_rgb(self, frame: Picture, *, longest_edge: int | None = None) -> Picture:
        from PIL.Image import Resampling

        return scaled_down(frame, longest_edge, Resampling.BILINEAR)

    def close(self) -> None:
        """Nothing is held open."""

    def _read(self, choose: Choice) -> VideoFrames:
        indices = choose(self.table)
        targets = sorted(set(indices))
        with self.parts.part("decode"):
            # The first picture gives the size of all, so that no other picture is read for it.
            pictures = {targets[0]: self._decode(targets[0])}
            height, width = pictures[targets[0]].shape[:2]
            self._check_amount(len(targets), width, height)
            pictures |= {index: self._decode(index) for index in targets[1:]}
        times_us = [self.table.time_us(index) for index in indices]
        return VideoFrames([pictures[index] for index in indices], indices, times_us, self.info(), self.decoder)

    def _decode(self, index: int) -> Picture:
        """Picture `index`; its size is checked before its pixels are."""
        from PIL import Image

        path = readable_file(self._paths[index])
        try:
            with opened_file(path) as file, Image.open(file, formats=[_FORMATS[path.suffix.lower()]]) as image:
                check_size(self.path, image.width, image.height)
                picture = _upright_rgb(path, image)
                self._bytes_read += file.seek(0, 2)
        except _UNREADABLE as error:
            raise UserError(
                f"{path}: cannot be read as a picture ({reason(error)}); copy or export it again."
            ) from None
        except (Image.DecompressionBombError, Image.DecompressionBombWarning):
            raise UserError(f"{path}: the picture is far too large to be a video frame; scale it down.") from None
        height, width = picture.shape[:2]
        self._size = self._size or (width, height)
        if self._size != (width, height):
            raise UserError(
                f"{path}: is {width} x {height} and other pictures of the folder are {self._size[0]} x "
                f"{self._size[1]}; a video has one size, so keep others elsewhere."
            )
        return picture


def is_picture(path: str | Path) -> bool:
    """Whether a path names a single picture that does not move, a video of one frame."""
    from PIL import Image

    kind = _FORMATS.get(Path(path).suffix.lower())
    if kind is None or not Path(path).is_file():
        return False
    try:
        with opened_file(path) as file, Image.open(file, formats=[kind]) as image:
            return not getattr(image, "is_animated", False)
    except (*_UNREADABLE, UserError):
        return False
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        return True


def picture_paths(path: str | Path) -> list[Path]:
    """The picture files of a folder or set in natural order, all of one kind. Raises UserError when there are none."""
    if is_frame_set(path):
        return frame_paths(path)
    if is_picture(path):
        return [Path(path)]
    try:
        paths = [
            entry
            for entry in Path(path).iterdir()
            if entry.suffix.lower() in _FORMATS and not entry.name.startswith(".") and entry.is_file()
        ]
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: cannot be listed ({reason(error)}); check the folder and its permissions.") from None
    kinds = sorted({_FORMATS[entry.suffix.lower()] for entry in paths})
    if not kinds:
        raise UserError(f"{path}: holds no pictures (PNG, JPEG, BMP, TIFF, WebP); give a folder of video frames.")
    if len(kinds) > 1:
        raise UserError(f"{path}: holds {' and '.join(kinds)} files; leave the pictures of one kind in it.")
    if len(paths) > MAX_PICTURES:
        raise UserError(f"{path}: holds {len(paths):,} pictures, more than the {MAX_PICTURES:,} allowed.")
    return sorted(paths, key=lambda entry: natural_key(entry.name))


def _upright_rgb(path: Path, image: Image) -> Picture:
    """uint8 [H, W, 3]: turned as EXIF says, 16 bits to their upper 8, transparency dropped as FFmpeg drops it."""
    from PIL import ImageOps

    if image.mode.startswith("I;16"):
        gray = (np.asarray(image, dtype=np.uint16) >> 8).astype(np.uint8)
        return np.repeat(gray[:, :, None], 3, axis=2)
    if image.mode in ("I", "F"):
        raise UserError(f"{path}: has {image.mode} pixels, whose white is unknown; export it with 8 or 16 bits.")
    return np.array(ImageOps.exif_transpose(image).convert("RGB"))
