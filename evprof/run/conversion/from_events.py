"""Conversions of event recordings: to other recordings, to pictures, to a video."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path

from evprof.core.errors import UserError
from evprof.core.events import EventArray
from evprof.core.units import number_text
from evprof.loaders.clips import clip_events
from evprof.loaders.events.opening import open_recording
from evprof.loaders.events.recording import CHUNK_EVENTS, EventRecording
from evprof.loaders.events.windows import EventWindow, windows_by_count, windows_by_time
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
        tally = _Tally(None if task.sample.is_clip else recording.info.events)
        chunks = tally.passed(_chunks(recording, task), step)
        size = {"width": recording.info.width, "height": recording.info.height}
        count = write_events(task.output, chunks, task.recipe, **size)
        starts_us = tally.starts_us(recording)
        notes = (*recording.info.problems, *tally.notes)
    return Written("events", size_of(task.output), events=count, starts_us=starts_us, notes=notes)


def to_frames(task: Task, step: Step) -> Written:
    from evprof.loaders.writers.frames import write_frames

    with _opened(task) as recording:
        recipe = task.recipe
        if recipe.window_us is None and recipe.window_events is None:
            events = clip_events(recording, task.sample)
            frames = recipe.frames or EVENTGPT_FRAMES
            step.begin("frames", frames)
            count = write_frames(task.output, step.counted(_equal_parts(events, frames, recipe)))
            starts_us = int(events.t_us.min()) - recording.origin_us()
        else:
            tally = _Tally(recording.info.events)
            shown = ((start, picture) for start, picture in _windowed(recording, task, tally, step))
            count = write_frames(task.output, shown)
            starts_us = tally.starts_us(recording)
        notes = recording.info.problems
    return Written("frames", size_of(task.output), frames=count, starts_us=starts_us, notes=notes)


def to_mp4(task: Task, step: Step) -> Written:
    """A rendered video: real time, or a window a frame at the rate that is asked for."""
    from evprof.loaders.writers.mp4 import Encoding, write_mp4

    recipe = task.recipe
    with _opened(task) as recording:
        tally = _Tally(recording.info.events)
        is_paced = recipe.fps is not None and (recipe.window_us is not None or recipe.window_events is not None)
        base = 1 / (recipe.rate or RATE) if is_paced else Fraction(1, 1_000_000)
        if recipe.window_us is None and recipe.window_events is None:
            recipe = replace(recipe, window_us=round(1_000_000 / (recipe.rate or RATE)))
        encoding = Encoding(recipe.gop, recipe.b_frames, recipe.crf, recipe.size, recipe.preset)
        pictures = _windowed(recording, task, tally, step, recipe)
        frames = (
            (number if is_paced else start_us - (tally.first_us or 0), picture)
            for number, (start_us, picture) in enumerate(pictures)
        )
        count = write_mp4(task.output, frames, base, encoding)
        notes = list(recording.info.problems)
        if is_paced and recipe.window_us is not None:
            factor = float(1 / (base * 1_000_000 / recipe.window_us))
            if abs(factor - 1) > 0.01:
                notes.append(f"The video plays at {number_text(factor, 3)} times the speed of the recording.")
        starts_us = tally.starts_us(recording)
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


class _Tally:
    """Counts events as they pass and remembers the earliest time."""

    def __init__(self, total: int | None) -> None:
        self.first_us: int | None = None
        self._last_us: int | None = None
        self._total = total
        self._runs_backwards = False

    def passed(self, chunks: Iterable[EventArray], step: Step) -> Iterator[EventArray]:
        """The chunks, each counted when the next one is asked for."""
        step.begin("events", self._total)
        for chunk in step.counted(chunks, len):
            low = int(chunk.t_us.min())
            self.first_us = low if self.first_us is None else min(low, self.first_us)
            if not chunk.is_sorted or (self._last_us is not None and low < self._last_us):
                self._runs_backwards = True
            self._last_us = int(chunk.t_us[-1])
            yield chunk

    def starts_us(self, recording: EventRecording) -> int:
        """How long after the recording's zero the earliest event lies: a clip, or a map, may have left some out."""
        return 0 if self.first_us is None else self.first_us - recording.origin_us()

    @property
    def notes(self) -> tuple[str, ...]:
        return ("Times run backwards in places; the order of the file was kept.",) if self._runs_backwards else ()


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
    recording: EventRecording, task: Task, tally: _Tally, step: Step, recipe: ConversionRecipe | None = None
) -> Iterator[tuple[int, Picture]]:
    """(start, picture) of each window, all of one size; starts increase strictly."""
    recipe = recipe or task.recipe
    source: EventRecording | EventArray = clip_events(recording, task.sample) if task.sample.is_clip else recording
    painter = _painter(_sensor_size(recording, source, step), recipe)
    tally.first_us = recording.origin_us() if isinstance(source, EventRecording) else int(source.t_us.min())
    total = len(source) if isinstance(source, EventArray) else recording.info.events
    step.begin("events", total)
    if recipe.window_us is not None:
        windows: Iterator[EventWindow] = windows_by_time(source, recipe.window_us)
    else:
        windows = _rising(windows_by_count(source, recipe.window_events or 1))
    for window in step.counted(windows, lambda window: len(window.events)):
        yield window.start_us, painter.paint(window.events, window.start_us, window.stop_us)


def _rising(windows: Iterator[EventWindow]) -> Iterator[EventWindow]:
    """Windows of so many events may begin in the same µs; a picture needs a time of its own."""
    last_us: int | None = None
    for window in windows:
        start_us = window.start_us if last_us is None else max(window.start_us, last_us + 1)
        last_us = start_us
        yield EventWindow(start_us, max(window.stop_us, start_us + 1), window.events)


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
