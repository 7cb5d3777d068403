"""Conversions of event recordings: to other recordings, to pictures, to a video."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from functools import partial
from pathlib import Path

from evprof.core.errors import UserError
from evprof.core.events import EventArray
from evprof.core.units import number_text
from evprof.loaders.clips import clip_events
from evprof.loaders.events.opening import open_recording
from evprof.loaders.events.recording import CHUNK_EVENTS, EventRecording
from evprof.loaders.events.windows import windows_by_time
from evprof.loaders.pictures.render import EVENTGPT_FRAMES, Picture, render_events
from evprof.loaders.pictures.renderings import Painter
from evprof.loaders.writers.hdf5 import write_dsec
from evprof.loaders.writers.npy import write_npy, write_npz
from evprof.loaders.writers.raw import write_dat, write_evt2, write_evt3
from evprof.run.conversion.task import ConversionRecipe, Step, Task, Written, size_of


def write_events(
    path: Path, chunks: Iterable[EventArray], recipe: ConversionRecipe, *, width: int | None, height: int | None
) -> int:
    """Writes all events in the recipe's format; returns how many. Raises UserError when there are none."""
    writers: dict[str, Callable[..., int]] = {
        "npy": partial(write_npy, layout=recipe.layout),
        "npz": partial(write_npz, compressed=recipe.compressed),
        "h5": partial(write_dsec, compression=recipe.compression),
        "raw": {"evt3": write_evt3, "evt2": write_evt2, "dat": write_dat}[recipe.raw_format],
    }
    return writers[recipe.to](path, _some(path, chunks), width=width, height=height)


def _some(path: Path, chunks: Iterable[EventArray]) -> Iterable[EventArray]:
    total = 0
    for chunk in chunks:
        total += len(chunk)
        if len(chunk):
            yield chunk
    if total == 0:
        raise UserError(f"{path}: there are no events to write; choose another part.")


EVENTGPT = "eventgpt"
RATE = Fraction(30)
"""Frames per second of a rendered video, where nothing else says so."""


def to_events(task: Task, step: Step) -> Written:
    """All events of the recording, or of its clip, in another format; times stay on the recording's own clock."""
    with _opened(task) as recording:
        tally, info = Tally(), recording.info
        step.begin("events", None if task.sample.is_clip else info.events)
        chunks = tally.seen(step.counted(_chunks(recording, task), len))
        count = write_events(task.output, chunks, task.recipe, width=info.width, height=info.height)
        starts_us = (tally.first_us or 0) - recording.origin_us()
        notes = (*recording.info.problems, *tally.notes)
    return Written("events", size_of(task.output), events=count, starts_us=starts_us, notes=notes)


def to_frames(task: Task, step: Step) -> Written:
    from evprof.loaders.writers.frames import write_frames

    with _opened(task) as recording:
        if task.recipe.window_us is None:
            events = clip_events(recording, task.sample)
            frames = task.recipe.frames or EVENTGPT_FRAMES
            first_us = int(events.t_us.min())
            step.begin("frames", frames)
            pictures = step.counted(_equal_parts(events, frames, task.recipe))
        else:
            first_us, pictures = _windowed(recording, task, step, task.recipe.window_us)
        count = write_frames(task.output, pictures)
        starts_us, notes = first_us - recording.origin_us(), recording.info.problems
    return Written("frames", size_of(task.output), frames=count, starts_us=starts_us, notes=notes)


def to_mp4(task: Task, step: Step) -> Written:
    """A rendered video: real time, or a window a frame at the rate that is asked for."""
    from evprof.loaders.writers.mp4 import Encoding, write_mp4

    recipe = task.recipe
    with _opened(task) as recording:
        rate = recipe.rate or RATE
        is_paced = recipe.fps is not None and recipe.window_us is not None
        window_us = recipe.window_us or round(1_000_000 / rate)
        first_us, pictures = _windowed(recording, task, step, window_us)
        frames = (
            (number if is_paced else start_us - first_us, picture)
            for number, (start_us, picture) in enumerate(pictures)
        )
        encoding = Encoding(recipe.gop, recipe.b_frames, recipe.crf, recipe.size, recipe.preset)
        count = write_mp4(task.output, frames, 1 / rate if is_paced else Fraction(1, 1_000_000), encoding)
        notes = list(recording.info.problems)
        factor = float(rate * window_us / 1_000_000)
        if is_paced and abs(factor - 1) > 0.01:
            notes.append(f"The video plays at {number_text(factor, 3)} times the speed of the recording.")
        starts_us = first_us - recording.origin_us()
    return Written("video", size_of(task.output), frames=count, starts_us=starts_us, notes=tuple(notes))


def _opened(task: Task) -> EventRecording:
    """The recording, seen through a rectification map where the sample names one."""
    recording = open_recording(task.path)
    if task.sample.rectify_path is None:
        return recording
    from evprof.loaders.events.rectification import Rectified, RectifyMap

    try:
        return Rectified(recording, RectifyMap.load(task.sample.rectify_path))
    except UserError:
        recording.close()
        raise


class Tally:
    """The earliest time of the events that pass, and whether their times run backwards."""

    def __init__(self) -> None:
        self.first_us: int | None = None
        self._last_us: int | None = None
        self.notes: tuple[str, ...] = ()

    def seen(self, chunks: Iterable[EventArray]) -> Iterator[EventArray]:
        for chunk in chunks:
            if len(chunk):
                low = int(chunk.t_us.min())
                self.first_us = low if self.first_us is None else min(low, self.first_us)
                if not chunk.is_sorted or (self._last_us is not None and low < self._last_us):
                    self.notes = ("Times run backwards in places; the order of the file was kept.",)
                self._last_us = int(chunk.t_us[-1])
            yield chunk


def _chunks(recording: EventRecording, task: Task) -> Iterator[EventArray]:
    if not task.sample.is_clip and not task.recipe.sort:
        yield from recording.chunks()
        return
    events = clip_events(recording, task.sample)
    if task.recipe.sort:
        events = events.in_time_order()
    for start in range(0, len(events), CHUNK_EVENTS):
        yield events.slice_count(start, start + CHUNK_EVENTS)


def _equal_parts(events: EventArray, count: int, recipe: ConversionRecipe) -> Iterator[tuple[int, Picture]]:
    """EventGPT's split; each picture as large as its own events ask for, unless a canvas or another way is named."""
    parts = events.split_equal_count(count)
    if recipe.rendering in (None, EVENTGPT):
        width, height = recipe.canvas or (None, None)
        _check_canvas(events.width, events.height, recipe)
        for part in parts:
            yield int(part.t_us.min()), render_events(part, width=width, height=height)
        return
    painter = _painter((events.width, events.height), recipe)
    for part in parts:
        start_us = int(part.t_us.min())
        yield start_us, painter.paint(part, start_us, int(part.t_us.max()) + 1)


def _windowed(
    recording: EventRecording, task: Task, step: Step, window_us: int
) -> tuple[int, Iterator[tuple[int, Picture]]]:
    """The start of the first window, and (start, picture) of each window, all of one size."""
    source: EventRecording | EventArray = clip_events(recording, task.sample) if task.sample.is_clip else recording
    painter = _painter(_sensor_size(recording, source, step), task.recipe)
    if isinstance(source, EventRecording):
        first_us, total = recording.origin_us(), recording.info.events
    else:
        first_us, total = int(source.t_us.min()), len(source)
    step.begin("events", total)
    windows = step.counted(windows_by_time(source, window_us), lambda window: len(window.events))
    return first_us, (
        (window.start_us, painter.paint(window.events, window.start_us, window.stop_us)) for window in windows
    )


def _painter(size: tuple[int, int], recipe: ConversionRecipe) -> Painter:
    _check_canvas(*size, recipe)
    width, height = recipe.canvas or size
    return Painter(width, height, rendering=recipe.rendering or EVENTGPT)


def _check_canvas(width: int, height: int, recipe: ConversionRecipe) -> None:
    if recipe.canvas is not None and (width > recipe.canvas[0] or height > recipe.canvas[1]):
        raise UserError(
            f"--canvas {recipe.canvas[0]}x{recipe.canvas[1]} is smaller than the events' {width}x{height}; "
            "none may be left out, so give a larger one."
        )


def _sensor_size(recording: EventRecording, source: EventRecording | EventArray, step: Step) -> tuple[int, int]:
    """What the recording says of its sensor, else the smallest size that holds every event: a pass over all of them."""
    info = recording.info
    if info.width and info.height:
        return info.width, info.height
    width = height = 0
    step.begin("events", info.events)
    for chunk in step.counted(recording.chunks() if isinstance(source, EventRecording) else (source,), len):
        width, height = max(width, chunk.width), max(height, chunk.height)
    return width, height
