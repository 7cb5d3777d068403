"""Joins the part chosen on the scrubber with the sample that runs next, the list of samples, and what is said of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject

from evprof.core.sample import Sample
from ui.players.clip_range import MODEL_US, ClipRange
from ui.samples.clip_choice import (
    clip_of,
    clips_of,
    cut_sentence,
    files_of,
    identity,
    obstacle,
    too_long_sentence,
    with_clip,
)

if TYPE_CHECKING:
    from ui.window.main_window import MainWindow

TAKE = "Take 50 ms here"


class Clips(QObject):
    """Follows the window's sample, its players and what is on show."""

    def __init__(self, window: MainWindow) -> None:
        super().__init__(window)
        self._window = window
        self._told: set[object] = set()
        self._sentence = ""
        self._goal_us: int | None = None
        self._seen: object = None
        self._is_fresh = False
        window.pair.clock.changed.connect(self.refresh)
        window.pair.sample_shown.connect(self.refresh)
        window.pair.scrubber.clip_changed.connect(self.take)
        window.pair.scrubber.cut_asked.connect(self.cut)

    def refresh(self) -> None:
        """Shows the part that the next run takes, or that the run on show took."""
        window = self._window
        shown, following = window.pair.shown_sample, window.toolbar.sample
        whole_us = window.pair.clock.stop_us
        if shown is not None and identity(shown) != self._seen:
            # Another run: its models looked at a part that may lie elsewhere.
            self._seen = identity(shown)
            self._goal_us = (shown.start_us or 0) if shown.is_clip else None
        if self._goal_us is not None and whole_us > self._goal_us:
            goal_us, self._goal_us = self._goal_us, None
            window.pair.clock.seek(goal_us)
        overlap = window.pair.clock.overlap_us
        if self._is_fresh and overlap is not None:
            self._is_fresh = False
            if window.pair.clock.position_us == 0:
                window.pair.clock.seek(overlap[0])
        reason = obstacle(shown, following, whole_us)
        of = following if shown is not None and files_of(shown) == files_of(following) else shown or following
        clip = clip_of(of, whole_us)
        if (clip, reason) != (window.pair.scrubber.clip, window.pair.scrubber.obstacle):
            window.pair.scrubber.show_clip(clip, reason)
        self._warn()

    def go_to(self, sample: Sample) -> None:
        """Stands the players where there is something to see, as soon as they are open: at a clip's beginning, or where
        both halves are there."""
        self._seen = identity(sample)
        self._goal_us = (sample.start_us or 0) if sample.is_clip else None
        self._is_fresh = not sample.is_clip
        self.refresh()

    def take(self, clip: ClipRange) -> None:
        """Makes a part the one to run next."""
        window = self._window
        before = window.toolbar.sample
        sample = with_clip(before, clip)
        window.toolbar.take_clip(sample)
        window.samples.replace(before, sample)
        window.pair.keep_sample(sample)
        if window.selection.runs == (None, None):
            self._seen = identity(sample)
        self.refresh()

    def take_here(self) -> None:
        """What EventGPT was made for, from the players' position on, or the nearest that both halves cover."""
        window = self._window
        here_us, common = window.pair.clock.position_us, self._common_us()
        if common is not None:
            here_us = max(common[0], min(here_us, common[1] - MODEL_US))
        whole = clip_of(window.toolbar.sample, window.pair.clock.stop_us).all()
        self.take(whole.from_here(here_us, MODEL_US))

    def cut(self, length_us: int) -> None:
        """Lists clips of the sample, end to end over what both halves cover."""
        window = self._window
        sample, common = window.toolbar.sample, self._common_us()
        clips = [] if common is None else clips_of(sample, common, length_us)
        if not clips or common is None:
            window.messages.post("Events and video have nothing that long in common.", "warn")
            return
        window.samples.add_all(clips)
        window.show_sample(clips[0])
        window.messages.post(cut_sentence(common, length_us), "info")

    def action_for(self, sentence: str) -> bool:
        """Whether a run's warning is about the length of the events that are open, whole."""
        sample = self._window.toolbar.sample
        is_meant = sample.events_path is not None and sentence.startswith(sample.events_path)
        return is_meant and bool(too_long_sentence(self._window.toolbar.form, self._events_us()))

    def _common_us(self) -> tuple[int, int] | None:
        """What all inputs cover, from the sample's zero on."""
        spans = self._window.pair.clock.spans
        if not spans:
            return None
        # A recording's span ends with its last event, which belongs to it still; a video's ends behind its last frame.
        stops = [span.stop_us + 1 if span.what == "events" else span.stop_us for span in spans]
        start, stop = max(0, *(span.start_us for span in spans)), min(stops)
        return (start, stop) if start < stop else None

    def _events_us(self) -> int | None:
        spans = self._window.pair.clock.spans
        return next((span.stop_us - span.start_us for span in spans if span.what == "events"), None)

    def _warn(self) -> None:
        """Says once for each recording, while it is open whole, that it is longer than the model was made for."""
        window = self._window
        is_next = window.selection.runs == (None, None)
        sample: Sample = window.toolbar.sample
        shown = window.pair.shown_sample
        is_shown = shown is not None and files_of(shown) == files_of(sample)
        sentence = too_long_sentence(window.toolbar.form, self._events_us()) if is_next and is_shown else ""
        if sentence == self._sentence:
            return
        if self._sentence:
            window.messages.retract(self._sentence)
        self._sentence = sentence
        if sentence and sample.events_path not in self._told:
            self._told.add(sample.events_path)
            window.messages.post(sentence, "warn", TAKE, self.take_here)
