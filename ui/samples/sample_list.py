"""Samples to run on: bundled ones, those opened lately, and what is open now."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from PySide6.QtCore import QTimer, Signal
from PySide6.QtWidgets import QWidget

from evprof.core.sample import Sample
from evprof.core.units import ms_text
from ui.samples.clip_choice import clip_of, identity, sample_name
from ui.samples.durations import Durations
from ui.style.theme import GRID, ThemeHolder
from ui.widgets.boxes import stacked
from ui.widgets.empty_state import EmptyState
from ui.widgets.line_list.line import ListLine
from ui.widgets.line_list.view import LineList
from ui.widgets.panel_parts import section_head

MOST_LINES = 10


class SampleList(QWidget):
    """Badges say what a sample holds; a click chooses it.

    Signals:
        sample_chosen(object): the Sample.
        refused(object, str): a Sample that cannot be read was taken off the list, and why.
    """

    sample_chosen = Signal(object)
    refused = Signal(object, str)

    def __init__(self, themes: ThemeHolder, samples: Iterable[Sample] = (), parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._samples: list[Sample] = []
        self._current: Sample | None = None
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
        for sample in samples:
            if all(identity(sample) != identity(entry) for entry in self._samples):
                self._samples.append(sample)
        self._fill()

    @property
    def samples(self) -> list[Sample]:
        """What is listed."""
        return list(self._samples)

    def add(self, sample: Sample) -> None:
        """Lists a sample on top, unless the same files with the same clip are listed."""
        if not any(identity(entry) == identity(sample) for entry in self._samples):
            self._samples.insert(0, sample)
            self._fill()
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
            others[place] = after
        self._samples = others
        self._current = after
        self._fill()

    def follow(self, sample: Sample) -> Sample | None:
        """Marks the sample that a run looked at, and nothing where it is not listed; the sample as it is listed."""
        key = identity(sample)
        found = next((entry for entry in self._samples if identity(entry) == key), None)
        self.set_current(found)
        return found

    def set_current(self, sample: Sample | None) -> None:
        """Marks the sample that will be run next."""
        self._current = sample
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
        was_current = self._current is not None and identity(self._current) == identity(sample)
        self._samples.remove(sample)
        del self._durations.known[sample], self._durations.problems[sample]
        self.refused.emit(sample, sentence)
        if was_current and self._samples:
            self.sample_chosen.emit(self._samples[0])

    def _fill(self) -> None:
        lines = [self._line(sample) for sample in self._samples]
        current = identity(self._current) if self._current else None
        self.list.show_lines(lines, current)
        self.list.setVisible(bool(lines))
        self._empty.setVisible(not lines)

    def _line(self, sample: Sample) -> ListLine:
        duration = self._durations.known.get(sample)
        paths = [path for path in (sample.events_path, sample.video_path) if path]
        icons = tuple(
            name for name, path in (("events", sample.events_path), ("video", sample.video_path)) if path is not None
        )
        figure = "" if duration is None else ms_text(duration / 1000)
        tip = "\n".join(paths)
        if sample.is_clip:
            figure = clip_of(sample, 0).words
            tip = f"{tip}\nClip: {sample.clip_text}"
        problem = self._durations.problems.get(sample, "")
        if problem:
            figure, tip = "cannot be read", f"{tip}\n{problem}"
        is_clip = sample.is_clip
        return ListLine(
            identity(sample), sample_name(sample), second=figure, tip=tip, icons=icons, tells_by_end=is_clip
        )

    def _choose(self, key: object) -> None:
        sample = next((entry for entry in self._samples if identity(entry) == key), None)
        if sample is not None and (self._current is None or identity(self._current) != key):
            self._current = sample
            self.sample_chosen.emit(sample)
