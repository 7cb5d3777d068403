"""The training window: curves of a session's fact, hostile facts, the empty state, and that it goes away."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QEvent
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QApplication, QLabel, QPushButton

from evprof.session.training import TRAINING as FACT
from evprof.session.training import TrainingEntry
from ui.state.window_session import WindowSession
from ui.style.theme import ThemeHolder
from ui.training.curves import training_curves
from ui.training.window import TrainingDialog
from ui.window.main_window import MainWindow


def training(name: str = "tiny-eagle", **changes: Any) -> dict[str, Any]:
    """What a training writes."""
    return {
        "adapter": name,
        "kind": "eagle",
        "started_at": "2026-11-21T14:00:00Z",
        "steps": [0, 10, 20, 30],
        "loss": [3.0, 2.0, 1.5, 1.4],
        "validation_steps": [10, 20, 30],
        "validation_loss": [2.2, 1.8, 1.9],
        "validation_match": [0.2, 0.55, 0.5],
        "best_step": 20,
        "stopped_early": True,
        "examples": 4000,
        "validation_examples": 400,
        **changes,
    }


@pytest.fixture
def session(application: QApplication) -> WindowSession:
    return WindowSession()


@pytest.fixture
def dialog(application: QApplication, session: WindowSession, themes: ThemeHolder) -> Iterator[TrainingDialog]:
    made = TrainingDialog(session, themes)
    made.show()
    application.processEvents()
    yield made
    made.close()
    application.sendPostedEvents(None, QEvent.Type.DeferredDelete)


def test_an_empty_session_teaches_what_fills_it(dialog: TrainingDialog) -> None:
    assert dialog.empty.isVisible()
    assert not dialog.body.isVisible()
    assert any("A training writes" in label.text() for label in dialog.empty.findChildren(QLabel))


def test_it_shows_the_newest_and_lets_others_be_chosen(dialog: TrainingDialog, session: WindowSession) -> None:
    session.facts[FACT] = [training("first"), training("second", kind="hidden", stopped_early=False, best_step=30)]
    dialog.refill()
    assert dialog.plot.curve is not None
    assert dialog.plot.curve.adapter == "second"
    assert dialog.summary.text() == (
        "4,000 examples, 400 kept aside · 30 steps · best at step 30, loss 1.9, 50.0 % of tokens right · ran to its end"
    )
    assert [dialog.choice.itemText(place) for place in range(2)] == [
        "EAGLE · first · 2026-11-21 14:00",
        "hidden · second · 2026-11-21 14:00",
    ]
    dialog.choice.setCurrentIndex(0)
    assert dialog.plot.curve.adapter == "first"
    assert "best at step 20, loss 1.8, 55.0 % of tokens right · stopped early" in dialog.summary.text()


def test_the_plot_has_both_curves_and_the_kept_step(dialog: TrainingDialog, session: WindowSession) -> None:
    session.facts[FACT] = [training()]
    dialog.refill()
    assert not dialog.choice.isVisible()
    assert dialog.title.text() == "EAGLE · tiny-eagle"
    kinds = [type(item).__name__ for item in dialog.plot.box.addedItems]
    assert (kinds.count("PlotCurveItem"), kinds.count("ScatterPlotItem")) == (3, 1)
    assert [word.toPlainText() for word in dialog.plot.words] == ["kept: step 20"]
    # Words are not drawn over those of the last time.
    dialog.plot.draw()
    texts = [item for item in dialog.plot.scene().items() if type(item).__name__ == "TextItem"]
    assert len(texts) == 1
    session.facts[FACT] = [training(best_step=None)]
    dialog.refill()
    assert dialog.plot.words == []


@pytest.mark.parametrize(
    "fact",
    [
        None,
        7,
        "training",
        [None, 3, "x", [], {}],
        {"adapter": 3},
        [training(steps="many", loss=None, validation_steps=[], validation_loss=[])],
        [training(steps=[1, 2], loss=["x", None], validation_steps={}, validation_loss=3)],
    ],
)
def test_what_is_no_training_is_left_out(fact: Any) -> None:
    assert training_curves({FACT: fact}) == []


@pytest.mark.parametrize(
    "changes",
    [
        {"loss": [1e300, float("nan"), float("inf"), 2.0]},
        {"loss": [10**400, 1, 2, 3], "best_step": 10**400},
        {"loss": [0.0, 0.0, 0.0, 0.0], "validation_loss": [0, 0, 0]},
        {"loss": [-3.0, -4.0, -5.0, -6.0]},
        {"steps": [True, False, 1, 2]},
        {"validation_match": ["x"], "best_step": "soon", "examples": -3, "stopped_early": "yes"},
        {"adapter": "a" * 10_000, "kind": "new\nkind", "started_at": 3},
        {"validation_steps": [], "validation_loss": []},
        {"steps": [], "loss": []},
        {"steps": [5], "loss": [1.0], "validation_steps": [], "validation_loss": []},
    ],
)
def test_hostile_facts_are_drawn_as_far_as_they_make_sense(
    dialog: TrainingDialog, session: WindowSession, application: QApplication, changes: dict[str, Any]
) -> None:
    session.facts[FACT] = [training(**changes)]
    dialog.refill()
    application.processEvents()
    (curve,) = dialog.curves
    assert len(curve.steps) == len(curve.loss)
    assert len(curve.validation_steps) == len(curve.validation_loss)
    assert len(curve.adapter) <= 80
    assert curve.best_step in (20, None)
    dialog.render(QImage(dialog.size(), QImage.Format.Format_RGB32))
    assert dialog.plot.minimumSizeHint().width() <= dialog.width()


def test_a_session_with_trainings_says_so_and_opens_them(
    application: QApplication, themes: ThemeHolder, tmp_path: Path
) -> None:
    path = tmp_path / "trained.evprof"
    with TrainingEntry(path) as entry:
        entry.put(training())
    window = MainWindow(themes)
    window.show()
    window.open_paths([str(path)], waits=True)
    application.processEvents()
    assert ("Ctrl+Shift+T", "Training curves") in dict(window.actions_by_name.gestures())["Window"]
    shown = window.messages.shown
    assert shown is not None
    assert shown.sentence == "This session holds the training of an adapter."
    assert shown.on_action is not None
    kept: list[weakref.ref[object]] = []
    for way in (shown.on_action, window.actions_by_name["training"].trigger):
        way()
        application.processEvents()
        (opened,) = window.findChildren(TrainingDialog)
        assert opened.curves[0].title == "EAGLE · tiny-eagle"
        kept += [weakref.ref(opened), weakref.ref(opened.plot)]
        # Another session takes its place while it is open.
        window.session.start_new()
        assert opened.empty.isVisible()
        opened.close()
        del opened
        application.sendPostedEvents(None, QEvent.Type.DeferredDelete)
        window.open_paths([str(path)], waits=True)
    gc.collect()
    assert [ref() for ref in kept if ref() is not None] == []
    window.close()
    window.deleteLater()
    application.sendPostedEvents(None, QEvent.Type.DeferredDelete)


def test_an_empty_session_offers_a_training_as_the_menu_does(application: QApplication, themes: ThemeHolder) -> None:
    window = MainWindow(themes)
    asked: list[str] = []
    window.actions_by_name["train_adapter"].triggered.connect(lambda *_: asked.append("train_adapter"))
    window.dialogs.show_training()
    dialog = window.findChild(TrainingDialog)
    assert dialog is not None
    button = dialog.empty.findChild(QPushButton)
    assert button is not None
    button.click()
    assert asked == ["train_adapter"]
    dialog.close()
    window.close()
    window.deleteLater()
    application.sendPostedEvents(None, QEvent.Type.DeferredDelete)
