"""The licences of everything that a frozen program holds, from the folder beside it: plain text, offline."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtGui import QFontDatabase
from PySide6.QtWidgets import QDialog, QListWidget, QPlainTextEdit, QSplitter, QWidget

from evprof.core.plain import Plain, UnfitError
from ui.style.screen_fit import resize_in_room
from ui.style.theme import GRID
from ui.widgets.boxes import in_role, stacked
from ui.widgets.label import Label

FOLDER = "licences"
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


_SENTENCE = "Each part is under its own licence. Where its source is to be had stands above its text."


class LicencesDialog(QDialog):
    """Parts to the left, the chosen one's texts to the right. Does not block the window."""

    def __init__(self, folder: Path, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle("Licences of what is inside")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        resize_in_room(self, 880, 560)
        self._folder = folder
        self._parts = parts_in(folder)
        line = in_role(Label(_SENTENCE), "dim")
        line.setWordWrap(True)
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
        stacked(line, (halves, 1), on=self, margins=(2 * GRID, 2 * GRID, 2 * GRID, 2 * GRID), spacing=GRID)
        self.parts.setCurrentRow(0)

    def _show(self, row: int) -> None:
        part = self._parts[row]
        source = f"\nSource: {part.source}" if part.source else ""
        head = f"{part.name} {part.version}\nLicence: {part.licence}{source}"
        self.text.setPlainText(f"{head}\n\n{text_of(self._folder, part)}")
