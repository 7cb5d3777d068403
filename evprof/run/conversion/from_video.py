"""Conversions of videos and folders of pictures: to pictures, to an MP4, to simulated events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from evprof.core.errors import UserError
from evprof.core.events import EventArray
from evprof.core.units import number_text
from evprof.loaders.pictures.frame_folder import uniform_indices
from evprof.loaders.pictures.render import Picture
from evprof.loaders.videos.folder import ImageFolder
from evprof.loaders.videos.frame_table import FrameTable
from evprof.loaders.videos.opening import open_video
from evprof.loaders.videos.source import VideoSource
from evprof.run.conversion.from_events import write_events
from evprof.run.conversion.task import ConversionRecipe, Step, Task, Written, size_of

if TYPE_CHECKING:
    from evprof.loaders.simulation import ContrastSimulator


@dataclass(frozen=True)
class _Shown:
    """Frames by number, rising but for repeats, and the time of each in ticks of `base` since the first frame."""

    indices: Sequence[int]
    ticks: Sequence[int]
    base: Fraction

    def time_us(self, place: int) -> int:
        return round(self.ticks[place] * self.base * 1_000_000)


def to_frames(task: Task, step: Step) -> Written:
    """Every frame, some, or those on show at a fixed rate, as PNG files with their times."""
    from evprof.loaders.writers.frames import write_frames

    with open_video(task.path, task.sample.video_times_path) as video:
        shown = _chosen(video, task)
        step.begin("frames", len(shown.indices))
        zero_us = video.info().first_time_us or 0
        pictures = (
            (zero_us + shown.time_us(place), video.to_rgb(frame))
            for place, frame in enumerate(_decoded(video, shown.indices))
        )
        count = write_frames(task.output, step.counted(pictures))
        starts_us, notes = shown.time_us(0), video.info().problems
    return Written("frames", size_of(task.output), frames=count, starts_us=starts_us, notes=notes)


def to_mp4(task: Task, step: Step) -> Written:
    """Every frame at its own time, or at a fixed rate those on show."""
    from evprof.loaders.writers.mp4 import Encoding, write_mp4

    recipe = task.recipe
    with open_video(task.path, task.sample.video_times_path) as video:
        shown = _chosen(video, task)
        step.begin("frames", len(shown.indices))
        is_turned = video.info().rotation % 360 != 0
        # As decoded, so that colours are not converted twice; turned ones as pictures.
        frames = (
            (shown.ticks[place] - shown.ticks[0], video.to_rgb(frame) if is_turned else frame)
            for place, frame in enumerate(_decoded(video, shown.indices))
        )
        encoding = Encoding(recipe.gop, recipe.b_frames, recipe.crf, recipe.size, recipe.preset)
        count = write_mp4(task.output, step.counted(frames), shown.base, encoding)
        starts_us, notes = shown.time_us(0), _notes(video, recipe)
    return Written("video", size_of(task.output), frames=count, starts_us=starts_us, notes=notes)


def to_events(task: Task, step: Step) -> Written:
    """What a contrast-threshold sensor would have seen of the frames, between which brightness changes linearly."""
    recipe = task.recipe
    with open_video(task.path, task.sample.video_times_path) as video:
        shown = _chosen(video, task)
        if len(shown.indices) < 2:
            raise UserError(f"{task.path}: events are made of changes, which a single frame does not have.")
        info = video.info()
        edge = _longest_edge(info.width, info.height, recipe.simulate_width)
        size = _first_size(video, shown.indices[0], edge)
        step.begin("frames", len(shown.indices))
        first_us: list[int] = []
        chunks = _simulated(video, shown, _simulator(recipe, size), edge, step)
        chunks = (_noted(chunk, first_us) for chunk in chunks)
        count = write_events(task.output, chunks, recipe, width=size[0], height=size[1])
        notes = (*_notes(video, recipe), _simulation_note(shown))
    return Written("events", size_of(task.output), events=count, starts_us=first_us[0], is_simulated=True, notes=notes)


def _chosen(video: VideoSource, task: Task) -> _Shown:
    """The frames that the clip and the recipe name. Raises UserError for a clip outside the video."""
    table = video.index()
    window = task.sample.window_us(-task.sample.video_offset_us)
    within = range(len(table)) if window is None else table.shown_within(*window)
    if not within:
        raise UserError(
            f"{task.path}: shows nothing in {task.sample.clip_text}; it lasts {table.duration_us / 1e6:.2f} s. "
            "Choose a part inside it."
        )
    recipe = task.recipe
    rate = recipe.rate
    if rate is not None and _has_no_times(video):
        # Pictures that nobody timed: the rate is theirs, and every one of them is shown.
        return _Shown(within, within, 1 / rate)
    if rate is not None:
        return _at_rate(table, within, rate, window)
    if recipe.frames is not None:
        listed = sorted({within[int(place)] for place in uniform_indices(len(within), recipe.frames)})
    else:
        listed = list(within[:: recipe.every or 1])
    first = int(table.pts[0])
    return _Shown(listed, [int(table.pts[index]) - first for index in listed], table.time_base)


def _at_rate(table: FrameTable, within: range, rate: Fraction, window: tuple[int, int] | None) -> _Shown:
    """The frames on show every 1 / rate seconds, from the first one on; a frame may come again."""
    start_us = table.time_us(within[0])
    stop_us = table.duration_us if window is None else min(table.duration_us, window[1])
    count = max(1, -(-(stop_us - start_us) * rate.numerator // (1_000_000 * rate.denominator)))
    first = round(start_us * rate / 1_000_000)
    indices = [table.index_at(start_us + round(place * 1_000_000 / rate)) for place in range(count)]
    return _Shown(indices, range(first, first + count), 1 / rate)


def _has_no_times(video: VideoSource) -> bool:
    return isinstance(video, ImageFolder) and video.info().first_time_us is None


def _decoded(video: VideoSource, indices: Iterable[int]) -> Iterator[Any]:
    """Each frame as `walk` gives it; one that comes again is not decoded again."""
    at, frame = -1, None
    for index in indices:
        if index != at or frame is None:
            for at, frame in video.walk(index):  # noqa: B007 - the last one is what is asked for
                pass
        yield frame


def _longest_edge(width: int, height: int, wanted: int | None) -> int | None:
    if wanted is None or wanted == width:
        return None
    if wanted > width:
        raise UserError(f"--simulate-width {wanted} is more than the video's {width} pixels; give {width} at most.")
    return max(1, round(max(width, height) * wanted / width))


def _first_size(video: VideoSource, index: int, edge: int | None) -> tuple[int, int]:
    for frame in _decoded(video, [index]):
        picture = video.to_rgb(frame, longest_edge=edge)
        return picture.shape[1], picture.shape[0]
    raise UserError(f"{video.path}: holds no frame.")


def _simulator(recipe: ConversionRecipe, size: tuple[int, int]) -> ContrastSimulator:
    from evprof.loaders.simulation import ContrastSimulator

    return ContrastSimulator(
        *size,
        positive=recipe.threshold,
        negative=recipe.threshold if recipe.threshold_off is None else recipe.threshold_off,
        spread=recipe.threshold_spread,
        refractory_us=recipe.refractory_us,
        seed=recipe.seed,
    )


def _simulated(
    video: VideoSource, shown: _Shown, simulator: ContrastSimulator, edge: int | None, step: Step
) -> Iterator[EventArray]:
    for place, frame in enumerate(_decoded(video, shown.indices)):
        picture: Picture = video.to_rgb(frame, longest_edge=edge)
        yield simulator.frame(picture, shown.time_us(place))
        step.advance(1)


def _noted(chunk: EventArray, first_us: list[int]) -> EventArray:
    """The chunk; the time of the very first event is remembered."""
    if len(chunk) and not first_us:
        first_us.append(int(chunk.t_us.min()))
    return chunk


def _simulation_note(shown: _Shown) -> str:
    last = len(shown.indices) - 1
    rate = 1_000_000 * last / max(1, shown.time_us(last) - shown.time_us(0))
    return (
        f"These events are simulated, from {number_text(rate, 3)} frames per second: between two frames brightness "
        "changes linearly, so times within a frame are interpolated, not measured."
    )


def _notes(video: VideoSource, recipe: ConversionRecipe) -> tuple[str, ...]:
    """What the video says of itself; a rate that was given answers the question which rate the pictures have."""
    return () if recipe.fps is not None and _has_no_times(video) else video.info().problems
