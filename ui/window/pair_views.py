"""What the columns show of the selection's runs, and the part of a sample that runs next."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject, Signal

from evprof.core.sample import Sample
from evprof.view.columns import ShownModel, columns_of
from ui.columns.model_pair import ModelPair
from ui.players.clip_range import MODEL_US, ClipRange
from ui.runs.inspector import Inspector
from ui.runs.pair_figures import ComparisonPanel
from ui.runs.speculation_panel import SpeculationPanel
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
from ui.samples.sample_list import SampleList
from ui.settings.toolbar import Toolbar
from ui.state.cells import configuration_of, speculative_run
from ui.state.run_controller import RunController
from ui.state.selection import Selection
from ui.widgets.message_bar import MessageBar


class PairViews(QObject):
    """Shows the runs of the selection in `pair`, `comparison`, `speculation` and `inspector`, and follows them.

    `follow` is called with the sample of the shown runs.
    """

    def __init__(
        self,
        controller: RunController,
        selection: Selection,
        pair: ModelPair,
        panels: tuple[ComparisonPanel, SpeculationPanel, Inspector],
        follow: Callable[[Sample], object],
    ) -> None:
        super().__init__(pair)
        self._controller, self._selection, self._pair = controller, selection, pair
        self._comparison, self._speculation, self._inspector = panels
        self._follow = follow
        selection.runs_changed.connect(self.show)

    def show(self, *_: object) -> None:
        a, b = self._columns()
        self._pair.show_columns(a, b)
        if (shown := b or a) is not None:
            self._follow(shown.run.info.sample)
        self._show_comparison()
        self._show_speculation()

    def refresh(self, run_ids: set[int]) -> None:
        """Takes in the new rows of runs: inputs and answers."""
        if not run_ids.intersection(self._selection.runs):
            return
        shown = self._pair.left.column, self._pair.right.column
        if any(before is None and now is not None for before, now in zip(shown, self._columns(), strict=True)):
            self.show()
        self._pair.refresh()

    def refresh_figures(self, run_ids: set[int]) -> None:
        """Works the figures out again; the end of any run can change what the shown runs are compared with."""
        runs = self._controller.runs
        is_shown = bool(run_ids.intersection(self._selection.runs))
        if is_shown or any(run_id not in runs or runs[run_id].info.is_over for run_id in run_ids):
            self._show_comparison()
            self._show_speculation()
        if is_shown:
            self._inspector.refresh()

    def _show_comparison(self) -> None:
        runs, of_cell = self._controller.runs, self._selection.of_cells
        a, b = self._columns()
        cells = (configuration_of(runs, a, of_cell=of_cell), configuration_of(runs, b, of_cell=of_cell))
        self._comparison.show_columns(a, b, cells)

    def _show_speculation(self) -> None:
        run = speculative_run([self._controller.run(run_id) for run_id in self._selection.runs])
        self._speculation.show_run(run, self._controller.runs)

    def _columns(self) -> tuple[ShownModel | None, ShownModel | None]:
        return columns_of(self._controller.runs, self._selection.runs)


TAKE = "Take 50 ms here"


class Clips(QObject):
    """Follows the sample that runs next, its players and what is on show.

    Signals:
        cut_out(object): the Sample to run next, the first of the clips that were listed.
    """

    cut_out = Signal(object)

    def __init__(
        self, pair: ModelPair, toolbar: Toolbar, samples: SampleList, selection: Selection, messages: MessageBar
    ) -> None:
        super().__init__(pair)
        self._pair = pair
        self._toolbar = toolbar
        self._samples = samples
        self._selection = selection
        self._messages = messages
        self._told: set[object] = set()
        self._sentence = ""
        self._goal_us: int | None = None
        self._seen: object = None
        self._is_fresh = False
        pair.clock.changed.connect(self.refresh)
        pair.sample_shown.connect(self.refresh)
        pair.scrubber.clip_changed.connect(self.take)
        pair.scrubber.cut_asked.connect(self.cut)

    def refresh(self) -> None:
        """Shows the part that the next run takes, or that the run on show took."""
        shown, following = self._pair.shown_sample, self._toolbar.sample
        whole_us = self._pair.clock.stop_us
        if shown is not None and identity(shown) != self._seen:
            # Another run: its models looked at a part that may lie elsewhere.
            self._seen = identity(shown)
            self._goal_us = (shown.start_us or 0) if shown.is_clip else None
        if self._goal_us is not None and whole_us > self._goal_us:
            goal_us, self._goal_us = self._goal_us, None
            self._pair.clock.seek(goal_us)
        overlap = self._pair.clock.overlap_us
        if self._is_fresh and overlap is not None:
            self._is_fresh = False
            if self._pair.clock.position_us == 0:
                self._pair.clock.seek(overlap[0])
        reason = obstacle(shown, following, whole_us)
        of = following if shown is not None and files_of(shown) == files_of(following) else shown or following
        clip = clip_of(of, whole_us)
        if (clip, reason) != (self._pair.scrubber.clip, self._pair.scrubber.obstacle):
            self._pair.scrubber.show_clip(clip, reason)
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
        before = self._toolbar.sample
        sample = with_clip(before, clip)
        self._toolbar.choose_clip(sample)
        self._samples.replace(before, sample)
        self._pair.keep_sample(sample)
        if self._selection.runs == (None, None):
            self._seen = identity(sample)
        self.refresh()

    def take_here(self) -> None:
        """What EventGPT was made for, from the players' position on, or the nearest that both halves cover."""
        here_us, common = self._pair.clock.position_us, self._common_us()
        if common is not None:
            here_us = max(common[0], min(here_us, common[1] - MODEL_US))
        whole = clip_of(self._toolbar.sample, self._pair.clock.stop_us).all()
        self.take(whole.from_here(here_us, MODEL_US))

    def cut(self, length_us: int) -> None:
        """Lists clips of the sample, end to end over what both halves cover."""
        sample, common = self._toolbar.sample, self._common_us()
        clips = [] if common is None else clips_of(sample, common, length_us)
        if not clips or common is None:
            self._messages.post("Events and video do not overlap for that long.", "warn")
            return
        self._samples.add_all(clips)
        self.cut_out.emit(clips[0])
        self._messages.post(cut_sentence(common, length_us), "info")

    def action_for(self, sentence: str) -> bool:
        """Whether a run's warning is about the length of the events that are open, whole."""
        sample = self._toolbar.sample
        is_meant = sample.events_path is not None and sentence.startswith(sample.events_path)
        return is_meant and bool(too_long_sentence(self._toolbar.form, self._events_us()))

    def _common_us(self) -> tuple[int, int] | None:
        """What all inputs cover, from the sample's zero on."""
        spans = self._pair.clock.spans
        if not spans:
            return None
        # A recording's span ends with its last event, which still belongs to it; a video's ends after its last frame.
        stops = [span.stop_us + 1 if span.what == "events" else span.stop_us for span in spans]
        start, stop = max(0, *(span.start_us for span in spans)), min(stops)
        return (start, stop) if start < stop else None

    def _events_us(self) -> int | None:
        spans = self._pair.clock.spans
        return next((span.stop_us - span.start_us for span in spans if span.what == "events"), None)

    def _warn(self) -> None:
        """Says once for each recording, while it is open whole, that it is longer than the model was made for."""
        is_next = self._selection.runs == (None, None)
        sample: Sample = self._toolbar.sample
        shown = self._pair.shown_sample
        is_shown = shown is not None and files_of(shown) == files_of(sample)
        sentence = too_long_sentence(self._toolbar.form, self._events_us()) if is_next and is_shown else ""
        if sentence == self._sentence:
            return
        if self._sentence:
            self._messages.retract(self._sentence)
        self._sentence = sentence
        if sentence and sample.events_path not in self._told:
            self._told.add(sample.events_path)
            self._messages.post(sentence, "warn", TAKE, self.take_here)
