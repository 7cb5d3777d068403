"""What a process holds, sampled again and again, and whether it grows: Theil and Sen's slope with its interval.

The slope is the median of the slopes between all pairs of samples (Sen 1968), its 95 % interval from the variance of
Kendall's tau, n(n-1)(2n+5)/18: a few outliers, such as a garbage collection, do not move it.
"""

from __future__ import annotations

import math
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import psutil

FIRST = 20
"""Units at the beginning that may grow: caches fill, models load."""

COUNTS = ("threads", "handles", "temporary files")


@dataclass(frozen=True)
class Sample:
    """After so many units: resident memory in bytes, and counts."""

    unit: int
    rss: int
    threads: int
    handles: int
    files: int


def sample(unit: int, pid: int | None = None) -> Sample:
    """What a process holds now; files are those below the folder for temporary ones."""
    process = psutil.Process(pid or os.getpid())
    files = sum(len(names) for _, _, names in os.walk(tempfile.gettempdir()))
    with process.oneshot():
        return Sample(unit, process.memory_info().rss, process.num_threads(), process.num_fds(), files)


@dataclass(frozen=True)
class Growth:
    """Bytes a unit with a 95 % interval, and how far counts rose above what they were after the first units."""

    slope: float
    low: float
    high: float
    risen: dict[str, int]
    held: int

    def is_within(self, most_bytes: float) -> bool:
        """Whether it does not grow: not more than `most_bytes` a unit for sure, and no count that went up."""
        return self.high <= most_bytes and not any(rise > 0 for rise in self.risen.values())


def growth_of(samples: list[Sample], first: int = FIRST) -> Growth:
    """Of the samples after the first units. Raises ValueError for fewer than three."""
    later = [entry for entry in samples if entry.unit >= first]
    if len(later) < 3:
        raise ValueError("too few samples")
    units = np.array([entry.unit for entry in later], dtype=np.float64)
    sizes = np.array([entry.rss for entry in later], dtype=np.float64)
    slope, low, high = theil_sen(units, sizes)
    third = max(1, len(later) // 3)
    risen = {
        name: min(getattr(entry, key) for entry in later[-third:]) - max(getattr(entry, key) for entry in later[:third])
        for name, key in zip(COUNTS, ("threads", "handles", "files"), strict=True)
    }
    return Growth(slope, low, high, risen, int(sizes[-1]))


def theil_sen(x: npt.NDArray[np.float64], y: npt.NDArray[np.float64]) -> tuple[float, float, float]:
    """The median slope between all pairs of points and its 95 % interval. `x` [n] increases; n is at least 3."""
    left, right = np.triu_indices(len(x), 1)
    slopes = np.sort((y[right] - y[left]) / (x[right] - x[left]))
    n = len(x)
    spread = 1.96 * math.sqrt(n * (n - 1) * (2 * n + 5) / 18)
    low = max(0, math.floor((len(slopes) - spread) / 2))
    high = min(len(slopes) - 1, math.ceil((len(slopes) + spread) / 2))
    return float(np.median(slopes)), float(slopes[low]), float(slopes[high])


def write_curves(samples: dict[str, list[Sample]], out: Path) -> None:
    """A CSV of all samples, and their memory as SVG, one curve each."""
    rows = ["process,unit,rss_bytes,threads,handles,temporary_files"]
    rows += [
        f"{name},{entry.unit},{entry.rss},{entry.threads},{entry.handles},{entry.files}"
        for name, listed in samples.items()
        for entry in listed
    ]
    (out / "soak.csv").write_text("\n".join(rows) + "\n")
    (out / "soak.svg").write_text(_drawing(samples))


WIDTH, HEIGHT, TITLE = 720, 130, 18


def _drawing(samples: dict[str, list[Sample]]) -> str:
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {(HEIGHT + TITLE) * len(samples)}" '
        'font-family="sans-serif" font-size="11"><rect width="100%" height="100%" fill="white"/>'
    ]
    for place, (name, listed) in enumerate(samples.items()):
        top = place * (HEIGHT + TITLE)
        low, high = min(entry.rss for entry in listed), max(entry.rss for entry in listed)
        last = max(1, listed[-1].unit)
        points = " ".join(
            f"{entry.unit / last * (WIDTH - 20) + 10:.1f},"
            f"{top + TITLE + (HEIGHT - 12) * (1 - (entry.rss - low) / max(1, high - low)) + 2:.1f}"
            for entry in listed
        )
        parts.append(
            f'<text x="10" y="{top + 13}">{name}: {low / 2**20:.0f} to {high / 2**20:.0f} MiB over {last}</text>'
            f'<polyline points="{points}" fill="none" stroke="#1f6feb" stroke-width="1.2"/>'
        )
    return "\n".join([*parts, "</svg>"])
