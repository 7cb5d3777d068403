"""When each frame of a video is shown and where decoding may start, in presentation order; it decodes nothing."""

from __future__ import annotations

import itertools
from bisect import bisect
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import numpy.typing as npt


class PacketRow(NamedTuple):
    """What a packet says of its frame; `is_spare`: nothing else that is decoded depends on it."""

    pts: int | None
    duration: int | None
    is_key: bool
    is_spare: bool = False
    dts: int | None = None


@dataclass(frozen=True, eq=False)
class FrameTable:
    """One row per frame, in the order of presentation.

    `pts`: int64 [N], strictly increasing, in ticks of `time_base` seconds; `is_key`: bool [N]; `end_pts`: when the last
    frame's time is over. `is_timed` False means the file gives frames no usable times: `pts` then counts frames, and
    only decoding from the start finds a frame. `spare_pts` are the times of frames that no other frame depends on;
    `reorder_frames` is how many frames a decoder holds back at most to bring them into order. `seek_pts` has the time
    to seek to for key frames whose own time would lead to the key frame before.
    """

    pts: npt.NDArray[np.int64]
    is_key: npt.NDArray[np.bool_]
    end_pts: int
    time_base: Fraction
    is_timed: bool = True
    spare_pts: frozenset[int] = frozenset()
    reorder_frames: int = 0
    seek_pts: Mapping[int, int] = field(default_factory=dict)
    key_indices: npt.NDArray[np.int64] = field(init=False)

    def __post_init__(self) -> None:
        """Finds the key frames once."""
        object.__setattr__(self, "key_indices", np.flatnonzero(self.is_key))

    @classmethod
    def from_packets(cls, rows: list[PacketRow], time_base: Fraction, frame_rate: Fraction | None) -> FrameTable:
        """From packets or frames in the order of decoding; untimed when a pts is missing or double."""
        known = [row.pts for row in rows if row.pts is not None]
        if len(known) < len(rows) or len(set(known)) < len(known):
            keys = np.array([row.is_key for row in rows], dtype=np.bool_)
            tick = 1 / frame_rate if frame_rate else Fraction(1, 25)
            return cls(np.arange(len(rows), dtype=np.int64), keys, len(rows), tick, is_timed=False)
        pts = np.array(known, dtype=np.int64)
        order = np.argsort(pts, kind="stable")
        pts = pts[order]
        keys = np.array([row.is_key for row in rows], dtype=np.bool_)[order]
        last_duration = rows[int(order[-1])].duration or (int(np.median(np.diff(pts))) if len(pts) > 1 else 0)
        return cls(
            pts,
            keys,
            int(pts[-1]) + max(last_duration, 0),
            time_base,
            spare_pts=frozenset(row.pts for row in rows if row.is_spare and row.pts is not None),
            reorder_frames=_held_back(known),
            seek_pts=_seek_pts(rows, pts[keys]),
        )

    def __len__(self) -> int:
        return len(self.pts)

    def time_us(self, index: int) -> int:
        """When frame `index` is shown, in µs since the first frame."""
        return round((int(self.pts[index]) - int(self.pts[0])) * self.time_base * 1_000_000)

    @property
    def duration_us(self) -> int:
        """From the first frame's start to the last one's end."""
        return round((self.end_pts - int(self.pts[0])) * self.time_base * 1_000_000)

    def index_at(self, t_us: int) -> int:
        """The frame on show at `t_us` since the first frame; the first or last one outside the video."""
        within_us = min(max(t_us, 0), self.duration_us)
        ticks = int(self.pts[0]) + Fraction(within_us, 1_000_000) / self.time_base
        # floor: a frame is on show from its own tick on. Half a µs of slack undoes the rounding of time_us.
        slack = Fraction(1, 2_000_000) / self.time_base
        found = int(np.searchsorted(self.pts, int((ticks + slack) // 1), side="right")) - 1
        return min(max(found, 0), len(self) - 1)

    def shown_within(self, start_us: int, stop_us: int) -> range:
        """The frames on show at some moment start <= t < stop since the first frame; empty outside the video."""
        # A single frame may have no length; it is on show at its own moment.
        if stop_us <= max(start_us, 0) or start_us >= max(self.duration_us, self.time_us(len(self) - 1) + 1):
            return range(0)
        return range(self.index_at(start_us), self.index_at(stop_us - 1) + 1)

    def key_before(self, index: int) -> int:
        """The last key frame shown at or before frame `index`; 0 when there is none."""
        place = int(np.searchsorted(self.key_indices, index, side="right"))
        return int(self.key_indices[place - 1]) if place else 0

    def seek_ticks(self, key: int) -> int:
        """The time to seek to in order to decode from key frame `key` on."""
        pts = int(self.pts[key])
        return self.seek_pts.get(pts, pts)

    @property
    def gop_frames(self) -> int:
        """The longest way, in frames, from a key frame to the next one or to the end."""
        starts = self.key_indices
        if not len(starts):
            return len(self)
        return int(np.diff(np.append(starts, len(self))).max())


def _held_back(pts: list[int]) -> int:
    """Most frames that come before another one in the order of decoding and after it in that of presentation."""
    seen: list[int] = []
    most = 0
    for value in pts:
        place = bisect(seen, value)
        most = max(most, len(seen) - place)
        seen.insert(place, value)
    return most


def _seek_pts(rows: list[PacketRow], key_pts: npt.NDArray[np.int64]) -> dict[int, int]:
    """FFmpeg finds a key frame of MP4 by its decoding time plus the delay of the first one.

    With uneven frame times that may be later than its presentation; it stays before the next key frame's.
    """
    first = rows[0]
    if first.pts is None or first.dts is None:
        return {}
    delay = first.pts - first.dts
    following = dict(itertools.pairwise(key_pts.tolist()))
    found = {}
    for row in rows:
        if row.is_key and row.pts is not None and row.dts is not None and row.dts + delay > row.pts:
            found[row.pts] = min(row.dts + delay, following.get(row.pts, row.dts + delay + 1) - 1)
    return found
