"""`evprof inspect` of published draft heads."""

from __future__ import annotations

import json
from pathlib import Path

from transformers import LlamaConfig

from published_heads import eagle1, eagle3, save

FITTING = LlamaConfig(hidden_size=128, vocab_size=768)
"""The bundled target's width and vocabulary."""


def test_a_head_is_named_and_held_against_a_target(evprof, tmp_path: Path) -> None:
    save(eagle3(tmp_path / "head", FITTING, choices=40))
    document = json.loads(evprof("inspect", tmp_path / "head", "--against", "evprof-tiny-video-llava", "--json").output)
    assert (document["kind"], document["layout"], document["drafter"]) == ("head", "EAGLE-3", "eagle")
    assert document["problems"] == []
    assert document["fit"] == {"target": "evprof-tiny-video-llava", "fits": True}
    said = evprof("inspect", tmp_path / "head").output
    assert "EAGLE-3" in said


def test_a_head_for_another_target_says_why(evprof, tmp_path: Path) -> None:
    save(eagle1(tmp_path / "head", LlamaConfig(hidden_size=64, vocab_size=768)))
    said = evprof("inspect", tmp_path / "head", "--against", "evprof-tiny-video-llava").output
    assert "hidden size 64" in said


def test_what_asks_about_a_whole_model_is_refused(evprof, tmp_path: Path) -> None:
    save(eagle1(tmp_path / "head", FITTING))
    done = evprof("inspect", tmp_path / "head", "--memory", "8GB")
    assert done.code == 2
    assert "is a head" in done.errors
