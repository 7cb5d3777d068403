"""The hidden command by which the window, which loads no torch, asks about a checkpoint."""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from evprof.core.vocabulary.generation import GenerationSettings, ModelChoice

pytest.importorskip("torch")

GIB = 1 << 30


def question(name: str, **more: Any) -> str:
    model = ModelChoice(name, device="cpu").to_json()
    return json.dumps({"role": "draft", "model": model, "settings": GenerationSettings().to_json(), **more})


def test_a_checkpoint_and_its_fit(evprof) -> None:
    other = ModelChoice("evprof-tiny-video-llava", device="cpu").to_json()
    found = evprof("_examine", "model", question("evprof-tiny-eventgpt", other=other)).document
    assert found["kind"] == "checkpoint"
    assert found["fit"]["placement"] == "both"
    assert [model["name"] for model in found["fit"]["models"]] == ["evprof-tiny-eventgpt", "evprof-tiny-video-llava"]


def test_the_role_is_the_persons(evprof) -> None:
    """A video model may read events: it is then the draft."""
    found = evprof("_examine", "model", question("evprof-tiny-video-llava")).document
    assert [model["role"] for model in found["fit"]["models"]] == ["draft"]


def test_what_cannot_be_found_is_an_answer_too(evprof, tmp_path) -> None:
    found = evprof("_examine", "model", question(str(tmp_path / "gone")))
    assert found.code == 0
    assert "gone" in found.document["error"]


def test_the_other_side_hides_nothing_of_this_one(evprof, tmp_path) -> None:
    other = ModelChoice(str(tmp_path / "gone")).to_json()
    found = evprof("_examine", "model", question("evprof-tiny-eventgpt", other=other)).document
    assert "gone" in found["other_error"]
    assert [model["name"] for model in found["fit"]["models"]] == ["evprof-tiny-eventgpt"]
    mine = evprof("_examine", "model", question(str(tmp_path / "lost"), other=other)).document
    assert "lost" in mine["error"]


@pytest.mark.parametrize("words", [("model", "{"), ("model", "[]"), ("model", "{}"), ("model",), ("else",)])
def test_it_is_not_for_people(evprof, words) -> None:
    found = evprof("_examine", *words)
    assert (found.code, found.output) == (2, "")


def test_what_the_warm_engine_holds_counts_as_free(evprof, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its models would go for others; its libraries would not."""
    before = evprof("_examine", "model", question("evprof-tiny-eventgpt")).document["fit"]["free_bytes"]["cpu"]
    memory = SimpleNamespace(rss=500 * GIB)
    siblings = [
        SimpleNamespace(pid=1, cmdline=lambda: [sys.executable, "-m", "evprof", "_engine"], memory_info=lambda: memory),
        SimpleNamespace(pid=2, cmdline=lambda: ["something", "else"], memory_info=lambda: memory),
    ]
    monkeypatch.setattr(psutil, "Process", lambda _: SimpleNamespace(children=lambda: siblings))
    after = evprof("_examine", "model", question("evprof-tiny-eventgpt")).document["fit"]["free_bytes"]["cpu"]
    assert 490 * GIB < after - before < 500 * GIB
