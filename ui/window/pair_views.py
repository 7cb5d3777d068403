"""What the columns show of the selection's runs, and the part of a sample that runs next."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject

from evprof.core.sample import Sample
from evprof.view.columns import ShownModel, columns_of
from ui.columns.model_pair import ModelPair
from ui.players.clip_range import ClipRange
from ui.runs.inspector import Inspector
from ui.runs.pair_figures import ComparisonPanel
from ui.runs.speculation_panel import SpeculationPanel
from ui.samples.clip_choice import clip_of, files_of, identity, obstacle, with_clip
from ui.samples.sample_list import SampleList
from ui.settings.toolbar import Toolbar
from ui.state.cells import configuration_of, speculative_run
from ui.state.run_controller import RunController
from ui.state.selection import Selection


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
        self._comparison.explained.connect(pair.explain)
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


class Clips(QObject):
    """Follows the sample that runs next, its players and what is on show."""

    def __init__(self, pair: ModelPair, toolbar: Toolbar, samples: SampleList, selection: Selection) -> None:
        super().__init__(pair)
        self._pair = pair
        self._toolbar = toolbar
        self._samples = samples
        self._selection = selection
        self._goal_us: int | None = None
        self._seen: object = None
        self._is_fresh = False
        pair.clock.changed.connect(self.refresh)
        pair.sample_shown.connect(self.refresh)
        pair.scrubber.clip_changed.connect(self.take)

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
