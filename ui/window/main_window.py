"""The window: makes the views, lays them out and connects them. Each decision lives in a class of its own."""

from __future__ import annotations

import gc
import importlib
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from PySide6.QtCore import QSettings, Qt, QTimer, Signal
from PySide6.QtGui import QCloseEvent, QDragEnterEvent, QDragLeaveEvent, QDropEvent, QPaintEvent, QShowEvent
from PySide6.QtWidgets import QDialog, QToolButton, QWidget

from evprof.core.errors import UserError
from evprof.core.protocols import EngineChanged, Message, RunEnded, RunWarned
from evprof.core.recording import RecordLog
from evprof.core.records import DRAFT, TARGET
from evprof.core.run_info import FAILED
from evprof.core.sample import Sample
from evprof.core.texts import one_line
from evprof.core.vocabulary.generation import ModelChoice
from evprof.loaders.bundled import bundled_samples
from evprof.run.works.work_form import FORMS
from evprof.session.facts import MARKS, Mark
from evprof.view.columns import RunPair
from evprof.view.timescale import time_text
from ui.columns.answer_comparison import AnswerComparison
from ui.columns.model_pair import ModelPair
from ui.help.help_pages import CONTENTS, TROUBLESHOOTING, HelpPages
from ui.runs.inspector import Inspector
from ui.runs.pair_figures import ComparisonPanel
from ui.runs.run_list import RunList
from ui.runs.speculation_panel import SpeculationPanel
from ui.samples.clip_choice import identity, sample_name
from ui.samples.file_drops import FileDrops
from ui.samples.sample_list import SampleList
from ui.settings.toolbar import Toolbar
from ui.state.current import NO_RUNS, CurrentState
from ui.state.run_controller import Host, RunController
from ui.state.run_following import RunFollowing
from ui.state.selection import Selection
from ui.state.window_session import WindowSession
from ui.status.status_bar import StatusBar
from ui.style.icons import icon
from ui.style.theme import Theme, ThemeHolder
from ui.timeline.timeline_view import TimelineView
from ui.traces.trace_pages import TracePages
from ui.welcome.welcome import Welcome
from ui.widgets.boxes import in_role, rule, side_panel, stacked
from ui.widgets.column_drop import ColumnDrop
from ui.widgets.drawn import FocusRing
from ui.widgets.following import FollowingPanel
from ui.widgets.message_bar import UNDO, MessageBar
from ui.window.actions import WindowActions
from ui.window.activity import Activity
from ui.window.body import Body, WindowMemory
from ui.window.exporting import Exporting, Results
from ui.window.opening import Opener
from ui.window.pair_views import Clips, PairViews
from ui.window.panels import PANELS
from ui.window.window_dialogs import AbandonedSessions, WindowDialogs, WindowPalette, WindowParts, trace_folder
from ui.work.long_work import LongWork, Requests

SWITCH_INTERVAL_S = 0.0003
"""How long the pump and the session writer run while the window waits for the interpreter (Python's default: 5 ms)."""

MakeHost = Callable[[RecordLog], Host]
"""Makes the engine host that fills a recording; called after the first paint."""


class MainWindow(WindowParts):
    """The main window.

    Signals:
        painted(): the window was painted for the first time.
        sample_opened(object): the Sample to show, the first of a list that was opened.
    """

    painted = Signal()
    sample_opened = Signal(object)

    def __init__(self, holder: ThemeHolder, settings: QSettings | None = None) -> None:
        """`settings` None: nothing is remembered, nothing restored (pictures, tests)."""
        super().__init__()
        self.holder = holder
        self._memory = WindowMemory(settings)
        self._is_painted = self._is_leaving = False
        self._is_divided = False
        self.current = CurrentState()
        self.selection = Selection(self, self.current)
        self.session = WindowSession(self)
        self.controller = RunController(self.session.recording, parent=self)
        self.controller.numbering = self.session.numbered
        self.controller.keeping = self.session.begin
        self.controller.facts = lambda: self.session.facts
        self.session.refusal = self._refusal_to_change
        self.session.refusal_to_leave = self._refusal_to_leave
        self.following = RunFollowing(self.controller, self.selection)
        self.actions_by_name = WindowActions(self)
        self._ring = FocusRing(self)
        self._make_views()
        self._make_parts()
        self._connect()
        self._show_title()
        self.setAcceptDrops(True)
        self._show_listed_sample()
        self.setMinimumSize(880, 560)
        self.resize(1440, 900)
        self._is_divided = self._memory.restore(self, self.body, self.holder)

    def _make_views(self) -> None:
        self.messages = MessageBar(self.holder)
        recent = self.recent = self._memory.recent()
        self.samples = SampleList(self.holder, [*bundled_samples(), *recent.samples], self.current)
        self.toolbar = Toolbar(self.holder, recent, lambda: trace_folder(self.session), self.current)
        moment = self.controller.moment
        self.pair = ModelPair(self.selection, self.holder, self._memory.settings, clock=moment)
        self.pair.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.timeline = TimelineView(self.controller, self.selection, self.holder, self._memory.settings, clock=moment)
        self.comparison = ComparisonPanel(self.holder)
        self.inspector = Inspector(self.selection, self.controller, self.holder)
        self.inspector.tracks = lambda: [track for _, track in self.timeline.scene.shown]
        self.timeline.offers.range_lines = self.inspector.lines
        self.status = StatusBar(self.selection)
        self.runs = RunList(self.selection, self.controller, self.holder)
        self.runs.remarks.post = self.messages.post
        self.speculation = SpeculationPanel(self.holder)
        panels = self.comparison, self.speculation, self.inspector
        self.views = PairViews(self.controller, self.selection, self.pair, panels)
        for place, is_stacked in ((self.pair, False), (self.timeline, True)):
            ColumnDrop(place, self.controller, self.selection, self.holder, is_stacked=is_stacked)
        made = {
            "left": side_panel(self.samples, self.runs, grows=self.runs, margin=0, least_px=176),
            "right": side_panel(self.comparison, self.speculation, self.inspector, least_px=300),
            "timeline": self.timeline,
        }
        self.body = Body(self.pair, made, self.controller, self.selection, self.holder)
        ground = QWidget()
        stacked(self.toolbar, rule(), (self.body, 1), self.status, on=ground, spacing=0)
        self.messages.float_over(self.body)
        self.setCentralWidget(ground)
        self.requests = Requests(self.controller, self.following, self.toolbar, self.messages.post)
        self.clips = Clips(self.pair, recent, self.samples, self.current)
        self.welcome = Welcome(
            self.session,
            self.controller,
            self.recent,
            self.holder,
            ground=self.body,
            home=self.timeline,
        )
        self._make_menu()

    def _make_parts(self) -> None:
        post = self.messages.post
        self.activity = Activity(self.controller)
        self.results = Results(self.session, self, self.messages, self.activity)
        self.exporting = Exporting(self.session, self.controller, self, post)
        self.help = HelpPages(post, self)
        self.trace_pages = TracePages(self, self.controller, self.selection, self.holder)
        self.opener = Opener(
            self.session, self.toolbar, self.samples, self.results, self.messages, activity=self.activity
        )
        self.opener.listed.connect(self.sample_opened)
        self.opener.trace_opened.connect(self.trace_pages.show_trace)
        self.drops = FileDrops(self, self.holder, self.open_paths)
        self.dialogs = WindowDialogs(self)
        self.finding = WindowPalette(self)
        self.long_work = LongWork(
            self,
            self.controller,
            self.holder,
            self.messages,
            open_paths=self.open_paths,
            show=self._show_work,
            opened=self._opened,
        )
        self.abandoned = AbandonedSessions(self.session, self.messages, self)

    def _handlers(self) -> dict[str, Callable[[], object]]:
        aligning, open_input = self.timeline.aligning, self.toolbar
        in_sight = {
            **self.timeline.deeds(),
            **self.runs.deeds(),
            "align_start": aligning.at_start,
            "align_first_token": aligning.at_first_token,
            "align_span": aligning.at_span,
        }
        return {
            **{entry.name: partial(self._show_panel, entry.name) for entry in PANELS},
            **{name: partial(self._do_in_sight, work) for name, work in in_sight.items()},
            **{form.name: partial(self.long_work.ask, form.name) for form in FORMS},
            "start_page": self.welcome.open,
            "open_events": open_input.browse_events,
            "open_video": open_input.browse_video,
            "open_sequence": open_input.browse_sequence,
            "new_session": self.session.start_new,
            "open_session": self.dialogs.ask_session,
            "save_session": partial(self.exporting.ask, "session"),
            "import_results": self.results.browse,
            "write_report": self.results.ask_report,
            "settings": self.toolbar.open_settings,
            "run": self.toolbar.run,
            "stop": self.controller.stop,
            "demo": self.requests.run_demo,
            "distributions": self.dialogs.show_distributions,
            "clinic": self.dialogs.show_clinic,
            "compare": self.dialogs.show_comparison,
            "torch_trace": self.trace_pages.show_newest,
            "queue": self.long_work.show_queue,
            "undo": self.messages.undo,
            "theme": self.holder.toggle,
            "palette": self.finding.show,
            "contents": partial(self.help.open, CONTENTS),
            "troubleshooting": partial(self.help.open, TROUBLESHOOTING),
            "keys": self.dialogs.show_keys,
            "about": self.dialogs.show_about,
            "quit": self.close,
        }

    def _do_in_sight(self, work: Callable[[], object]) -> None:
        """Does something to what is visible; from the start page it only leaves that page."""
        if self.welcome.page.isHidden():
            work()
        else:
            self.welcome.page.leave()

    def _show_panel(self, name: str) -> None:
        """Shows or hides a panel; from the start page it shows it."""
        if self.welcome.page.isHidden():
            self.body.toggle(name)
        else:
            self.welcome.page.leave()
            self.body.show_panel(name)

    def open_paths(self, paths: Sequence[str], *, waits: bool = False) -> None:
        """Opens files and folders of any kind, soon; the message bar shows what cannot be opened.

        `waits`: opens before returning and raises UserError instead (pictures).
        """
        (self.opener.open_now if waits else self.opener.open)(paths)

    def _opened(self) -> tuple[list[Sample], dict[str, ModelChoice]]:
        """The samples, the current one first, and the models that are chosen."""
        form, current = self.toolbar.form, self.toolbar.sample
        others = [sample for sample in self.samples.samples if identity(sample) != identity(current)]
        return [current, *others], {DRAFT: form.draft, TARGET: form.target}

    def _make_menu(self) -> None:
        self.menu_button = in_role(QToolButton(), "quiet")
        self.menu_button.setIcon(icon("menu", self.holder.theme))
        self.menu_button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.menu_button.setToolTip("Menu")
        self.menu_button.setAccessibleName("Menu")
        self.menu_button.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self.menu_button.setMenu(self.actions_by_name.menu(self))
        self.toolbar.put_first(self.menu_button)

    def _connect(self) -> None:
        self.current.sample_of = self._sample_of
        self.current.listeners.append(self._name_sample)
        self.controller.runs_changed.connect(self._list_samples)
        self.controller.runs_changed.connect(self.views.refresh)
        self.controller.figures_due.connect(self._refresh_figures)
        self.body.panel_made.connect(self._take_panel)
        self.controller.message.connect(self._take)
        self.controller.busy_changed.connect(self.pair.set_measuring)
        self.controller.session_replaced.connect(self._forget)
        self.samples.sample_chosen.connect(self.show_sample)
        self.pair.scrubber.clip_changed.connect(self.following.stay)
        self.samples.refused.connect(self._refuse_sample)
        opened = self.samples.sample_chosen, self.toolbar.sample_opened, self.sample_opened
        for shown in (*opened, self.selection.chosen_changed, self.selection.runs_changed):
            shown.connect(self.welcome.page.leave)
        self.timeline.run_requested.connect(self.toolbar.run)
        self.timeline.clinic_requested.connect(self.dialogs.show_clinic)
        self.controller.marks.edited.connect(partial(self.session.note, MARKS))
        self.controller.marks.deleted.connect(self._offer_mark)
        self.controller.marks.refused.connect(self.messages.post)
        self.controller.refused.connect(self.messages.post)
        self.session.leaving.connect(partial(self.selection.set_runs, None, None))
        self.session.opened.connect(self._show_recording)
        self.session.saved.connect(self._note_saved)
        self.session.failed.connect(self.messages.post)
        self.session.reading.connect(self._note_reading)
        self.activity.changed.connect(self._show_activity)
        self.pair.failed.connect(self.messages.post)
        self.speculation.clinic_asked.connect(self.dialogs.show_clinic)
        self.speculation.baseline_asked.connect(self.runs.offer_baseline)
        for panel in (self.runs, self.speculation):
            panel.measuring_asked.connect(self.requests.measure_beside)
        self.runs.run_asked.connect(self.toolbar.run)
        self.comparison.more_asked.connect(self.dialogs.show_comparison)
        self.controller.waiting_changed.connect(lambda: self.status.show_waiting(len(self.controller.waiting)))
        self.status.queue_asked.connect(self.long_work.show_queue)
        self.controller.runs_changed.connect(lambda ids: self.status.show_memory(self.controller.run(max(ids))))
        self.holder.changed.connect(self._restyle)
        self.differences = AnswerComparison(self.controller, self.selection, self.pair, self)
        self._connect_toolbar()
        self.actions_by_name.connect_all(self._handlers())
        self.welcome.page.asked.connect(lambda name: self.actions_by_name[name].trigger())

    def _connect_toolbar(self) -> None:
        toolbar = self.toolbar
        toolbar.run_requested.connect(self.requests.submit)
        toolbar.stop_requested.connect(self.controller.stop)
        toolbar.sample_opened.connect(self.show_sample)
        toolbar.paths_chosen.connect(self.open_paths)
        self.sample_opened.connect(self.show_sample)
        toolbar.export_requested.connect(self.exporting.ask)
        toolbar.failed.connect(self.messages.post)
        self.controller.busy_changed.connect(toolbar.set_busy)
        self.controller.held_changed.connect(toolbar.set_held)

    def _note_reading(self, name: str, begins: bool) -> None:
        (self.activity.begin if begins else self.activity.end)(f"Opening {name}")

    def _show_work(self, text: str, share: float | None) -> None:
        self.status.show_work(text, share)
        self.activity.set_work(text)

    def _show_activity(self, text: str, is_blocked: bool) -> None:
        self.toolbar.set_activity(text, is_blocked)
        for show in (self.timeline.empty.wait, self.runs.wait, self.status.show_activity):
            show(text)

    # Views.

    def _sample_of(self, pair: RunPair) -> Sample | None:
        """The sample of the run in column B, or else in A."""
        shown = (self.controller.run(run_id) for run_id in reversed(pair))
        return next((run.info.sample for run in shown if run is not None), None)

    def _name_sample(self) -> None:
        sample = self.current.now.sample
        self.timeline.empty.offer(sample_name(replace(sample, name=sample.whole_name)))

    def _list_samples(self, run_ids: set[int]) -> None:
        found = (self.controller.run(run_id) for run_id in sorted(run_ids))
        self.samples.add_of_runs(run.info.sample for run in found if run is not None)

    def _forget(self) -> None:
        self.messages.withdraw(UNDO)
        self.samples.forget_runs()
        self.status.forget_runs()
        self.runs.refresh()
        self.views.show()

    def show_sample(self, sample: Sample) -> None:
        """Makes a sample current and shows its inputs; a run that goes on no longer comes into view."""
        self.following.stay()
        self.samples.add(sample)
        self.current.choose_sample(sample)
        self.clips.go_to(sample)

    def _show_listed_sample(self) -> None:
        """Without a run on show the first sample takes the place of one that left the list."""
        sample = self.samples.instead_of(self.current.now.sample)
        if sample is not None and self.current.now.runs == NO_RUNS:
            self.show_sample(sample)

    def _refresh_figures(self, run_ids: set[int]) -> None:
        self.runs.refresh()
        self.views.refresh_figures(run_ids)

    def _take(self, message: Message) -> None:
        self.status.take(message)
        match message:
            case EngineChanged():
                self.toolbar.set_environment(message.environment)
            case RunWarned():
                self.messages.post(f"Run {message.run_id}: {message.sentence}", "warn")
            case RunEnded() if message.status == FAILED:
                self.messages.post(f"Run {message.run_id} failed: {message.error or 'no reason was given.'}")

    def _restyle(self, theme: Theme) -> None:
        self.menu_button.setIcon(icon("menu", theme))

    # Sessions.

    def _refusal_to_change(self) -> str:
        return "A run is going on; stop it first, or wait until it has ended." if self.controller.is_busy else ""

    def _refusal_to_leave(self) -> str:
        waits = "Runs wait in the queue for this session; take them out first (Ctrl+J), or wait until they have ended."
        return self._refusal_to_change() or (waits if self.controller.waiting else "")

    def _show_recording(self, recording: RecordLog) -> None:
        try:
            self.controller.replace_recording(recording)
        except UserError as error:
            self.messages.post(error.sentence)
            return
        self.controller.marks.read(self.session.facts)
        self.following.show_last()
        self._show_listed_sample()
        self._show_title()
        if self.controller.has_host:
            self.session.begin()

    def _refuse_sample(self, sample: Sample, sentence: str) -> None:
        self.recent.forget_sample(sample)
        self.messages.post(sentence)

    def _offer_mark(self, mark: Mark) -> None:
        what = f"The mark at {time_text(mark.start_ns)}{f': {mark.note}' if mark.note else ''}"
        undo = partial(self.controller.marks.add, mark)
        self.messages.post(f"{what} was deleted.", "info", UNDO, undo)

    def _show_title(self) -> None:
        if self.session.is_copy:
            self.messages.post(
                "Another evprof records this session. Save this copy under another name (Ctrl+S) to run or edit.",
                "warn",
            )
        self.setWindowTitle(f"{one_line(self.session.title)} – evprof")
        self.status.set_session(self.session.title)

    def _note_saved(self, path: str) -> None:
        self._show_title()
        self.messages.post(f"Session saved as {path}.", "info")

    def start_engine(self, make_host: MakeHost) -> None:
        """Makes the host and begins to keep the session on disk; for after the first paint."""
        self.session.begin()
        self.controller.attach_host(make_host(self.session.recording))
        self.controller.start()
        sys.setswitchinterval(SWITCH_INTERVAL_S)
        _import_soon()
        self.samples.read_durations()

    @property
    def is_at_rest(self) -> bool:
        """Whether nothing is being read any more, and all of it is shown."""
        return (
            self.session.is_idle
            and not self.welcome.is_busy
            and self.pair.is_idle
            and not self.opener.is_busy
            and not self.comparison.is_busy
            and not self.timeline.is_busy
            and not any(panel.is_busy for panel in self._following_panels)
        )

    @property
    def _following_panels(self) -> list[FollowingPanel]:
        """Panels of the table that were shown, and follow the runs."""
        return self.body.findChildren(FollowingPanel)

    def _take_panel(self, panel: QWidget) -> None:
        if isinstance(panel, FollowingPanel):
            panel.demo_asked.connect(self.requests.run_demo)

    # Qt's own.

    def showEvent(self, event: QShowEvent) -> None:
        """Divides the window once it knows its size, unless a division was restored."""
        super().showEvent(event)
        self.differences.look()
        if self.welcome.page.isHidden():
            self.timeline.setFocus()
        if not self._is_divided:
            self._is_divided = True
            QTimer.singleShot(0, self.body, self.body.divide)

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        if not self._is_painted:
            self._is_painted = True
            QTimer.singleShot(0, self, self.painted.emit)

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        self.drops.enter(event)

    def dragLeaveEvent(self, event: QDragLeaveEvent) -> None:
        self.drops.leave()
        super().dragLeaveEvent(event)

    def dropEvent(self, event: QDropEvent) -> None:
        self.drops.drop(event)

    def leave(self) -> None:
        """Closes without asking, for a program that is told to end."""
        self._is_leaving = True
        self.close()

    def closeEvent(self, event: QCloseEvent) -> None:
        """Asks while something is measured; then ends the engine, saves what is left, remembers the layout."""
        if not (self._is_leaving or self.dialogs.may_quit()):
            event.ignore()
            return
        for dialog in self.findChildren(QDialog):
            dialog.reject()  # which ends its threads
        self._memory.remember(self, self.body, self.holder)
        self.welcome.close()
        for part in (self.long_work, self.opener):
            part.close()
        for panel in self._following_panels:
            panel.finish()
        self.controller.close()
        self.session.end()
        self.pair.close_feeds()
        self.comparison.errand.wait()
        self.timeline.delta.errand.wait()
        self.samples.close_reader()
        self.session.wait()
        super().closeEvent(event)


_NEEDED_BY_RUNS = (
    "evprof.metrics.comparison.document",
    "evprof.metrics.facts",
    "evprof.metrics.run_summary",
    "evprof.metrics.speculation.clinic",
    "evprof.metrics.speculation.verdicts",
    "ui.runs.token_details",
    "ui.runs.run_details",
    "ui.runs.token_details",
)


def _import_soon() -> None:
    """Imports the modules of a run's figures on a thread, before the first run needs them."""

    def work() -> None:
        for module in _NEEDED_BY_RUNS:
            importlib.import_module(module)
        # The collector is off until here. It need not traverse the imported modules: that takes 0.1 s each time.
        gc.freeze()
        gc.enable()

    threading.Thread(target=work, name="evprof-imports", daemon=True).start()
