"""Samples to run on: bundled ones, those opened lately, and what is open now."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path

from PySide6.QtCore import QTimer, Signal
from PySide6.QtWidgets import QWidget

from evprof.core.errors import UserError
from evprof.core.sample import Sample
from evprof.core.units import ms_text
from ui.samples.clip_choice import clip_of, identity, sample_name
from ui.samples.openings import MOST_LISTED
from ui.state.current import CurrentState
from ui.style.theme import GRID, ThemeHolder
from ui.widgets.boxes import stacked
from ui.widgets.line_list import LineList, ListLine
from ui.widgets.panel_parts import EmptyState, section_head

MOST_LINES = 10
LARGEST_READ = 64 << 20
"""Larger event files are not read just to learn their length."""

_READ_WHOLE = ("npy", "npz")
"""Formats of which some files can only be opened by reading them."""


class Durations:
    """Lengths in µs by sample, read on a thread; None until they are known. `problems` say why one cannot be read."""

    def __init__(self) -> None:
        self.known: dict[Sample, int | None] = {}
        self.problems: dict[Sample, str] = {}
        self._left = 0
        self._pool = ThreadPoolExecutor(1, "evprof-durations")

    @property
    def is_busy(self) -> bool:
        return self._left > 0

    def ask(self, sample: Sample) -> None:
        if sample not in self.known:
            self.known[sample] = None
            self._left += 1
            self._pool.submit(self._read, sample)

    def close(self) -> None:
        """Ends the thread after the present file."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _read(self, sample: Sample) -> None:
        try:
            self.known[sample] = duration_us(sample)
        except UserError as error:
            self.problems[sample] = error.sentence
        finally:
            self._left -= 1


class SampleList(QWidget):
    """Badges say what a sample holds; a click chooses it.

    Signals:
        sample_chosen(object): the Sample.
        refused(object, str): a Sample that cannot be read was taken off the list, and why.
    """

    sample_chosen = Signal(object)
    refused = Signal(object, str)

    def __init__(
        self, themes: ThemeHolder, samples: Iterable[Sample], current: CurrentState, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._samples: list[Sample] = []
        self._of_runs: dict[Hashable, Sample] = {}
        """Samples of runs of this session that are listed for no other reason."""

        self._current = current
        self._marks: object = None
        """The marked line and all lines, as they are shown."""

        self._durations = Durations()
        self._is_reading = False
        self._looking = QTimer(self)
        self._looking.setInterval(200)
        self._looking.timeout.connect(self._look)
        self.list = LineList(themes, MOST_LINES)
        self.list.setAccessibleName("Samples")
        self._empty = EmptyState("No samples", "Open an event recording and the matching video in the toolbar.")
        self._empty.setContentsMargins(2 * GRID, 0, 2 * GRID, 0)
        head = section_head("Samples")
        head.setContentsMargins(2 * GRID, 0, 2 * GRID, 0)
        stacked(head, self._empty, self.list, on=self, margins=(0, GRID, 0, 0), spacing=GRID // 2)
        self.list.picked.connect(self._choose)
        self.add_all(list(samples))
        current.listeners.append(self._follow)

    @property
    def samples(self) -> list[Sample]:
        return list(self._listed().values())

    def _listed(self) -> dict[Hashable, Sample]:
        """What is listed, by identity: samples of runs first; the current one always."""
        listed = {identity(sample): sample for sample in (*self._of_runs.values(), *self._samples)}
        current = self._current.now.sample
        is_missing = identity(current) not in listed and identity(current) != identity(Sample())
        return {identity(current): current, **listed} if is_missing else listed

    def instead_of(self, sample: Sample) -> Sample | None:
        """The first sample, where `sample` is listed for no other reason than that it is current; None elsewhere."""
        listed = [*self._of_runs.values(), *self._samples]
        return None if identity(sample) in map(identity, listed) else next(iter(listed), None)

    def add(self, sample: Sample) -> None:
        """Lists a sample on top, unless the same files with the same clip are listed."""
        self.add_all([sample])
        if self._is_reading:
            self._ask(sample)

    def add_all(self, samples: Sequence[Sample]) -> None:
        """Lists samples on top in their order, without those that are listed already."""
        listed = {identity(entry) for entry in self._samples}
        fresh: dict[object, Sample] = {}
        for sample in samples:
            if identity(sample) not in listed:
                fresh.setdefault(identity(sample), sample)
        self._samples[:0] = fresh.values()
        self._fill()
        if self._is_reading:
            for sample in fresh.values():
                self._ask(sample)

    def replace(self, before: Sample, after: Sample) -> None:
        """Another part of a listed sample was chosen: it stands in the same line."""
        others = [entry for entry in self._samples if identity(entry) != identity(after)]
        place = next((place for place, entry in enumerate(others) if identity(entry) == identity(before)), None)
        if place is None:
            others.insert(0, after)
        else:
            others[place] = dataclasses.replace(after, prompt=others[place].prompt)
        self._samples = others
        self._fill()

    def add_of_runs(self, samples: Iterable[Sample]) -> None:
        """Lists samples of runs above the others, up to MOST_LISTED, for as long as their session is open."""
        listed = {*map(identity, self._samples), *self._of_runs}
        fresh = {key: sample for sample in samples if (key := identity(sample)) not in listed}
        if fresh:
            self._of_runs = dict(islice({**fresh, **self._of_runs}.items(), MOST_LISTED))
            self._fill()

    def forget_runs(self) -> None:
        """Another session is open: samples that were listed for runs of the one before leave."""
        self._of_runs.clear()
        self._fill()

    def read_durations(self) -> None:
        """Begins to read lengths, also of samples that come later; for after the first paint."""
        self._is_reading = True
        for sample in self._samples:
            self._ask(sample)

    def _ask(self, sample: Sample) -> None:
        if not sample.is_clip:
            self._durations.ask(sample)
            self._looking.start()

    def close_reader(self) -> None:
        """Ends the thread that reads lengths."""
        self._looking.stop()
        self._durations.close()

    def _look(self) -> None:
        if not self._durations.is_busy:
            self._looking.stop()
        for sample, sentence in list(self._durations.problems.items()):
            # Of a pair the other half may well be read; its line says what is wrong.
            if sample in self._samples and None in (sample.events_path, sample.video_path):
                self._refuse(sample, sentence)
        self._fill()

    def _refuse(self, sample: Sample, sentence: str) -> None:
        was_current = identity(self._current.now.sample) == identity(sample)
        self._samples.remove(sample)
        del self._durations.known[sample], self._durations.problems[sample]
        self.refused.emit(sample, sentence)
        if was_current and self._samples:
            self.sample_chosen.emit(self._samples[0])

    def _follow(self) -> None:
        if self._marks != (identity(self._current.now.sample), list(self._listed())):
            self._fill()

    def _fill(self) -> None:
        self._marks = identity(self._current.now.sample), list(self._listed())
        lines = [self._line(sample) for sample in self._listed().values()]
        self.list.show_lines(lines, identity(self._current.now.sample))
        self.list.setVisible(bool(lines))
        self._empty.setVisible(not lines)

    def _line(self, sample: Sample) -> ListLine:
        duration = self._durations.known.get(sample)
        halves = {"events": sample.events_path, "video": sample.video_path}
        figure = "" if duration is None else ms_text(duration / 1000)
        tip = "\n".join(path for path in halves.values() if path)
        if sample.is_clip:
            figure, tip = clip_of(sample, 0).words, f"{tip}\nClip: {sample.clip_text}"
        if problem := self._durations.problems.get(sample, ""):
            figure, tip = "cannot be read", f"{tip}\n{problem}"
        second = " · ".join(filter(None, (*(name for name, path in halves.items() if path is not None), figure)))
        return ListLine(identity(sample), sample_name(sample), second=second, tip=tip, tells_by_end=sample.is_clip)

    def _choose(self, key: object) -> None:
        if (sample := self._listed().get(key)) is not None:
            self.sample_chosen.emit(sample)


def duration_us(sample: Sample) -> int | None:
    """Length of the events, or without events of the video; None where it is not cheap to know. Raises UserError."""
    from evprof.loaders.events.opening import format_of, open_recording
    from evprof.loaders.events.recording import HEAD_BYTES
    from evprof.loaders.paths import first_bytes
    from evprof.loaders.pictures.frame_folder import is_frame_set
    from evprof.loaders.videos.opening import open_video

    path = sample.events_path
    if path is not None and Path(path).is_file() and not is_frame_set(path):
        form = format_of(first_bytes(path, HEAD_BYTES))
        is_small = Path(path).stat().st_size <= LARGEST_READ
        if is_small or (form is not None and form.name not in _READ_WHOLE):
            with open_recording(path) as recording:
                info = recording.info
                if info.t_min_us is not None and info.t_max_us is not None:
                    return info.t_max_us - info.t_min_us
                if is_small:
                    return recording.read().duration_us
    if sample.video_path is not None:
        with open_video(sample.video_path, sample.video_times_path) as video:
            return round(video.info().duration_ms * 1000)
    return None
