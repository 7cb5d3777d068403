"""The model picker: what is chosen, and what the machine cannot run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication

from evprof.core.vocabulary.generation import ModelChoice
from ui.settings.model_popover import OWN_CLIP, ModelPopover
from ui.settings.toolbar import Toolbar
from ui.state.recent import Recent
from ui.style.theme import ThemeHolder


@pytest.fixture
def popover(themes: ThemeHolder) -> Any:
    made = ModelPopover("draft", ModelChoice("evprof-tiny-eventgpt"), Recent(None), themes)
    yield made
    made.hide()
    made.deleteLater()


def test_a_clip_folder(popover: ModelPopover, tmp_path: Path) -> None:
    assert popover.clip.text() == OWN_CLIP
    assert popover.no_clip.isHidden()
    for content, sentence in (
        (None, "holds no config.json"),
        ("{", "cannot be read as JSON"),
        ('{"model_type": "llama"}', "its model_type is 'llama'"),
        ('{"model_type": "clip"}', "holds no weights"),
    ):
        if content is not None:
            (tmp_path / "config.json").write_text(content)
        popover.choose_clip(str(tmp_path))
        assert sentence in popover.problem.text()
        assert popover.choice.clip is None
    (tmp_path / "model.safetensors").write_bytes(b"")
    popover.choose_clip(str(tmp_path))
    assert popover.choice.clip == str(tmp_path)
    assert popover.problem.isHidden()
    assert not popover.no_clip.isHidden()
    assert popover.clip.toolTip() == str(tmp_path)
    assert popover.clip.fontMetrics().horizontalAdvance(popover.clip.text()) < popover.width()
    popover.no_clip.click()
    assert popover.choice.clip is None
    assert popover.clip.text() == OWN_CLIP


def _state(popover: ModelPopover, key: str, value: str) -> tuple[bool, str]:
    box = popover.boxes[key]
    place = box.findData(value)
    item = box.model().index(place, 0)
    return bool(item.flags() & Qt.ItemFlag.ItemIsEnabled), str(item.data(Qt.ItemDataRole.ToolTipRole) or "")


def test_what_the_machine_cannot_do_is_greyed_with_the_reason(application: QApplication, themes: ThemeHolder) -> None:
    toolbar = Toolbar(themes)
    popover = toolbar.popover("target")
    popover._grey()
    assert _state(popover, "quantization", "int4") == (True, ""), "the engine has not said what there is"
    toolbar.set_environment({"device": "A Processor", "cuda": "13.0", "gpu": None})
    popover.open_below(toolbar.run_button)
    for kind in ("int8", "int4", "nf4"):
        is_offered, remark = _state(popover, "quantization", kind)
        assert is_offered, "the engine runs it on a CPU"
        assert "saves memory, not time" in remark
    for key, value, because in (("device", "cuda:0", "no CUDA device"), ("quantization", "fp8", "capability 8.9")):
        is_offered, reason = _state(popover, key, value)
        assert not is_offered
        assert because in reason
    toolbar.set_environment({"device": "A GPU", "cuda": "13.0", "gpu": {"clocks_mhz": None}})
    popover.open_below(toolbar.run_button)
    assert _state(popover, "quantization", "int4") == (True, "")
    device = popover.boxes["device"]
    device.setCurrentText("cpu")
    assert "not time" in _state(popover, "quantization", "int4")[1], "on a machine with a GPU, for the model on the CPU"
    popover.close()
    toolbar.deleteLater()
