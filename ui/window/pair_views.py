"""What the columns show of the selection's runs, and the part of a sample that runs next."""

from __future__ import annotations

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
from ui.state.cells import configuration_of, speculative_run
from ui.state.current import NO_RUNS, CurrentState
from ui.state.recent import Recent
from ui.state.run_controller import RunController
from ui.state.selection import Selection


class PairViews(QObject):
    """Shows the current runs, or without one the current sample, in `pair`, `comparison`, `speculation` and
    `inspector`, and follows them.
    """

    def __init__(
        self,
        controller: RunController,
        selection: Selection,
        pair: ModelPair,
        panels: tuple[ComparisonPanel, SpeculationPanel, Inspector],
    ) -> None:
        super().__init__(pair)
        self._controller, self._selection, self._pair = controller, selection, pair
        self._comparison, self._speculation, self._inspector = panels
        self._comparison.explained.connect(pair.explain)
        self._files: object = None
        selection.runs_changed.connect(self.show)
        selection.current.listeners.append(self._follow_sample)
        controller.ticked.connect(self._advance)

    def _follow_sample(self) -> None:
        """Shows the files of another sample, where no run is shown."""
        if self._selection.runs == NO_RUNS and self._files != files_of(self._selection.current.now.sample):
            self.show()

    def show(self, *_: object) -> None:
        self._files = files_of(self._selection.current.now.sample)
        self._pair.show_columns(*self._columns())
        self._show_comparison()
        self._show_speculation()

    def _advance(self) -> None:
        """Running stages grow with every tick, as they do in the timeline."""
        if self._controller.is_busy:
            self._pair.refresh()

    def refresh(self, run_ids: set[int]) -> None:
        """Takes in the new rows of runs: inputs and answers."""
        if not run_ids.intersection(self._selection.runs):
            return
        shown = self._pair.left.column, self._pair.right.column
        if any(before is None and now is not None for before, now in zip(shown, self._columns(), strict=True)):
            self._selection.current.show_runs(self._selection.runs, self._selection.cell)
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
    """Follows the current sample, its players and what is on show."""

    def __init__(self, pair: ModelPair, recent: Recent, samples: SampleList, current: CurrentState) -> None:
        super().__init__(pair)
        self._pair = pair
        self._recent = recent
        self._samples = samples
        self._current = current
        self._goal_us: int | None = None
        self._seen: object = None
        self._is_fresh = False
        pair.clock.changed.connect(self.refresh)
        pair.sample_shown.connect(self.refresh)
        pair.scrubber.clip_changed.connect(self.take)
        current.listeners.append(self.refresh)

    def refresh(self) -> None:
        """Shows the part that the next run takes, or that the run on show took."""
        shown, following = self._pair.shown_sample, self._current.now.sample
        whole_us = self._pair.clock.stop_us
        if identity(shown) != self._seen:
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
        of = following if files_of(shown) == files_of(following) else shown
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
        before = self._current.now.sample
        sample = with_clip(before, clip)
        self._samples.replace(before, sample)
        self._current.change(sample=sample)
        self._recent.note_sample(sample)
        if self._current.now.runs == NO_RUNS:
            self._seen = identity(sample)
        self.refresh()
