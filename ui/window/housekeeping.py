"""Keeps Python from holding up the window: garbage little and often, other threads give way sooner, and what a run's
first picture needs is imported before there is a run.

Records are plain data without cycles; looking through hundreds of thousands of them finds nothing and takes long.
"""

from __future__ import annotations

import gc
import importlib
import logging
import sys

from PySide6.QtCore import QObject, QTimer

from ui.state.run_controller import RunController

YOUNG_INTERVAL_MS = 500
OLD_INTERVAL_MS = 30_000
SWITCH_INTERVAL_S = 0.0003
"""How long the pump and the session writer may go on while the window waits for its turn (Python's own: 5 ms). A
picture gives its turn away at every call of Qt's."""

IMPORT_INTERVAL_MS = 40
"""Between two modules: people move the window meanwhile."""

MODULES = (
    "evprof.metrics.configurations.settings_text",
    "evprof.metrics.estimates.estimates",
    "evprof.metrics.speculation.clinic",
    "evprof.metrics.speculation.verdicts",
    "evprof.metrics.figures.loading",
    "evprof.metrics.comparison.answers",
    "evprof.metrics.comparison.rows",
    "evprof.metrics.comparison.document",
    "evprof.metrics.comparison.figures",
    "evprof.metrics.costs.two_clocks",
    "evprof.metrics.run_summary",
    "ui.runs.range_details",
    "ui.runs.run_summary",
    "ui.runs.token_details",
    "concurrent.futures.thread",
    "evprof.loaders.content",
    "numpy.ma",
    "psutil",
)
"""What is asked for from the first row of a run to its end, in parts of some ms: all at once they take as long as
several pictures."""

logger = logging.getLogger(__name__)


class Housekeeping(QObject):
    """Collects young garbage twice a second; old garbage once after runs or another session, while nothing runs.
    While no run goes on it imports what runs need, one module at a time."""

    def __init__(self, controller: RunController) -> None:
        super().__init__(controller)
        self._controller = controller
        self._was_enabled = gc.isenabled()
        self._switch_interval_s = sys.getswitchinterval()
        self._timers: list[QTimer] = []
        self._has_old = True
        self._to_import = list(reversed(MODULES))
        controller.busy_changed.connect(self._expect_old)
        controller.session_replaced.connect(self._expect_old)

    def start(self) -> None:
        """Takes over from the collector's own rhythm."""
        gc.disable()
        sys.setswitchinterval(SWITCH_INTERVAL_S)
        for interval, work in (
            (YOUNG_INTERVAL_MS, self._collect_young),
            (OLD_INTERVAL_MS, self._collect_old),
            (IMPORT_INTERVAL_MS, self._import_one),
        ):
            timer = QTimer(self)
            timer.setInterval(interval)
            timer.timeout.connect(work)
            timer.start()
            self._timers.append(timer)

    def stop(self) -> None:
        """Gives the collector back."""
        for timer in self._timers:
            timer.stop()
        self._timers.clear()
        sys.setswitchinterval(self._switch_interval_s)
        gc.unfreeze()
        if self._was_enabled:
            gc.enable()

    @property
    def has_imported(self) -> bool:
        """Whether everything that runs need is there."""
        return not self._to_import

    def _import_one(self) -> None:
        if self._controller.is_busy:
            return
        if not self._to_import:
            self._timers.pop().stop()
            # What is there by now stays: looking through all of it again would hold up the window for 0.1 s.
            gc.freeze()
            return
        try:
            importlib.import_module(self._to_import.pop())
        except ImportError:
            # Who needs it tells what is wrong with it.
            logger.warning("A part of the program could not be read.", exc_info=True)

    def _collect_young(self) -> None:
        gc.collect(0)

    def _collect_old(self) -> None:
        # Looking through a large session takes tenths of a second: not again and again while a person only reads it.
        if self._has_old and not self._controller.is_busy:
            self._has_old = False
            gc.collect()

    def _expect_old(self, *_: object) -> None:
        self._has_old = True
