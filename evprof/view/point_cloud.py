"""Events as points in x, y and time, seen from any side; arithmetic on arrays, drawn without any toolkit."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from evprof.core.events import EventArray
from evprof.view.lanes import Floats

MOST_POINTS = 30_000
"""So many are drawn in a few milliseconds; of more, as many, evenly spread over them."""

_DEPTH = 1.6
"""Length of the time axis beside the longer side of the sensor."""

_FILL = 0.92

Picture: TypeAlias = "npt.NDArray[np.uint8]"
Color = tuple[int, int, int]


class ViewAngle(NamedTuple):
    """From where points are seen, in degrees: to the side and from above."""

    yaw: int = -35
    pitch: int = 20

    def by(self, across: float, down: float) -> ViewAngle:
        """Turned by a hand that moved so many px."""
        return ViewAngle(
            (round(self.yaw + across * 0.5) + 180) % 360 - 180, max(-90, min(90, round(self.pitch + down * 0.5)))
        )


UNTURNED = ViewAngle()
"""From where points are seen at first."""


class Box(NamedTuple):
    """What lies in the cloud: a sensor of so many pixels, from `start_us` on, up to `stop_us`."""

    width: int
    height: int
    start_us: int
    stop_us: int


def thinned(events: EventArray, most: int = MOST_POINTS) -> EventArray:
    """At most `most` events, evenly spread over their order."""
    if len(events) <= most:
        return events
    return events.taken(np.arange(most) * len(events) // most)


def projected(
    x: npt.ArrayLike, y: npt.ArrayLike, t_us: npt.ArrayLike, box: Box, turn: ViewAngle
) -> tuple[Floats, Floats, Floats]:
    """Right, down and nearness of points. Unturned they are seen as by the camera, and the newest is nearest.

    The box's middle is the origin and its longer side has the length 1; without perspective, so that lengths compare.
    """
    longest = max(box.width, box.height)
    right = (np.asarray(x, dtype=np.float64) + 0.5 - box.width / 2) / longest
    down = (np.asarray(y, dtype=np.float64) + 0.5 - box.height / 2) / longest
    near = (np.asarray(t_us, dtype=np.float64) - box.start_us) / max(1, box.stop_us - box.start_us) - 0.5
    near = near * _DEPTH
    yaw, pitch = np.deg2rad(turn.yaw), np.deg2rad(turn.pitch)
    right, near = right * np.cos(yaw) - near * np.sin(yaw), right * np.sin(yaw) + near * np.cos(yaw)
    down, near = down * np.cos(pitch) + near * np.sin(pitch), near * np.cos(pitch) - down * np.sin(pitch)
    return right, down, near


def cloud_picture(
    events: EventArray, box: Box, turn: ViewAngle, *, size: tuple[int, int], colors: tuple[Color, Color, Color, Color]
) -> Picture:
    """uint8 [height, width, 3] of `size` (width, height): nearer points over farther ones, and the box's edges.

    `colors`: ground, darker events, brighter ones, edges.
    """
    ground, darker, brighter, line = (np.array(color, dtype=np.uint8) for color in colors)
    width, height = size
    picture = np.empty((height, width, 3), dtype=np.uint8)
    picture[:] = ground
    ends = (0, box.width - 1), (0, box.height - 1), (box.start_us, box.stop_us)
    xs, ys, ts = (corners.reshape(-1) for corners in np.meshgrid(*map(np.array, ends), indexing="ij"))
    right, down, _ = projected(xs, ys, ts, box, turn)
    scale = _FILL * min(width / max(1e-9, np.ptp(right)), height / max(1e-9, np.ptp(down)))

    def place(across: Floats, below: Floats) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
        columns = np.rint(width / 2 + across * scale).astype(np.intp)
        rows = np.rint(height / 2 + below * scale).astype(np.intp)
        return np.clip(columns, 0, width - 1), np.clip(rows, 0, height - 1)

    along = np.linspace(0, 1, 2 * max(size))
    for first in range(8):
        for bit in (1, 2, 4):
            second = first | bit
            if second != first:
                columns, rows = place(
                    right[first] + (right[second] - right[first]) * along,
                    down[first] + (down[second] - down[first]) * along,
                )
                picture[rows, columns] = line
    across, below, near = projected(events.x, events.y, events.t_us, box, turn)
    order = np.argsort(near, kind="stable")
    columns, rows = place(across[order], below[order])
    inks = np.where(events.p[order, None] > 0, brighter, darker)
    for over in (0, 1):
        picture[rows, np.minimum(columns + over, width - 1)] = inks
    return picture
