"""The size of everything: remembered, taken before the window is made, never against the environment's own word."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from PySide6.QtCore import QSettings

from ui.style.screen_fit import SCALES, UiScale, apply_scale, forget_scale, kept_scale


@pytest.fixture
def settings(application: object, tmp_path: Path) -> QSettings:
    return QSettings(str(tmp_path / "settings.ini"), QSettings.Format.IniFormat)


@pytest.fixture
def variable(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("QT_SCALE_FACTOR", "1")
    monkeypatch.delenv("QT_SCALE_FACTOR")
    return "QT_SCALE_FACTOR"


def test_each_step_is_remembered_and_offers_a_new_start(settings: QSettings, variable: str) -> None:
    told: list[str] = []
    restarts: list[bool] = []
    withdrawn: list[str] = []
    scale = UiScale(
        settings, lambda sentence, *_: told.append(sentence), withdrawn.append, lambda: restarts.append(True)
    )
    scale.larger()
    scale.larger()
    assert kept_scale(settings) == 125
    assert told[-1] == "From the next start on everything is drawn at 125 %."
    apply_scale(settings)
    assert os.environ[variable] == "1.25"
    forget_scale()
    assert variable not in os.environ
    for _ in SCALES:
        scale.smaller()
    assert kept_scale(settings) == 80
    assert told[-1] == "From the next start on everything is drawn at 80 %; 80 to 200 % can be had."
    count = len(withdrawn)
    scale.usual()
    assert told[-1] == "Everything is drawn at 100 %.", "nothing is left to start anew for"
    assert withdrawn[count:] == ["Start anew"]
    apply_scale(settings)
    assert variable not in os.environ


def test_what_the_environment_says_goes_first(
    settings: QSettings, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    settings.setValue("window/scale", 150)
    monkeypatch.setenv(variable, "3")
    apply_scale(settings)
    assert os.environ[variable] == "3"


@pytest.mark.parametrize("kept", ["", "x", "1000000", "0", "-5", "12.5"])
def test_a_foreign_value_is_100_percent(settings: QSettings, kept: str) -> None:
    settings.setValue("window/scale", kept)
    assert kept_scale(settings) == 100
