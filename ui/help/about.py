"""What this program is, in which version, and on which machine it runs."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from typing import Any

from PySide6.QtCore import Qt, qVersion
from PySide6.QtWidgets import QDialog, QPushButton, QWidget

from evprof.version import __version__
from ui.help.licences import LicencesDialog, licences_folder
from ui.style.theme import GRID, ThemeHolder
from ui.widgets.boxes import in_role, stacked
from ui.widgets.figure_table import FigureTable, TableRow
from ui.widgets.label import Label

_KEYS = ("device", "driver", "torch", "transformers", "threads")
"""What of the engine's environment is shown."""


_SENTENCE = (
    "A visual profiler for event-camera and video language models. Apache License 2.0. The typeface is Inter, "
    "SIL Open Font License."
)


class AboutDialog(QDialog):
    """Name, version, licence and environment; the table can be copied into a bug report. Does not block the window."""

    def __init__(self, environment: Mapping[str, Any], themes: ThemeHolder, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle("About evprof")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setFixedWidth(440)
        title = in_role(Label(f"evprof {__version__}"), "title")
        line = in_role(Label(_SENTENCE), "dim")
        line.setWordWrap(True)
        self.table = FigureTable(themes)
        rows = [TableRow("Python", (platform.python_version(),)), TableRow("Qt", (qVersion(),))]
        rows += [TableRow(key, (str(environment[key]),)) for key in _KEYS if environment.get(key) is not None]
        self.table.show_rows(rows)
        self.licences = QPushButton("Licences of what is inside…")
        self.licences.setVisible(licences_folder() is not None)
        self.licences.clicked.connect(self._show_licences)
        parts = title, line, self.table, self.licences
        stacked(*parts, on=self, margins=(3 * GRID, 2 * GRID, 3 * GRID, 3 * GRID), spacing=GRID)

    def _show_licences(self) -> None:
        if (folder := licences_folder()) is not None:
            LicencesDialog(folder, self).show()
