"""The model picker: what is chosen, and what the machine cannot run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from PySide6.QtWidgets import QLabel

from evprof.core.vocabulary.generation import ModelChoice
from kept import Keep
from ui.settings.model_popover import OWN_CLIP, ModelPopover
from ui.state.recent import Recent
from ui.style.theme import ThemeHolder


@pytest.fixture
def popover(themes: ThemeHolder, keep: Keep) -> Any:
    return keep(ModelPopover("draft", ModelChoice("evprof-tiny-eventgpt"), Recent(None), themes))


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


def test_random_weights_are_offered_on_request_alone(popover: ModelPopover, tmp_path: Path) -> None:
    assert [line.key for line in popover.list.lines] == ["evprof-tiny-eventgpt"]
    popover.random.click()
    shapes = [str(line.key) for line in popover.list.lines if str(line.key).startswith("random:")]
    assert shapes
    popover.list.picked.emit(shapes[0])
    popover.random.click()
    assert [line.key for line in popover.list.lines] == ["evprof-tiny-eventgpt", shapes[0]]
    texts = [label.text() for label in popover.findChildren(QLabel)] + [line.figure for line in popover.list.lines]
    assert [text for text in texts if "eights" in text] == ["Weights"]
