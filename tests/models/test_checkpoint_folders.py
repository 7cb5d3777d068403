"""Folders that somebody drops on the window: looked at in its own thread, so nothing in them may hold it up."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from evprof.core.errors import UserError
from evprof.core.records import DRAFT
from ui.settings.checkpoints import clip_problem, family_named, family_of


def make_pipe(path: Path) -> None:
    os.mkfifo(path)


def long_hole(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


HOSTILE: dict[str, tuple[Callable[[Path], object], str]] = {
    "a pipe": (make_pipe, "a named pipe, no ordinary file"),
    "a device": (lambda path: path.symlink_to("/dev/zero"), "a device, no ordinary file"),
    "a hole of a terabyte": (long_hole, "far too long"),
    "nested without end": (lambda path: path.write_text("[" * 100_000), "cannot be read as JSON"),
    "no text": (lambda path: path.write_bytes(b"\xff\xfe\x00"), "cannot be read as JSON"),
    "an endless name": (lambda path: path.write_text(json.dumps({"model_type": "x" * 900_000})), "its model_type is"),
    "a list for a name": (lambda path: path.write_text(json.dumps({"model_type": [1] * 99_999})), "its model_type"),
}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes and devices here")
@pytest.mark.parametrize("name", HOSTILE)
def test_a_configuration_made_to_harm_is_told_in_a_sentence(name: str, tmp_path: Path) -> None:
    make, words = HOSTILE[name]
    make(tmp_path / "config.json")
    (tmp_path / "model.safetensors").touch()
    with pytest.raises(UserError) as told:
        family_of(tmp_path, DRAFT)
    assert words in told.value.sentence
    assert len(told.value.sentence) < 1_000
    assert words in clip_problem(tmp_path)
    assert family_named(str(tmp_path)) is None
