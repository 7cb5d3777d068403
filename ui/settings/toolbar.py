"""The toolbar: inputs, models, prompt, mode, Run and Stop, export; it turns what is set into one RunRequest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QFileDialog, QFrame, QLayout, QLineEdit, QPushButton, QSpinBox, QWidget

from evprof.core.errors import UserError
from evprof.core.records import DRAFT, TARGET
from evprof.core.sample import Sample
from evprof.core.texts import plain
from evprof.loaders.bundled import assets_folder
from ui.run_facts.run_text import mode_name
from ui.settings.request_form import RequestForm
from ui.settings.tool_buttons import ICON, ExportButton, ModeButton, ModelButton, SettingsButton, ToolButton
from ui.state.current import NO_RUNS, Current, CurrentState
from ui.state.recent import Recent
from ui.style.icons import icon
from ui.style.theme import BUTTON_PX, GRID, ThemeHolder
from ui.widgets.boxes import Part, beside, in_role
from ui.widgets.label import Label

if TYPE_CHECKING:
    from ui.settings.model_popover import ModelPopover
    from ui.settings.settings_popover import SettingsPopover

HEIGHT = 44
COMPACT_BELOW = 1480
"""Below this width, buttons whose icon is plain have no word."""

TIGHT_BELOW = 960
"""Below this width, the settings are hidden, so that Run has room."""

LEAST_WIDTH = 840

_EVENTS = "npy npz h5 hdf5 raw dat aedat4 aedat csv txt bin bag es"
_VIDEOS = "mp4 avi mkv mov webm m4v mpg mpeg ts wmv flv ogv h264 gif"


def file_filter(name: str, suffixes: str) -> str:
    """The pattern of a file dialog."""
    return f"{name} ({' '.join(f'*.{suffix}' for suffix in suffixes.split())});;All files (*)"


class Toolbar(QFrame):
    """One row. It says in words why Run is not possible, and greys modes without their input, with the reason.

    Signals:
        run_requested(object): a validated RunRequest; whoever submits it numbers it.
        stop_requested(): end the running request.
        sample_opened(object): the Sample that the person put together from files.
        paths_chosen(object): paths picked in a file dialog, to be opened whatever they hold.
        export_requested(str): a key of EXPORTS (tool_buttons).
        failed(str): a sentence, when something could not be taken.
    """

    run_requested = Signal(object)
    stop_requested = Signal()
    sample_opened = Signal(object)
    paths_chosen = Signal(object)
    export_requested = Signal(str)
    failed = Signal(str)

    def __init__(
        self,
        themes: ThemeHolder,
        recent: Recent | None = None,
        trace_folder: Callable[[], Path] | None = None,
        current: CurrentState | None = None,
    ) -> None:
        """`trace_folder` says where torch traces go; without it there is no trace button."""
        super().__init__()
        self.setProperty("role", "panel")
        self.setFixedHeight(HEIGHT)
        self._themes = themes
        self._recent = recent if recent is not None else Recent(None)
        self.form = RequestForm(current)
        self.current = self.form.current
        self.form.settings = self._recent.settings
        self._trace_folder = trace_folder
        self._is_busy = self._is_held = False
        self._activity, self._is_blocked = "", False
        self._make_inputs()
        self._make_models()
        self._make_prompt()
        self._make_running()
        self._lay_out()
        self._shown = Current()
        themes.changed.connect(self._restyle)
        self._restyle()
        self.current.listeners.append(self._take_current)
        self._show_state()

    def _make_inputs(self) -> None:
        self.events = ToolButton("Events", "Open an event recording, or a folder with one (Ctrl+E)", has_menu=True)
        tip = "Open the matching video, or a folder of pictures (Ctrl+Shift+E)"
        self.video = ToolButton("Video", tip, has_menu=True)
        frames = partial(self._browse_folder, "Open a folder of event frames", self.open_events)
        pictures = partial(self._browse_folder, "Open a folder of pictures as a video", self.open_video)
        for button, text, work in (
            (self.events, "Event recording…", self.browse_events),
            (self.events, "Folder of event frames…", frames),
            (self.events, "Sequence: a folder with events and video…", self.browse_sequence),
            (self.video, "Video…", self.browse_video),
            (self.video, "Folder of pictures…", pictures),
        ):
            button.menu().addAction(text).triggered.connect(work)

    def _make_models(self) -> None:
        self._popovers: dict[str, ModelPopover] = {}
        self._models: dict[str, ModelButton] = {}
        for role in (DRAFT, TARGET):
            button = ModelButton(role)
            button.clicked.connect(lambda _=False, role=role: self.popover(role).open_below(self._models[role]))
            self._models[role] = button

    def _make_prompt(self) -> None:
        self.prompt = QLineEdit(self.form.sample.prompt)
        self.prompt.setCursorPosition(0)
        self.prompt.setPlaceholderText("Prompt")
        self.prompt.setAccessibleName("Prompt")
        self.prompt.setMinimumWidth(80)
        self.prompt.setAcceptDrops(False)  # files that fall on it are the window's, not words
        self.prompt.textEdited.connect(self.current.type_prompt)
        self.prompt.returnPressed.connect(self.run)
        self.hint = in_role(Label(), "small")
        self.hint.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)

    def _make_running(self) -> None:
        self.mode = ModeButton()
        self.mode.chosen.connect(self.choose_mode)
        self.tokens = QSpinBox()
        self.tokens.setRange(1, 4096)
        self.tokens.setValue(self.form.settings.max_new_tokens)
        self.tokens.setSuffix(" tok")
        self.tokens.setAccessibleName("Most tokens an answer may have")
        self.tokens.setToolTip("Most tokens an answer may have")
        self.tokens.setAlignment(Qt.AlignmentFlag.AlignRight)
        self.tokens.setFixedSize(76, BUTTON_PX)
        self.tokens.valueChanged.connect(partial(self.form.take, "max_new_tokens"))
        self.settings = SettingsButton()
        self.settings.clicked.connect(self.open_settings)
        self.trace = ToolButton("Trace", "Repeat the run once under torch.profiler, as a run of its own")
        self.trace.setCheckable(True)
        self.trace.setVisible(self._trace_folder is not None)
        self.run_button = in_role(QPushButton("Run"), "primary")
        self.run_button.clicked.connect(self.run)
        self.stop_button = ToolButton("Stop", "End the run and keep what was measured (Ctrl+.)")
        self.stop_button.clicked.connect(self.stop_requested)
        self.export = ExportButton()
        self.export.export_requested.connect(self.export_requested)

    def _lay_out(self) -> None:
        inputs: tuple[Part, ...] = (self.events, self.video, *self._models.values(), (self.prompt, 1), self.hint)
        running = (self.mode, self.tokens, self.settings, self.trace, self.run_button, self.stop_button, self.export)
        self._row = beside(*inputs, *running, on=self, margins=(2 * GRID, 0, 2 * GRID, 0), spacing=GRID)
        self._row.setSizeConstraint(QLayout.SizeConstraint.SetNoConstraint)

    def put_first(self, widget: QWidget) -> None:
        """Shows a widget of the window's before everything else."""
        widget.setFixedHeight(BUTTON_PX)
        self._row.insertWidget(0, widget)
        self._row.setContentsMargins(GRID, 0, GRID + 4, 0)

    def popover(self, role: str) -> ModelPopover:
        """The popover that chooses the model of a role; made when it is first asked for."""
        if role not in self._popovers:
            from ui.settings.model_popover import ModelPopover

            choice = getattr(self.form, role)
            made = ModelPopover(role, choice, self._recent, self._themes, self)
            made.chosen.connect(partial(setattr, self.form, role))
            self._popovers[role] = made
        return self._popovers[role]

    @cached_property
    def settings_popover(self) -> SettingsPopover:
        from ui.settings.settings_popover import SettingsPopover

        made = SettingsPopover(self.form, self._themes, self)
        made.closed.connect(lambda: self._recent.note_settings(self.form.settings))
        return made

    @property
    def sample(self) -> Sample:
        return self.form.sample

    def _take_current(self) -> None:
        """Shows what will run, unless other runs on show are all that changed."""
        now = replace(self.current.now, runs=NO_RUNS, cell="")
        if now == self._shown:
            return
        self._shown = now
        if now.sample.prompt != self.prompt.text():
            self.prompt.setText(now.sample.prompt)
            self.prompt.setCursorPosition(0)
        self.tokens.setValue(now.settings.max_new_tokens)
        for role, popover in list(self._popovers.items()):
            if popover.choice != getattr(now, role):
                self._popovers.pop(role).deleteLater()
        self._show_state()

    def set_busy(self, is_busy: bool) -> None:
        """While something runs, Stop ends it and Run puts a run into the queue."""
        self._is_busy = is_busy
        self._show_state()

    def set_held(self, is_held: bool) -> None:
        """While long work goes on, Run puts a run into the queue."""
        self._is_held = is_held
        self._show_state()

    def set_activity(self, activity: str, is_blocked: bool) -> None:
        """Says what a run would wait for, "" for nothing; `is_blocked`: nothing can be run meanwhile."""
        self._activity, self._is_blocked = activity, is_blocked
        self._show_state()

    @property
    def problem(self) -> str:
        """Why nothing can run now, in a sentence; empty when it can."""
        return f"{self._activity} …" if self._is_blocked else self.form.problem

    def set_environment(self, environment: dict[str, Any]) -> None:
        """What the engine says of its machine: some settings make no sense on some."""
        self.form.environment = environment or self.form.environment
        self._show_state()

    def choose_mode(self, mode: str) -> None:
        self.form.choose_mode(mode)

    def run(self) -> None:
        """Asks for a run with everything as it stands; says why not when that is impossible."""
        if self.problem:
            self.failed.emit(self.problem)
            return
        traces = self._trace_folder is not None and self.trace.isChecked()
        self.form.trace_folder = self._trace_folder() if traces and self._trace_folder is not None else None
        try:
            request = self.form.request()
        except UserError as error:
            self.failed.emit(error.sentence)
            return
        self.run_requested.emit(request)

    def run_once(self, mode: str) -> None:
        """Asks for a run in a mode; the one that was chosen stays chosen."""
        before = self.form.wanted_mode
        self.choose_mode(mode)
        self.run()
        self.choose_mode(before)

    def browse_events(self) -> None:
        self._browse_files("Open events", file_filter("Event recordings", _EVENTS))

    def browse_video(self) -> None:
        self._browse_files("Open video", file_filter("Videos", _VIDEOS))

    def browse_sequence(self) -> None:
        """Asks for a folder that holds a recording and its video."""
        self._browse_folder("Open a sequence: events and video", lambda path: self.paths_chosen.emit([path]))

    def _browse_files(self, title: str, pattern: str) -> None:
        if paths := QFileDialog.getOpenFileNames(self, title, self._folder(), pattern)[0]:
            self.paths_chosen.emit(paths)

    def _browse_folder(self, title: str, work: Callable[[str], object], _: bool = False) -> None:
        if path := QFileDialog.getExistingDirectory(self, title, self._folder()):
            work(path)

    def _folder(self) -> str:
        """The folder of the open sample; "" for a bundled one."""
        path = self.form.sample.events_path or self.form.sample.video_path
        return "" if path is None or Path(path).is_relative_to(assets_folder()) else str(Path(path).parent)

    def open_events(self, path: str) -> None:
        """Takes an event recording or a folder of event frames."""
        self._take_sample(self.form.open_events(path))

    def open_video(self, path: str) -> None:
        self._take_sample(self.form.open_video(path))

    def open_sample(self, sample: Sample) -> None:
        """Takes a whole sample; one without a question of its own is asked the present one."""
        is_asked = sample.prompt != Sample().prompt
        self._take_sample(sample if is_asked else replace(sample, prompt=self.form.sample.prompt))

    def _take_sample(self, sample: Sample) -> None:
        self._recent.note_sample(sample)
        self.current.choose_sample(sample)
        self.sample_opened.emit(sample)

    def open_settings(self) -> None:
        """Shows everything that can be set, below its button or, where that made room, below Run."""
        self.settings_popover.open_below(self.run_button if self.settings.isHidden() else self.settings)

    def open_setting(self, key: str) -> None:
        """Shows the settings, with the keyboard on one of them."""
        self.settings_popover.advanced.setChecked(self.form.controls[key].is_advanced)
        self.open_settings()
        self.settings_popover.rows[key].field.setFocus(Qt.FocusReason.ShortcutFocusReason)

    def _show_state(self) -> None:
        form, problem = self.form, self.problem
        self.mode.show_form(form)
        self.run_button.setEnabled(not problem)
        waits = self._is_busy or self._is_held or bool(self._activity and not self._is_blocked)
        self.run_button.setText("Queue" if waits else "Run")
        first = f"{self._activity}. " if self._activity else "When the current run has ended: " if waits else ""
        self.run_button.setToolTip(problem or f"{first}{mode_name(form.mode)} (Ctrl+R)")
        self.stop_button.setEnabled(self._is_busy)
        self.settings.show_form(form)
        self.hint.setText("" if self._is_busy else problem)
        self.hint.setVisible(bool(self.hint.text()))
        self._show_models()
        for button, path in ((self.events, form.sample.events_path), (self.video, form.sample.video_path)):
            if path is not None:
                button.setToolTip(plain(path))

    def _show_models(self) -> None:
        for role, model in self._models.items():
            model.show_choice(getattr(self.form, role), max(92, self.width() // 7))

    def _restyle(self) -> None:
        theme = self._themes.theme
        for button, name in (
            (self.events, "events"),
            (self.video, "video"),
            (self.settings, "settings"),
            (self.trace, "trace"),
            (self.stop_button, "stop"),
            (self.export, "export"),
            (self.mode, "chevron"),
            *((button, "chevron") for button in self._models.values()),
        ):
            button.setIcon(icon(name, theme, size=ICON))
        self.run_button.setIcon(icon("play", theme, theme.ink(theme.accent), ICON))
        self.run_button.setIconSize(QSize(ICON, ICON))

    def minimumSizeHint(self) -> QSize:
        return QSize(LEAST_WIDTH, HEIGHT)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        width = self.width()
        styles = Qt.ToolButtonStyle
        style = styles.ToolButtonIconOnly if width < COMPACT_BELOW else styles.ToolButtonTextBesideIcon
        for button in (self.events, self.video, self.trace, self.stop_button, self.export):
            button.setToolButtonStyle(style)
        self._show_models()
        self.tokens.setVisible(width >= TIGHT_BELOW)
        self.settings.setVisible(width >= TIGHT_BELOW)
