"""A panel of the window that follows the shown runs: live while it is in sight, and free of cost while it is not."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QWidget

from evprof.view.columns import ShownModel, columns_of
from ui.state.run_controller import RunController
from ui.state.selection import Selection
from ui.style.screen_fit import resize_in_room
from ui.style.theme import ThemeHolder
from ui.widgets.boxes import in_role
from ui.widgets.text_dialogs import FreeDialog


class FollowingPanel(QWidget):
    """Subclasses make their views in `make_views` and say what is shown in `show_runs`.

    That is called when the panel becomes visible, when other runs are chosen or another session is there, and on every
    tick with new rows of the runs it shows. It is never called while the panel is hidden.

    Signals:
        demo_asked(): the button for runs to look at was pressed.
    """

    demo_asked = Signal()

    is_slow = False
    """Whether it is updated with the figures, a few times a second, in place of every tick."""

    follows_all_runs = False
    """Whether news of runs that are not shown in the columns count too."""

    def __init__(self, controller: RunController, selection: Selection, themes: ThemeHolder) -> None:
        super().__init__()
        self._controller = controller
        self._selection = selection
        self._themes = themes
        self._is_stale = True
        in_role(self, "panel").setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.make_views(themes)
        selection.runs_changed.connect(self._fill)
        (controller.figures_due if self.is_slow else controller.runs_changed).connect(self._take_news)
        controller.session_replaced.connect(self._fill)

    def make_views(self, themes: ThemeHolder) -> None:
        raise NotImplementedError

    def show_runs(self) -> None:
        """Shows the runs as they are now; to be cheap when nothing happened to them."""
        raise NotImplementedError

    @property
    def is_busy(self) -> bool:
        """Whether something is still being worked out for what is shown."""
        return False

    def finish(self) -> None:
        """Ends work in the background; called before the panel goes away."""

    def shown_models(self) -> list[tuple[str, ShownModel]]:
        """The models in the columns, each with its column's letter."""
        pair = columns_of(self._controller.runs, self._selection.runs)
        return [(letter, shown) for letter, shown in zip("AB", pair, strict=True) if shown is not None]

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        if self._is_stale:
            self._fill()

    def _take_news(self, run_ids: set[int]) -> None:
        if self.follows_all_runs or run_ids.intersection(self._selection.runs):
            self._fill()

    def _fill(self, *_: object) -> None:
        self._is_stale = not self.isVisible()
        if not self._is_stale:
            self.show_runs()


class FollowingDialog(FreeDialog):
    """Subclasses say what is shown in `show_runs`; it is called when another run is chosen
    or another session is there, and a few times a second while rows arrive.
    """

    heading = ""
    least_px, first_px = (480, 420), (680, 660)
    """Its least and its first size, in logical px."""

    def __init__(
        self, controller: RunController, selection: Selection, themes: ThemeHolder, parent: QWidget | None = None
    ) -> None:
        super().__init__(self.heading, parent)
        self._controller = controller
        self._selection = selection
        self.setMinimumSize(*self.least_px)
        resize_in_room(self, *self.first_px)
        self.make_views(themes)
        self._selection.runs_changed.connect(self._fill)
        self._controller.figures_due.connect(self._fill)
        self._controller.session_replaced.connect(self._fill)
        self._fill()

    def make_views(self, themes: ThemeHolder) -> None:
        raise NotImplementedError

    def show_runs(self) -> None:
        """Shows the runs as they are now; to be cheap when nothing happened to them."""
        raise NotImplementedError

    def _fill(self, *_: object) -> None:
        self.show_runs()
