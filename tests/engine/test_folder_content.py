"""What tells one checkpoint's files from another's, and that runs say it."""

from __future__ import annotations

import shutil
from pathlib import Path
from threading import Event

import pytest

from engines import bundled_folder
from engines.checkpoints.shards import folder_content
from engines.loading.weights import load_model
from evprof.core.vocabulary.generation import ModelChoice

DRAFT = "evprof-tiny-eventgpt"


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """The bundled draft in a folder of another name."""
    folder = bundled_folder(DRAFT)
    assert folder is not None
    return Path(shutil.copytree(folder, tmp_path / "mine"))


def test_it_is_the_content_and_not_the_place(copied: Path) -> None:
    folder = bundled_folder(DRAFT)
    assert folder is not None
    assert folder_content(copied) == folder_content(folder)


def test_one_changed_weight_is_another_content(copied: Path) -> None:
    before = folder_content(copied)
    (weights,) = copied.glob("*.safetensors")
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    assert folder_content(copied) != before


def test_a_loaded_model_tells_it(copied: Path) -> None:
    told = [
        load_model(ModelChoice(name, "cpu"), "draft", lambda *_: None, Event()).facts.content
        for name in (DRAFT, str(copied))
    ]
    assert told[0] == told[1] == folder_content(copied)
