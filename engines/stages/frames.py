"""Pictures for the tower: event frames as EventGPT and EventGPT-Plus draw them, and frames tiled as one image.

Image grids follow Kim et al., "An Image Grid Can Be Worth a Video" (2024).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from engines.measuring.timing import StageClock
from engines.stages.model import HostInputs
from engines.stages.pixel_values import ClipTransform
from evprof.core.errors import UserError
from evprof.core.events import EventArray
from evprof.core.vocabulary.families import Family
from evprof.loaders.pictures.render import Picture

Canvas = tuple[int, int]
"""(width, height) in pixels."""


def draw_event_frames(host: HostInputs, count: int, canvas: Canvas | None, spans: StageClock) -> HostInputs:
    """Draws `count` event frames in place of the events; existing pictures stay. `canvas` fixes their size. Raises
    UserError for events outside the canvas, and for fewer events than frames."""
    events = host.events
    if events is None:
        return host
    if canvas is not None:
        _check_canvas(host.path, events, canvas)
    from evprof.loaders.pictures.render import render_event_frames, slice_times

    width, height = canvas or (None, None)
    with spans.child("render") as span:
        span.input("t_us", events.t_us)
        pictures = tuple(render_event_frames(events, count, width=width, height=height))
        for index, picture in enumerate(pictures):
            span.output(f"event frame {index + 1}", picture)
    times = slice_times(events, count)
    return replace(
        host,
        events=None,
        pictures=pictures,
        times_us=tuple((time.start_us, time.end_us) for time in times),
        labels=tuple(f"event frame {index + 1}: {time.label}" for index, time in enumerate(times)),
    )


def draw_event_bins(
    host: HostInputs, count: int | None, family: Family, canvas: Canvas | None, spans: StageClock
) -> HostInputs:
    """Draws EventGPT-Plus' bins in place of the events, all of one size. `count` None: the bins of the recording, or as
    many as the family shows of that length. Raises UserError for events outside the canvas or with one time."""
    events = host.events
    if events is None:
        return host
    if canvas is not None:
        _check_canvas(host.path, events, canvas)
    from evprof.loaders.pictures.render import canvas_size, draw_bin, event_bins, ready_bins

    with spans.child("render") as span:
        span.input("t_us", events.t_us)
        width, height = canvas_size(events, *(canvas or (None, None)))
        if count is None and 0 < len(events.parts) <= family.most_frames:
            bins = ready_bins(events)
        else:
            bins = event_bins(events, count or family.frames_for(events.duration_us or 0))
        pictures = tuple(draw_bin(each.events, width=width, height=height) for each in bins)
        for index, picture in enumerate(pictures):
            span.output(f"event frame {index + 1}", picture)
    return replace(
        host,
        events=None,
        pictures=pictures,
        times_us=tuple((each.time.start_us, each.time.end_us) for each in bins),
        labels=tuple(f"bin {index + 1}: {each.time.label}" for index, each in enumerate(bins)),
    )


def _check_canvas(path: str, events: EventArray, canvas: Canvas) -> None:
    width, height = canvas
    if events.width <= width and events.height <= height:
        return
    raise UserError(
        f"{path} has events up to x = {events.width - 1} and y = {events.height - 1}, outside the canvas of "
        f"{width}x{height}; choose --canvas {max(width, events.width)}x{max(height, events.height)} or auto."
    )


def grid_columns(frames: int) -> int:
    return math.isqrt(frames - 1) + 1


def tile_frames(frames: Sequence[Picture], transform: ClipTransform) -> Picture:
    """T frames of any sizes -> one square picture, row after row, padded with black. Each tile is what the tower would
    see of its frame, scaled down."""
    columns = grid_columns(len(frames))
    edge = max(1, transform.crop[0] // columns)
    # The frame's share that a crop of the whole picture would show, as one tile.
    shortest = max(edge, round(transform.shortest_edge * edge / transform.crop[0]))
    tile = ClipTransform(shortest, (edge, edge))
    grid: Picture = np.zeros((columns * edge, columns * edge, 3), dtype=np.uint8)
    for index, frame in enumerate(frames):
        top, left = index // columns * edge, index % columns * edge
        grid[top : top + edge, left : left + edge] = tile.cut(frame)
    return grid
