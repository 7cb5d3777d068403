"""What stands above a model's column: its name, its family, its part in the run, what it is doing now."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QFontMetrics, QResizeEvent
from PySide6.QtWidgets import QHBoxLayout, QLayout, QWidget

from evprof.core.records import DRAFT
from evprof.core.run_info import FAILED, ModelFacts
from evprof.core.safe_text import plain
from evprof.view.columns import ShownModel, takes_draft_model
from evprof.view.labels import model_title
from ui.run_facts.run_text import chips, mode_name, provenance_tip, short_chips, stage_now
from ui.style.theme import GRID
from ui.widgets.boxes import in_role
from ui.widgets.elided import elided_text
from ui.widgets.label import Label
from ui.widgets.panel_parts import ToneLabel

LOSSY = "This answer may differ from the target's own: a trained map made its cache from the draft's."

_STATE_WIDTH, _LEAST_STATE_WIDTH = 96, 56
_LEAST_NAME_WIDTH = 64


class ModelHead(QWidget):
    """Name, family · arithmetic · device, part in the run, and what it is doing now.

    With little room the part goes first (its side says it already), then the family.
    """

    def __init__(self, side: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._side = side
        self._model: ModelFacts | None = None
        self._header = in_role(Label(), "small")
        self._header.hide()
        self._name = in_role(Label(), "title")
        self._chips = in_role(Label(), "chip")
        self._part = in_role(Label(), "chip")
        self._lossy = in_role(Label("lossy"), "warn-chip")
        self._lossy.setToolTip(LOSSY)
        self._lossy.hide()
        self._state = ToneLabel(wraps=False, alignment=Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        self.setFixedHeight(24)
        row = QHBoxLayout(self)
        row.setSizeConstraint(QLayout.SizeConstraint.SetNoConstraint)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(GRID)
        for widget in (self._header, self._name, self._lossy, self._chips, self._part):
            row.addWidget(widget, 0, Qt.AlignmentFlag.AlignVCenter)
        row.addStretch(1)
        row.addWidget(self._state)

    def set_header(self, text: str) -> None:
        """`A · run 2` where two runs are compared; empty elsewhere."""
        if text != self._header.text():
            self._header.setText(text)
            self._header.setVisible(bool(text))
            self._fit()

    def show_column(self, column: ShownModel | None) -> None:
        """Shows a model of a run; called again while the run goes on."""
        model = column.run.info.models.get(column.role) if column else None
        part = self._part_of(column)
        lossy = column is not None and _is_lossy(column)
        known = (self._model, self._part.text(), not self._lossy.isHidden())
        if (model, part, lossy) != known or not self._name.text():
            self._model = model
            self._part.setText(part)
            self._lossy.setVisible(lossy)
            self._fit()
        if column is None:
            self._state.say("", "dim")
            return
        state = stage_now(column.run, column.role)
        self._state.say(state, "bad" if column.run.info.status == FAILED else "dim")
        self._state.setToolTip(plain(provenance_tip(column.run)))

    def _part_of(self, column: ShownModel | None) -> str:
        """What the model is in its run; of a speculative run beside another one also who drafts."""
        if column is None or not self._header.text() or column.role == DRAFT or not takes_draft_model(column.run):
            return column.role if column else ""
        return f"{column.role} · drafts: {model_title(column.run, DRAFT)}"

    def minimumSizeHint(self) -> QSize:
        return QSize(180, 24)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    def _fit(self) -> None:
        """Leaves out the part, then the family, where the name needs the room; shortens the name last."""
        for label in (self._header, self._name, self._lossy, self._chips, self._part):
            label.ensurePolished()  # measured before they are shown, labels have another font
        model = self._model
        name = model.name if model else mode_name(self._side)
        metrics = QFontMetrics(self._name.font())
        wanted = metrics.horizontalAdvance(name) + GRID
        fixed = sum(label.sizeHint().width() + GRID for label in (self._header, self._lossy) if not label.isHidden())
        room = self.width() - GRID - fixed
        state = max(_LEAST_STATE_WIDTH, min(_STATE_WIDTH, room - _LEAST_NAME_WIDTH - GRID))
        self._state.setMinimumWidth(state)
        room -= state
        used = 0
        for text, has_part in ((chips(model), True), (chips(model), False), (short_chips(model), False), ("", False)):
            self._chips.setText(text)
            shown = (self._chips, bool(text)), (self._part, has_part and bool(self._part.text()))
            used = sum(label.sizeHint().width() + GRID for label, is_shown in shown if is_shown)
            for label, is_shown in shown:
                label.setVisible(is_shown)
            if wanted + used <= room:
                break
        self._name.setText(elided_text(metrics, name, Qt.TextElideMode.ElideRight, max(_LEAST_NAME_WIDTH, room - used)))
        self._name.setToolTip(plain(f"{name}\n{chips(model)}".strip()))


def _is_lossy(column: ShownModel) -> bool:
    from evprof.metrics.speculation.outcome import is_lossy

    return column.is_answer and is_lossy(column.run)
