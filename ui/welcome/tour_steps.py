"""The steps of the tour in this window: run, look, compare, export. Six clicks in all."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtWidgets import QWidget

from evprof.core.run_info import FINISHED
from ui.settings.toolbar import Toolbar
from ui.timeline.timeline_view import TimelineView
from ui.welcome.start_page import StartPage
from ui.welcome.tour import TourStep


def tour_steps(
    page: StartPage,
    toolbar: Toolbar,
    timeline: TimelineView,
    more: QWidget,
    *,
    is_comparing: Callable[[], bool],
    has_written: Callable[[], bool],
) -> list[TourStep]:
    """What is done with the bundled sample, in order; what was done before counts."""
    controller, selection = timeline.controller, timeline.selection

    def runs() -> QWidget:
        return page.buttons["demo"] if page.isVisible() else timeline.empty.button

    def has_run() -> bool:
        finished = [run for run in controller.runs.values() if run.info.status == FINISHED]
        return len(finished) > 1 and not controller.is_busy

    return [
        TourStep(
            "Run the bundled sample",
            "Press this button. Both models describe the same scene, the small one from its events and the large one "
            "from its video; then the small one drafts for the large one. It takes some seconds.",
            runs,
            has_run,
        ),
        TourStep(
            "Click a bar of the timeline",
            "Each bar is a stage of a model, on one clock. Drag over some to sum a range, turn the wheel to zoom.",
            lambda: timeline,
            lambda: selection.chosen is not None,
        ),
        TourStep(
            "Compare the runs",
            "Press Ctrl+K, or More in the comparison: ratios, what each stage adds, and whether they differ for sure.",
            lambda: more,
            is_comparing,
        ),
        TourStep(
            "Keep the result",
            "Open Export, choose what to write, such as the session or a table, and say where.",
            lambda: toolbar.export,
            has_written,
            actions=3,
        ),
    ]
