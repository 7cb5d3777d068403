"""The upper edge of the comparison window: basis, differences only, saved views, export."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtGui import QKeySequence
from PySide6.QtWidgets import QCheckBox, QMenu, QPushButton, QToolButton, QWidget

from evprof.metrics.figures.stages import BASES
from ui.comparison.export import FORMATS
from ui.comparison.saved_views import SavedViews
from ui.run_facts.figures import BASIS_NAMES
from ui.style.theme import BUTTON_PX, GRID
from ui.widgets.boxes import beside
from ui.widgets.elided import literal
from ui.widgets.panel_parts import WordSwitch


class ComparisonBar(QWidget):
    """Knows what can be asked for, and nothing of what is shown.

    Signals:
        basis_chosen(str): one of `evprof.metrics.figures.stages.BASES`.
        differences_toggled(bool): whether figures without a difference are left out.
        view_opened(str), view_removed(str): the name of a saved view.
        save_asked(): this choice is to be saved as a view.
        copy_asked(): the table is wanted in the clipboard.
        export_asked(str): a key of `ui.comparison.export.FORMATS`.
    """

    basis_chosen = Signal(str)
    differences_toggled = Signal(bool)
    view_opened = Signal(str)
    view_removed = Signal(str)
    save_asked = Signal()
    copy_asked = Signal()
    export_asked = Signal(str)

    def __init__(self, saved: SavedViews, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._saved = saved
        self.basis = WordSwitch([(basis, BASIS_NAMES[basis]) for basis in BASES])
        self.basis.setToolTip("What totals and the time to the first token count")
        self.basis.chosen.connect(self.basis_chosen)
        self.differences = QCheckBox("Differences only")
        self.differences.setToolTip("Hide figures in which no configuration differs from the baseline")
        self.differences.toggled.connect(self.differences_toggled)
        self.views = _menu_button("Views", "Comparisons saved in this session")
        self.views.menu().aboutToShow.connect(self._list_views)
        self.save = QPushButton("Save view…")
        self.save.setToolTip("Keep this choice of columns in the session (Ctrl+S)")
        self.save.clicked.connect(self.save_asked)
        self.export = _menu_button("Export", "Copy or write this comparison")
        self._fill_export()
        parts = (self.basis, self.differences, None, self.views, self.save, self.export)
        beside(*parts, on=self, margins=(2 * GRID, GRID, 2 * GRID, GRID), spacing=GRID)

    def _fill_export(self) -> None:
        menu = self.export.menu()
        copy = menu.addAction("Copy as text")
        # Shown, not bound: the window itself listens for it.
        copy.setText(f"Copy as text\t{QKeySequence(QKeySequence.StandardKey.Copy).toString()}")
        copy.triggered.connect(self.copy_asked)
        for key, (text, _) in FORMATS.items():
            menu.addAction(text).setData(key)
        menu.triggered.connect(lambda action: self.export_asked.emit(action.data()) if action.data() else None)

    def show_choice(self, basis: str, *, differences_only: bool) -> None:
        """Shows what is in force, as a saved view brought it."""
        if self.basis.key != basis:
            self.basis.choose(basis)
        self.differences.setChecked(differences_only)

    def set_has_columns(self, has_columns: bool) -> None:
        """Whether there is anything to save and to write."""
        self.export.setEnabled(has_columns)
        self.save.setEnabled(has_columns)

    def _list_views(self) -> None:
        menu = self.views.menu()
        menu.clear()
        names = list(self._saved.by_name)
        for name in names:
            menu.addAction(literal(name)).triggered.connect(lambda _=False, name=name: self.view_opened.emit(name))
        if not names:
            menu.addAction("None saved in this session yet").setEnabled(False)
        menu.addSeparator()
        saving = menu.addAction("Save view…")
        saving.setEnabled(self.save.isEnabled())
        saving.triggered.connect(self.save_asked)
        removal = menu.addMenu("Remove")
        removal.setEnabled(bool(names))
        for name in names:
            removal.addAction(literal(name)).triggered.connect(lambda _=False, name=name: self.view_removed.emit(name))


def _menu_button(text: str, tip: str) -> QToolButton:
    button = QToolButton()
    button.setText(text)
    button.setFixedHeight(BUTTON_PX)
    button.setToolTip(tip)
    button.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
    button.setMenu(QMenu(button))
    return button
