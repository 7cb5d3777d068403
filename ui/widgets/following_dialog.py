"""A dialog that follows the window's runs while they go on, without drawing more often than an eye can use."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QDialog, QWidget

from ui.state.run_controller import RunController
from ui.state.selection import Selection
from ui.style.screen_fit import resize_in_room
from ui.style.theme import ThemeHolder


class FollowingDialog(QDialog):
    """Does not block the window. Subclasses say what is shown in `show_runs`; it is called when another run is chosen
    or another session is there, and a few times a second while rows arrive.
    """

    heading = ""
    least_px, first_px = (480, 420), (680, 660)
    """Its least and its first size, in logical px."""

    def __init__(
        self, controller: RunController, selection: Selection, themes: ThemeHolder, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._controller = controller
        self._selection = selection
        self._themes = themes
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle(self.heading)
        self.setMinimumSize(*self.least_px)
        resize_in_room(self, *self.first_px)
        self.make_views(themes)
        self._selection.runs_changed.connect(self._fill)
        self._controller.figures_due.connect(self._fill)
        self._controller.session_replaced.connect(self._fill)
        self._themes.changed.connect(self._restyle)
        self._fill()

    def make_views(self, themes: ThemeHolder) -> None:
        raise NotImplementedError

    def show_runs(self) -> None:
        """Shows the runs as they are now; to be cheap when nothing happened to them."""
        raise NotImplementedError

    def restyle(self) -> None:
        """Takes another theme's colours where no style sheet does."""
        raise NotImplementedError

    def _fill(self, *_: object) -> None:
        self.show_runs()

    def _restyle(self, *_: object) -> None:
        self.restyle()
