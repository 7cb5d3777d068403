"""A film of one run or of two side by side, picture by picture, and its file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from fractions import Fraction
from pathlib import Path

import numpy as np
from PIL import Image

from evprof.core.errors import CANCELLED, USAGE, UserError
from evprof.core.files.whole_file import whole_path
from evprof.core.protocols import StopFlag
from evprof.core.run_log import RunLog
from evprof.export.film.canvas import FilmCanvas, Seen
from evprof.export.film.scene import SafeScene
from evprof.export.film.words import timed_tokens
from evprof.view.columns import RunPair, ShownModel, columns_of

SECONDS = 10.0
"""How long a film lasts unless something else is asked for."""

LEAST_S, MOST_S = 1.0, 60.0

MP4_RATE, GIF_RATE = 30, 10
"""Pictures per second."""

ENDINGS = (".mp4", ".gif")

_GIF_SIZE = (800, 450)
"""Pillow holds all pictures of a GIF until they are written, a byte for each pixel: 216 MB of the longest film."""

_HOLD = 0.1
"""Share of a film in which its last picture stands still, so that it can be read."""

Reached = Callable[[int, int], object]
"""Told how many pictures of how many are done."""


class Film:
    """One clock for all: the scene as it was, and the runs as they were, so long after their beginning."""

    def __init__(self, columns: Sequence[ShownModel], seconds: float = SECONDS, rate: int = MP4_RATE) -> None:
        """Raises UserError (exit code 2) for runs without a time and for a length that is out of bounds."""
        if not LEAST_S <= seconds <= MOST_S:
            raise UserError(f"A film lasts {LEAST_S:g} to {MOST_S:g} seconds, not {seconds:g}.", exit_code=USAGE)
        self.last_ns = max((_length_ns(shown.run) for shown in columns), default=0)
        if self.last_ns <= 0:
            raise UserError("There is nothing to film: no such run has measured times.", exit_code=USAGE)
        self.columns = list(columns)
        self.rate = rate
        self.count = max(2, round(seconds * rate))
        moving = max(2, round(self.count * (1 - _HOLD)))
        self.moments_ns = [round(self.last_ns * min(1.0, place / (moving - 1))) for place in range(self.count)]
        self.canvas = FilmCanvas(self.columns, self.last_ns, _speed_words(self.last_ns, (moving - 1) / rate))

    def pictures(self) -> Iterator[Image.Image]:
        """Every picture, one at a time."""
        with ExitStack() as stack:
            scenes = [stack.enter_context(SafeScene(shown.run, shown.role)) for shown in self.columns]
            starts = [shown.run.info.sample.start_us or 0 for shown in self.columns]
            for t_ns in self.moments_ns:
                seen: list[Seen] = []
                for scene, start_us in zip(scenes, starts, strict=True):
                    picture = scene.at(start_us + t_ns // 1000)
                    seen.append((picture, scene.note))
                yield self.canvas.picture(t_ns, seen)


def film_columns(runs: Mapping[int, RunLog], pair: RunPair) -> list[ShownModel]:
    """What a film of a pair of runs shows. Raises UserError (exit code 2) where there is nothing."""
    found = [shown for shown in columns_of(runs, pair) if shown is not None]
    if not found:
        raise UserError("There is nothing to film: choose one run, or two side by side.", exit_code=USAGE)
    return found


def write_film(
    columns: Sequence[ShownModel],
    path: Path,
    *,
    seconds: float = SECONDS,
    reached: Reached | None = None,
    stop: StopFlag | None = None,
) -> int:
    """Writes an MP4 or a GIF, as the name ends; returns how many pictures it has.

    Holds one picture at a time (of a GIF all, small). Raises UserError when it is stopped, when the name ends otherwise
    and when the place cannot be used; nothing is left behind then.
    """
    check_film_name(path)
    is_gif = path.suffix.lower() == ".gif"
    film = Film(columns, seconds, GIF_RATE if is_gif else MP4_RATE)
    pictures = _counted(film, reached, stop)
    try:
        if is_gif:
            _write_gif(path, pictures, film.rate)
        else:
            from evprof.loaders.writers.encoder import Encoding
            from evprof.loaders.writers.mp4 import write_mp4

            numbered = ((place, np.asarray(picture)) for place, picture in enumerate(pictures))
            write_mp4(path, numbered, Fraction(1, film.rate), Encoding(gop=film.rate, crf=18))
    except OSError as error:
        raise UserError(f"'{path}' cannot be written ({error.strerror or error}); name another place.") from error
    return film.count


def check_film_name(path: Path) -> None:
    """Raises UserError (exit code 2) unless a name ends as a film's."""
    if path.suffix.lower() not in ENDINGS:
        raise UserError(
            f"A film is written as {' or '.join(ENDINGS)}, so name it '{path.stem or 'film'}.mp4'.", exit_code=USAGE
        )


def _counted(film: Film, reached: Reached | None, stop: StopFlag | None) -> Iterator[Image.Image]:
    for place, picture in enumerate(film.pictures()):
        if stop is not None and stop.is_set():
            raise UserError("The film was cancelled; nothing was written.", exit_code=CANCELLED)
        yield picture
        if reached is not None:
            reached(place + 1, film.count)


def _write_gif(path: Path, pictures: Iterator[Image.Image], rate: int) -> None:
    """Each picture with colours of its own; equal ones that follow one another become one that lasts longer."""
    small = (
        picture.resize(_GIF_SIZE, Image.Resampling.LANCZOS).quantize(
            256, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE
        )
        for picture in pictures
    )
    with whole_path(path) as unfinished, unfinished.open("wb") as stream:
        first = next(small)
        first.save(stream, "GIF", save_all=True, append_images=small, duration=1000 // rate, loop=0)
        stream.close()


def _length_ns(run: RunLog) -> int:
    """From a run's beginning to its end, or to its last sign of life; 0 where neither is known."""
    start = run.info.start_ns
    if start is None:
        return 0
    ends = [
        run.info.end_ns,
        *(span.end_ns for span in run.spans.values()),
        *(one.t_ns for one in timed_tokens(run)[-1:]),
    ]
    return max((end - start for end in ends if end is not None), default=0)


def _speed_words(last_ns: int, film_s: float) -> str:
    """How fast the film goes beside what it shows."""
    slower = film_s / (last_ns / 1e9)
    if 0.95 < slower < 1.05:
        return "as fast as it was"
    return f"{slower:.3g} times slower than it was" if slower > 1 else f"{1 / slower:.3g} times faster than it was"
