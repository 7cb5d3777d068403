"""The training window: how adapters learned, from the session that `evprof adapter train` wrote."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QDialog, QWidget

from ui.state.window_session import WindowSession
from ui.style.screen_fit import resize_in_room
from ui.style.theme import GRID, ThemeHolder
from ui.training.curves import TrainingCurve, training_curves
from ui.training.plot import TrainingPlot
from ui.widgets.boxes import beside, in_role, stacked
from ui.widgets.choice_box import ChoiceBox
from ui.widgets.empty_state import EmptyState
from ui.widgets.label import Label
from ui.widgets.panel_parts import section_head, sentence

_EMPTY = (
    "Loss and validation of each adapter by step, and the step that was kept, appear here. A training writes "
    "them into the session that it is given; open that session here."
)
_CAPTION = "Grey: loss on the examples trained on. Blue: loss on those kept aside. Green: the step that was kept."


class TrainingDialog(QDialog):
    """Shows the trainings of the open session, one at a time. Does not block the window."""

    def __init__(self, session: WindowSession, themes: ThemeHolder, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._session = session
        self.curves: list[TrainingCurve] = []
        self.setWindowTitle("Training curves")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setMinimumSize(480, 380)
        resize_in_room(self, 760, 520)
        self.empty = EmptyState("No training in this session", _EMPTY, "Train an adapter…", does="train_adapter")
        self.choice = ChoiceBox(themes)
        self.choice.setAccessibleName("Adapter")
        self.choice.setToolTip("Which training is shown.")
        self.title = in_role(Label(), "title")
        self.plot = TrainingPlot(themes)
        self.summary = sentence("")
        self.caption = sentence("small")
        self.caption.setText(_CAPTION)
        self.caption.show()
        self._lay_out()
        self.choice.currentIndexChanged.connect(self._show)
        session.opened.connect(self.refill)
        themes.changed.connect(self._restyle)
        self.refill()

    def _lay_out(self) -> None:
        head = beside(self.title, self.choice, None, spacing=2 * GRID)
        self.body = QWidget()
        stacked(
            head, self.summary, section_head("Loss by step"), (self.plot, 1), self.caption, on=self.body, spacing=GRID
        )
        stacked(self.empty, (self.body, 1), on=self, margins=(2 * GRID, 2 * GRID, 2 * GRID, 2 * GRID))

    def refill(self, *_: object) -> None:
        """Takes what the open session says; the newest training is shown first."""
        self.curves = training_curves(self._session.facts)
        self.choice.blockSignals(True)
        self.choice.clear()
        for curve in self.curves:
            self.choice.addItem(" · ".join(filter(None, (curve.title, curve.began))))
        self.choice.setCurrentIndex(len(self.curves) - 1)
        self.choice.blockSignals(False)
        self.empty.setVisible(not self.curves)
        self.body.setVisible(bool(self.curves))
        self.choice.setVisible(len(self.curves) > 1)
        self._show(len(self.curves) - 1)

    def _show(self, index: int) -> None:
        curve = self.curves[index] if 0 <= index < len(self.curves) else None
        self.plot.show_curve(curve)
        self.title.setText("" if curve is None or len(self.curves) > 1 else curve.title)
        self.title.setVisible(bool(self.title.text()))
        self.summary.setText("" if curve is None else curve.sentence)
        self.summary.setVisible(curve is not None)

    def _restyle(self, *_: object) -> None:
        self.plot.restyle()
