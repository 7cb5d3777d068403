"""Other people's names are letters to the window: nothing that it shows is taken for HTML, whatever it spells."""

from __future__ import annotations

import ast
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from PySide6.QtCore import QAbstractListModel, QEvent, QPoint, Qt
from PySide6.QtGui import QAction
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QAbstractItemView,
    QApplication,
    QComboBox,
    QDialog,
    QGraphicsTextItem,
    QGraphicsView,
    QLabel,
    QMessageBox,
    QTextEdit,
    QToolTip,
    QWidget,
)

from evprof.core.protocols import RunStarted
from evprof.core.recording import RecordLog
from evprof.core.records import BEGIN, END, SETTLED, SpanRecord, TensorRecord
from evprof.core.request import RunRequest
from evprof.core.run_info import RunInfo
from evprof.core.sample import Sample
from evprof.core.vocabulary.generation import ModelChoice
from evprof.run.session_writer import SessionWriter
from kept import Keep
from scripted_engine import ScriptedEngine
from scripted_pair import SCRIPTED_DRAFT, SCRIPTED_TARGET, Script
from told import told
from ui.help.about import AboutDialog
from ui.style.theme import ThemeHolder, theme_named
from ui.widgets.label import Label
from ui.window.main_window import MainWindow

ROOT = Path(__file__).resolve().parents[2]
MARKUP = '<img src="/dev/zero"><b>bold</b><a href="file:///etc/passwd">go</a>'
NAME = f"{MARKUP}\u202egnp.\u0007 & more"

Wait = Callable[..., None]


class NamedSink(RecordLog):
    """A log in which every run is told under hostile names."""

    def post(self, message: object) -> None:
        if isinstance(message, RunStarted):
            message = replace(message, info=_renamed(message.info))
        super().post(message)  # type: ignore[arg-type]  # any message


def _renamed(info: RunInfo) -> RunInfo:
    given = told({"frames": 8, NAME: NAME}, {"name": NAME, "prompt": NAME, "reference": NAME})
    environment = {"device": NAME, "torch": NAME, "driver": NAME, "gpu": NAME, NAME: NAME}
    kept = {"events": replace(info.sample, name=NAME, prompt=NAME)}
    return replace(
        info, cell=NAME, sample=kept["events"], settings=given["settings"], given=given["given"], warnings=[NAME],
        environment={**info.environment, **environment}, error=NAME,
    )  # fmt: skip


def played(path: Path) -> None:
    """A session in which everything that can have a name has a hostile one."""
    script = Script(
        replace(SCRIPTED_DRAFT, facts=replace(SCRIPTED_DRAFT.facts, name=NAME, dtype=NAME, device=NAME, family=NAME)),
        replace(SCRIPTED_TARGET, facts=replace(SCRIPTED_TARGET.facts, name=NAME, quantization=NAME)),
    )
    recording, engine, run_id = NamedSink(), ScriptedEngine(script, speed=3000), 1
    for mode in ("side-by-side", "speculative", "target"):
        request = RunRequest(mode, Sample(NAME, NAME, NAME, NAME), ModelChoice(NAME), ModelChoice(NAME),
                             first_run_id=run_id, group_id=run_id, cell=NAME)  # fmt: skip
        engine.run(request, recording, threading.Event())
        run_id += 2 if mode == "side-by-side" else 1
    log = recording
    for phase in (BEGIN, END, SETTLED):
        log.append(SpanRecord(1, 900, 0, phase, "draft", NAME, 1, -1 if phase == BEGIN else 2))
    log.append(TensorRecord(1, 900, "out", NAME, "1,2,3", NAME, 24))
    with SessionWriter(recording, path):
        pass


@pytest.fixture
def window(themes: ThemeHolder, application: QApplication, tmp_path: Path, keep: Keep) -> MainWindow:
    folder = tmp_path / "<b>x<"
    folder.mkdir()
    path = folder / "<i>\u202e&<img src=x>.evprof"
    played(path)
    made = MainWindow(themes)
    made.resize(1400, 900)
    made.show()
    made.session.read(path)
    application.processEvents()
    return keep(made)


@dataclass
class Walk:
    """What was looked at, and what Qt would read as rich text."""

    labels: int = 0
    tips: int = 0
    actions: int = 0
    cells: int = 0
    hostile: int = 0
    rich: list[str] = field(default_factory=list)

    def over(self, root: QWidget) -> None:
        """All widgets of a window, its actions and the models of its lists."""
        for widget in (root, *root.findChildren(QWidget)):
            self.tips += self._has_text(widget.toolTip())
            if isinstance(widget, QLabel):
                self.labels += 1
                self._has_text(widget.text())
                if widget.textFormat() != Qt.TextFormat.PlainText:
                    self.rich.append(f"{type(widget).__name__} {widget.objectName()}: {widget.text()[:60]}")
            if isinstance(widget, QTextEdit) and (widget.acceptRichText() or not widget.isReadOnly()):
                self.rich.append(f"{type(widget).__name__} takes HTML, pasted too")
            if isinstance(widget, QGraphicsView):
                self._over_scene(widget)
            if isinstance(widget, QAbstractItemView | QComboBox):
                self._over_model(widget)
        for action in root.findChildren(QAction):
            self.actions += 1
            self._has_text(action.text())
            self.tips += self._has_text(action.toolTip())

    def _over_scene(self, view: QGraphicsView) -> None:
        for item in view.scene().items() if view.scene() else []:
            if isinstance(item, QGraphicsTextItem) and "<img" in item.toHtml():
                self.rich.append(item.toHtml())

    def _over_model(self, view: QAbstractItemView | QComboBox) -> None:
        model = view.model()
        for row in range(model.rowCount() if model is not None else 0):
            for column in range(1 if isinstance(model, QAbstractListModel) else model.columnCount()):
                index = model.index(row, column)
                self.cells += 1
                self._has_text(str(index.data(Qt.ItemDataRole.DisplayRole) or ""))
                self.tips += self._has_text(str(index.data(Qt.ItemDataRole.ToolTipRole) or ""))

    def _has_text(self, text: str) -> bool:
        self.hostile += "<img" in text
        return bool(text)


def test_no_label_of_any_window_takes_markup(window: MainWindow, application, themes: ThemeHolder, wait_until) -> None:
    window.messages.post(f"{MARKUP}: cannot be read.")
    window.selection.set_runs(1, 2)
    dialogs = window.dialogs
    window.status.environment = {"device": MARKUP, "torch": MARKUP}
    dialogs.show_about()
    dialogs.show_keys()
    dialogs.show_distributions()
    dialogs.show_clinic()
    dialogs.show_comparison()
    for name in ("dark", "light", "dark"):
        themes.set_theme(theme_named(name))
        application.processEvents()
    QTest.qWait(600)  # the following dialogs draw at most twice a second
    walk = Walk()
    walk.over(window)
    assert len([dialog for dialog in window.findChildren(QDialog) if dialog.isVisible()]) == 5
    print(f"{walk.labels} labels, {walk.tips} tips, {walk.actions} actions, {walk.cells} cells, {walk.hostile} hostile")
    assert walk.rich == []
    assert walk.labels > 80
    assert walk.tips > 60
    assert walk.actions > 40
    assert walk.hostile > 10, "the hostile names are on show"
    assert "\u202e" not in window.windowTitle()
    assert "U+202E" in window.windowTitle()
    shown = [widget.text() for widget in window.findChildren(QLabel)]
    assert not any(letter in text for text in shown for letter in "\u202e\u0007")


def tip_label(application: QApplication) -> QLabel:
    """Qt's own label of a tool tip."""
    found = [widget for widget in application.topLevelWidgets() if widget.metaObject().className() == "QTipLabel"]
    assert found
    assert isinstance(found[0], QLabel)
    return found[0]


def test_tool_tips_and_dialogs_that_qt_makes_are_plain(themes: ThemeHolder, application: QApplication) -> None:
    ground = Label("ground")
    ground.show()
    try:
        for text in (MARKUP, f"again {MARKUP}"):
            QToolTip.showText(QPoint(5, 5), text, ground)
            assert tip_label(application).textFormat() == Qt.TextFormat.PlainText
            assert tip_label(application).text() == text
        box = QMessageBox(QMessageBox.Icon.Warning, "evprof", MARKUP, parent=ground)
        box.setInformativeText(MARKUP)
        box.open()
        application.processEvents()
        labels = box.findChildren(QLabel)
        assert sum(label.text() == MARKUP for label in labels) == 2
        assert {label.textFormat() for label in labels} == {Qt.TextFormat.PlainText}
        box.close()
    finally:
        QToolTip.hideText()
        ground.close()
        ground.deleteLater()
        application.sendPostedEvents(None, QEvent.Type.DeferredDelete)
        QTest.qWait(350)  # a tool tip leaves after a moment
        application.sendPostedEvents(None, QEvent.Type.DeferredDelete)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_picture_in_a_name_is_not_opened(themes: ThemeHolder, application: QApplication, tmp_path: Path) -> None:
    """Taken for HTML, this name would have the window wait for ever at a pipe that nobody writes to."""
    os.mkfifo(tmp_path / "pipe")
    about = AboutDialog({"device": "cpu"}, themes)
    label = Label(f'<img src="{tmp_path}/pipe">', about)
    about.show()
    QToolTip.showText(QPoint(5, 5), label.text(), about)
    application.processEvents()
    about.grab()
    assert label.text().startswith("<img")
    QToolTip.hideText()
    about.close()
    QTest.qWait(350)
    application.sendPostedEvents(None, QEvent.Type.DeferredDelete)


def test_hidden_letters_are_told_and_endless_texts_cut(keep: Keep) -> None:
    label = keep(Label("a\u202eb\x07\ud800\x00\nsecond line"))
    assert label.text() == "a⟨U+202E⟩b⟨U+0007⟩⟨U+D800⟩⟨U+0000⟩\nsecond line"
    label.setText("x" * 10_000_000)
    assert len(label.text()) < 21_000


def _calls(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def test_only_one_file_makes_labels_and_nobody_writes_html() -> None:
    """What Qt would take for HTML is made nowhere: labels by `ui.widgets.label`, painted names by `elided_text`."""
    forbidden = {"QLabel", "setHtml", "QTextEdit", "QTextBrowser", "QErrorMessage", "setTextFormat", "elidedText"}
    allowed = {"label.py": {"setTextFormat", "elidedText"}, "defect_net.py": {"setTextFormat"}}
    for path in (ROOT / "ui").rglob("*.py"):
        called = set(_calls(ast.parse(path.read_text(encoding="utf-8"))))
        assert not called & forbidden - allowed.get(path.name, set()), path
