"""Reads the text that says when each picture of a folder was taken, in the layouts cameras and datasets use."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import numpy as np
import numpy.typing as npt

from evprof.core.errors import UserError
from evprof.loaders.decimals import decimal_of
from evprof.loaders.paths import opened_file, readable_file, reason

MAX_BYTES = 64 << 20

_MICROSECONDS, _NANOSECONDS, _SECONDS = Decimal(1), Decimal("0.001"), Decimal(1_000_000)
"""One unit of each in µs."""

_LATEST_US = 2**61
_LATEST_UNIX_US = 10**17
"""The year 5138 in µs; the same number of ns is the year 1973."""

_LONGEST_GAP_US = 2_000_000
"""Whole numbers further apart than this are ns: cameras take pictures more often than every two seconds."""


def read_times_us(path: str | Path) -> npt.NDArray[np.int64]:
    """int64 [N], strictly increasing: µs for each line. Raises UserError naming the line that is none.

    One time a line: whole numbers are µs (DSEC's timestamps.txt), or ns where their size tells; with a decimal point
    they are seconds. A second number is the end of an exposure that the first one starts (DSEC's
    exposure_timestamps.txt): its middle counts, which is what DSEC's own timestamps.txt holds. A file name may follow
    instead (`images.txt`, `rgb.txt`, `data.csv`). Commas and blanks separate. Lines that begin with `#`, and a first
    line of words, are passed over.
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
    unit = _SECONDS if has_decimals else _whole_unit([numbers[0] for _, numbers in rows])
    middles = [sum(numbers) * unit / len(numbers) for _, numbers in rows]
    for (line_number, _), middle in zip(rows, middles, strict=True):
        if not abs(middle) < _LATEST_US:
            raise UserError(f"{path}: line {line_number} is no time: no clock shows {middle / 1_000_000:.3g} s.")
    times = np.array([round(middle) for middle in middles], dtype=np.int64)
    backwards = np.flatnonzero(np.diff(times) <= 0)
    if len(backwards):
        line_number = rows[int(backwards[0]) + 1][0]
        raise UserError(f"{path}: line {line_number} is not later than the line before; times must increase.")
    return times


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


def _whole_unit(times: list[Decimal]) -> Decimal:
    """What one unit of whole numbers is; a list has one unit."""
    gap = (times[-1] - times[0]) / max(1, len(times) - 1)
    return _NANOSECONDS if abs(times[-1]) >= _LATEST_UNIX_US or gap > _LONGEST_GAP_US else _MICROSECONDS
