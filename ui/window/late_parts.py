"""What the window's first picture can do without: each part is made when it is first asked for, and all of them once
that picture is there. Their modules are imported then too."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QMainWindow

from evprof.run.works.offers import OVERHEAD

if TYPE_CHECKING:
    from ui.columns.model_pair import ModelPair
    from ui.help.help_pages import HelpPages
    from ui.runs.inspector import Inspector
    from ui.runs.pair_figures import ComparisonPanel
    from ui.runs.run_list import RunList
    from ui.samples.file_drops import FileDrops
    from ui.samples.sample_list import SampleList
    from ui.settings.toolbar import Toolbar
    from ui.state.run_controller import RunController
    from ui.state.run_following import RunFollowing
    from ui.state.selection import Selection
    from ui.state.window_session import WindowSession
    from ui.status.machine_note import MachineNote
    from ui.status.status_bar import StatusBar
    from ui.style.theme import ThemeHolder
    from ui.style.ui_scale import UiScale
    from ui.timeline.timeline_view import TimelineView
    from ui.traces.trace_pages import TracePages
    from ui.welcome.welcome import Welcome
    from ui.widgets.message_bar import MessageBar
    from ui.window.abandoned_sessions import AbandonedSessions
    from ui.window.actions import WindowActions
    from ui.window.body import Body
    from ui.window.exporting import Exporting
    from ui.window.layouts import Layouts
    from ui.window.opening import Opener
    from ui.window.results import Results
    from ui.window.window_dialogs import WindowDialogs
    from ui.window.window_memory import WindowMemory
    from ui.window.window_palette import WindowPalette
    from ui.work.long_work import LongWork
    from ui.work.requests import Requests


class LateParts(QMainWindow):
    """The window's parts that are not to be seen in an empty window; the views that they work on are its heir's.

    Signals:
        sample_opened(object): the Sample to show, the first of a list that was opened.
    """

    sample_opened = Signal(object)

    actions_by_name: WindowActions
    controller: RunController
    following: RunFollowing
    holder: ThemeHolder
    selection: Selection
    session: WindowSession
    _memory: WindowMemory

    body: Body
    comparison: ComparisonPanel
    inspector: Inspector
    layouts: Layouts
    messages: MessageBar
    pair: ModelPair
    requests: Requests
    runs: RunList
    samples: SampleList
    status: StatusBar
    timeline: TimelineView
    toolbar: Toolbar
    welcome: Welcome

    starts_anew = False
    """Whether the program is to be started again when the window is closed."""

    def make_late_parts(self) -> None:
        """Makes the parts that do not exist yet."""
        for name in _names():
            getattr(self, name)

    def later(self, deed: str) -> Callable[..., object]:
        """Does what a part does, such as "dialogs.show_clinic", and makes that part only then."""
        find = attrgetter(deed)

        def do(*given: object) -> object:
            return find(self)(*given)

        return do

    def is_made(self, name: str) -> bool:
        """Whether a part is there."""
        return name in vars(self)

    def open_paths(self, paths: Sequence[str], *, waits: bool = False) -> None:
        """Opens files and folders of any kind, soon; what cannot be opened is told in the message bar.

        `waits`: opens before returning and raises UserError instead (pictures).
        """
        (self.opener.open_now if waits else self.opener.open)(paths)

    def ask_long_work(self, name: str) -> None:
        """Asks what a kind of long work is to do."""
        self.long_work.ask(name)

    def measure_overhead(self) -> None:
        """Asks to measure what recording costs on the engine's device."""
        self.long_work.ask(OVERHEAD, {"device": self.machine.device})

    def _start_anew(self) -> None:
        """Closes the window; whoever waits for that starts the program again."""
        self.starts_anew = True
        self.close()

    @cached_property
    def results(self) -> Results:
        """Imports results and writes reports."""
        from ui.window.results import Results

        return Results(self.session, self, self.messages)

    @cached_property
    def exporting(self) -> Exporting:
        """Asks for a file and writes it."""
        from ui.window.exporting import Exporting

        return Exporting(self.session, self.controller, self, self.messages.post)

    @cached_property
    def help(self) -> HelpPages:
        """Opens pages of the documentation."""
        from ui.help.help_pages import HelpPages

        return HelpPages(self.messages.post)

    @cached_property
    def trace_pages(self) -> TracePages:
        """Shows torch traces."""
        from ui.traces.trace_pages import TracePages

        return TracePages(self, self.controller, self.timeline, self.inspector, self.holder)

    @cached_property
    def opener(self) -> Opener:
        """Opens paths of any kind."""
        from ui.window.opening import Opener

        opener = Opener(self.session, self.toolbar, self.samples, self.results, self.messages)
        opener.listed.connect(self.sample_opened)
        opener.trace_opened.connect(self.trace_pages.show_trace)
        return opener

    @cached_property
    def drops(self) -> FileDrops:
        """Takes what is dropped on the window."""
        from ui.samples.file_drops import FileDrops

        drops = FileDrops(self, self.holder, self.opener.look, self.opener.forget, self.open_paths)
        self.opener.seen.connect(drops.overlay.show_opening)
        return drops

    @cached_property
    def dialogs(self) -> WindowDialogs:
        """Opens the window's dialogs."""
        from ui.window.window_dialogs import WindowDialogs

        return WindowDialogs(
            self,
            self.session,
            self.controller,
            self.selection,
            self.holder,
            toolbar=self.toolbar,
            messages=self.messages,
            runs=self.runs,
        )

    @cached_property
    def finding(self) -> WindowPalette:
        """Finds actions, runs, spans."""
        from ui.window.window_palette import WindowPalette

        return WindowPalette(
            self,
            self.holder,
            self.actions_by_name,
            controller=self.controller,
            selection=self.selection,
            following=self.following,
            timeline=self.timeline,
            toolbar=self.toolbar,
            samples=self.samples,
        )

    @cached_property
    def long_work(self) -> LongWork:
        """What takes long and is done in a process of its own."""
        from ui.work.long_work import LongWork

        work = LongWork(
            self, self.controller, self.holder, self.messages, open_paths=self.open_paths, show=self.status.show_work
        )
        work.queue.ended.connect(lambda _: self.machine.read())
        return work

    @cached_property
    def machine(self) -> MachineNote:
        """Tells in the status bar what is known of the machine."""
        from ui.status.machine_note import MachineNote

        return MachineNote(self.controller, self.status)

    @cached_property
    def scale(self) -> UiScale:
        """How large everything is drawn."""
        from ui.style.ui_scale import UiScale

        return UiScale(self._memory.settings, self.messages.post, self.messages.withdraw, self._start_anew)

    @cached_property
    def abandoned(self) -> AbandonedSessions:
        """Looks for sessions that killed programs left."""
        from ui.window.abandoned_sessions import AbandonedSessions

        return AbandonedSessions(self.session, self.messages, self)


def _names() -> Iterator[str]:
    return (name for name, value in vars(LateParts).items() if isinstance(value, cached_property))
