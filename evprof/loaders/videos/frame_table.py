"""Times and key frames of a video in presentation order. Decodes nothing."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import numpy.typing as npt


class PacketRow(NamedTuple):
    """Times and the key flag of one packet, in ticks."""

    pts: int | None
    duration: int | None
    is_key: bool
    dts: int | None = None


@dataclass(frozen=True, eq=False)
class FrameTable:
    """One row per frame, in presentation order.

    `pts`: int64 [N], strictly increasing, in ticks of `time_base` seconds; `is_key`: bool [N]; `end_pts`: the end of
    the last frame. With `is_timed` False the file has no usable times: `pts` counts frames, and a reader decodes from
    the start. `seek_pts`: the seek target of key frames for which their own time selects an earlier key frame.
    """

    pts: npt.NDArray[np.int64]
    is_key: npt.NDArray[np.bool_]
    end_pts: int
    time_base: Fraction
    is_timed: bool = True
    seek_pts: dict[int, int] = field(default_factory=dict)
    key_indices: npt.NDArray[np.int64] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "key_indices", np.flatnonzero(self.is_key))

    @classmethod
    def from_packets(cls, rows: list[PacketRow], time_base: Fraction, frame_rate: Fraction | None) -> FrameTable:
        """From packets or frames in decoding order; untimed when a pts is missing or repeated."""
        known = [row.pts for row in rows if row.pts is not None]
        keys = np.array([row.is_key for row in rows], dtype=np.bool_)
        if len(known) < len(rows) or len(set(known)) < len(known):
            tick = 1 / frame_rate if frame_rate else Fraction(1, 25)
            return cls(np.arange(len(rows), dtype=np.int64), keys, len(rows), tick, is_timed=False)
        pts = np.array(known, dtype=np.int64)
        order = np.argsort(pts, kind="stable")
        pts, keys = pts[order], keys[order]
        last_duration = rows[int(order[-1])].duration or (int(np.median(np.diff(pts))) if len(pts) > 1 else 0)
        end_pts = int(pts[-1]) + max(last_duration, 0)
        return cls(pts, keys, end_pts, time_base, seek_pts=_seek_pts(rows, pts[keys]))

    def __len__(self) -> int:
        return len(self.pts)

    def time_us(self, index: int) -> int:
        """Start of frame `index`, in µs since the first frame."""
        return round((int(self.pts[index]) - int(self.pts[0])) * self.time_base * 1_000_000)

    @property
    def duration_us(self) -> int:
        """From the start of the first frame to the end of the last one."""
        return round((self.end_pts - int(self.pts[0])) * self.time_base * 1_000_000)

    def index_at(self, t_us: int) -> int:
        """The frame shown at `t_us` since the first frame; the first or last one outside the video."""
        within_us = min(max(t_us, 0), self.duration_us)
        # Half a µs compensates for the rounding of time_us.
        ticks = int(self.pts[0]) + (within_us + Fraction(1, 2)) / 1_000_000 / self.time_base
        index = int(np.searchsorted(self.pts, int(ticks // 1), side="right")) - 1
        return min(max(index, 0), len(self) - 1)

    def shown_within(self, start_us: int, stop_us: int) -> range:
        """The frames shown in start <= t < stop since the first frame; empty outside the video."""
        # A single frame can have no duration. It is shown at its start.
        if stop_us <= max(start_us, 0) or start_us >= max(self.duration_us, self.time_us(len(self) - 1) + 1):
            return range(0)
        return range(self.index_at(start_us), self.index_at(stop_us - 1) + 1)

    def key_before(self, index: int) -> int:
        """The last key frame shown at or before frame `index`; 0 when there is none."""
        place = int(np.searchsorted(self.key_indices, index, side="right"))
        return int(self.key_indices[place - 1]) if place else 0

    def seek_ticks(self, key: int) -> int:
        """The seek target that starts decoding at key frame `key`."""
        pts = int(self.pts[key])
        return self.seek_pts.get(pts, pts)

    @property
    def gop_frames(self) -> int:
        """The largest number of frames from a key frame to the next one or to the end."""
        if not len(self.key_indices):
            return len(self)
        return int(np.diff(np.append(self.key_indices, len(self))).max())


def _seek_pts(rows: list[PacketRow], key_pts: npt.NDArray[np.int64]) -> dict[int, int]:
    """FFmpeg finds a key frame of MP4 by its decoding time plus the delay of the first one.

    With uneven frame times that can be later than its presentation. The target stays before the next key frame.
    """
    if rows[0].pts is None or rows[0].dts is None:
        return {}
    delay = rows[0].pts - rows[0].dts
    following = dict(itertools.pairwise(key_pts.tolist()))
    targets = {}
    for row in rows:
        if row.is_key and row.pts is not None and row.dts is not None and row.dts + delay > row.pts:
            targets[row.pts] = min(row.dts + delay, following.get(row.pts, row.dts + delay + 1) - 1)
    return targets
