"""Version, environment, and the licences of everything that a frozen program holds."""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PySide6.QtCore import qVersion
from PySide6.QtGui import QFontDatabase
from PySide6.QtWidgets import QListWidget, QPlainTextEdit, QPushButton, QSplitter, QWidget

from evprof.core.plain import Plain, UnfitError
from evprof.version import __version__
from ui.style.screen_fit import resize_in_room
from ui.style.theme import GRID, ThemeHolder
from ui.widgets.boxes import in_role, stacked
from ui.widgets.figure_table import FigureTable, TableRow
from ui.widgets.label import Label
from ui.widgets.panel_parts import wrapped
from ui.widgets.text_dialogs import FreeDialog

FOLDER = "licences"
_LICENCES = "Each part is under its own licence. Where its source is to be had stands above its text."
_MOST_TEXT_BYTES = 2_000_000


@dataclass(frozen=True)
class Part(Plain):
    """One part: its name, version, licence (SPDX), where its source is to be had, and the files that hold its texts."""

    name: str
    version: str
    licence: str
    texts: list[str]
    kind: str = ""
    source: str | None = None


def licences_folder() -> Path | None:
    """Beside the frozen program; None for an installation by pip, whose packages are not ours to hand on."""
    if not getattr(sys, "frozen", False):
        return None
    folder = Path(sys.executable).resolve().parent / FOLDER
    return folder if folder.is_dir() else None


def parts_in(folder: Path) -> list[Part]:
    """Every part by name; none where the list cannot be read."""
    try:
        document = json.loads((folder / "licences.json").read_text(encoding="utf-8"))
        return [Part.from_json(entry) for entry in document["parts"]]
    except (OSError, ValueError, KeyError, TypeError, UnfitError):
        return []


def text_of(folder: Path, part: Part) -> str:
    """The texts of a part's licence, one after the other; a sentence for one that cannot be read."""
    texts = []
    for name in part.texts:
        try:
            with (folder / name).open(encoding="utf-8", errors="replace") as file:
                texts.append(file.read(_MOST_TEXT_BYTES))
        except OSError as error:
            texts.append(f"{name} cannot be read ({error.strerror}).")
    return "\n\n".join(texts)


class LicencesDialog(FreeDialog):
    """Parts to the left, the chosen one's texts to the right."""

    def __init__(self, folder: Path, parent: QWidget | None = None) -> None:
        super().__init__("Licences of what is inside", parent)
        resize_in_room(self, 880, 560)
        self._folder = folder
        self._parts = parts_in(folder)
        self.parts = QListWidget()
        self.parts.addItems([f"{part.name} {part.version}" for part in self._parts])
        self.text = QPlainTextEdit()
        self.text.setReadOnly(True)
        self.text.setFont(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont))
        self.parts.currentRowChanged.connect(self._show)
        halves = QSplitter()
        halves.addWidget(self.parts)
        halves.addWidget(self.text)
        halves.setSizes([240, 640])
        parts = wrapped(_LICENCES, "dim"), (halves, 1)
        stacked(*parts, on=self, margins=(2 * GRID, 2 * GRID, 2 * GRID, 2 * GRID), spacing=GRID)
        self.parts.setCurrentRow(0)

    def _show(self, row: int) -> None:
        part = self._parts[row]
        source = f"\nSource: {part.source}" if part.source else ""
        head = f"{part.name} {part.version}\nLicence: {part.licence}{source}"
        self.text.setPlainText(f"{head}\n\n{text_of(self._folder, part)}")


_KEYS = ("device", "driver", "torch", "transformers", "threads")
"""What of the engine's environment is shown."""

_SENTENCE = (
    "A visual profiler for event-camera and video language models. Apache License 2.0. The typeface is Inter, "
    "SIL Open Font License."
)


class AboutDialog(FreeDialog):
    """Name, version, licence and environment; the table can be copied into a bug report."""

    def __init__(self, environment: Mapping[str, Any], themes: ThemeHolder, parent: QWidget | None = None) -> None:
        super().__init__("About evprof", parent)
        self.setFixedWidth(440)
        title = in_role(Label(f"evprof {__version__}"), "title")
        self.table = FigureTable(themes)
        rows = [TableRow("Python", (platform.python_version(),)), TableRow("Qt", (qVersion(),))]
        rows += [TableRow(key, (str(environment[key]),)) for key in _KEYS if environment.get(key) is not None]
        self.table.show_rows(rows)
        self.licences = QPushButton("Licences of what is inside…")
        self.licences.setVisible(licences_folder() is not None)
        self.licences.clicked.connect(self._show_licences)
        parts = title, wrapped(_SENTENCE, "dim"), self.table, self.licences
        stacked(*parts, on=self, margins=(3 * GRID, 2 * GRID, 3 * GRID, 3 * GRID), spacing=GRID)

    def _show_licences(self) -> None:
        if (folder := licences_folder()) is not None:
            LicencesDialog(folder, self).show()
