"""The palette of the window: everything it can do (Ctrl+Shift+P), and everything that is in its runs (/)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from PySide6.QtGui import QKeySequence
from PySide6.QtWidgets import QWidget

from evprof.view.lanes import Track
from ui.palette.box import PaletteBox
from ui.palette.found import Found, Lookup, best
from ui.palette.sources import runs_source, settings_source, spans_source, tokens_source
from ui.samples.sample_list import SampleList
from ui.settings.toolbar import Toolbar
from ui.state.run_controller import RunController
from ui.state.run_following import RunFollowing
from ui.state.selection import Selection
from ui.style.theme import ThemeHolder
from ui.timeline.timeline_view import TimelineView
from ui.window.actions import WindowActions


class WindowPalette:
    """Opens the box; what it finds is asked of the window's parts when something is typed."""

    def __init__(
        self,
        window: QWidget,
        themes: ThemeHolder,
        actions: WindowActions,
        *,
        controller: RunController,
        selection: Selection,
        following: RunFollowing,
        timeline: TimelineView,
        toolbar: Toolbar,
        samples: SampleList,
    ) -> None:
        self.box = PaletteBox(themes, window, timeline)

        def tracks() -> list[Track]:
            return [track for _, track in timeline.scene.shown]

        controls = {key: control for key, control in toolbar.form.controls.items() if control.has_control}
        runs = runs_source(controller, following.show_run)
        settings = settings_source(controls, toolbar.open_setting)
        self._commands = [Lookup("Actions", lambda query: best(query, _actions(actions))), settings, runs]
        self._things = [
            spans_source(tracks, selection),
            tokens_source(tracks, selection),
            runs,
            Lookup("Samples", lambda query: best(query, _samples(samples))),
            settings,
        ]

    def show_commands(self) -> None:
        """Asks for an action, a setting or a run."""
        self.box.ask(self._commands, "What to do: an action, a setting, a run")

    def show_things(self) -> None:
        """Asks for a span, a word of an answer, a run, a sample or a setting."""
        self.box.ask(self._things, "Find a span, a word of an answer, a run, a sample, a setting")


def _actions(actions: WindowActions) -> Iterator[Found]:
    for action in actions.by_name.values():
        if action.isEnabled():
            keys = action.shortcut().toString(QKeySequence.SequenceFormat.NativeText)
            yield Found(action.text(), action.trigger, keys)


def _samples(samples: SampleList) -> Iterator[Found]:
    for sample in samples.samples:
        yield Found(sample.whole_name, partial(samples.sample_chosen.emit, sample), second=sample.prompt)
