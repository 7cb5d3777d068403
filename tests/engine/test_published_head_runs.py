"""Published heads in whole runs of the engine, with pictures in the prompt, and as `evprof inspect` tells them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from transformers import LlamaConfig

from engines.inspection import find_head, inspect_head
from evprof.core.recording import RecordLog
from evprof.core.request import RunRequest
from evprof.core.run_book import RunBook
from evprof.core.run_log import RunLog
from evprof.core.vocabulary.generation import GenerationSettings, ModelChoice
from evprof.core.vocabulary.speculation import SpeculationSettings
from evprof.core.vocabulary.switches import Switches
from evprof.loaders.adapters import drafter_of
from published_heads import Written, eagle1, eagle3, medusa, save

TARGET = LlamaConfig(hidden_size=32, vocab_size=32_003)
"""The sizes of the tests' target that a head has to share."""

HEADS: dict[str, Callable[[Path], Written]] = {
    "EAGLE-1": lambda folder: eagle1(folder, TARGET),
    "MSD": lambda folder: eagle1(folder, TARGET, layout="msd"),
    "EAGLE-3": lambda folder: eagle3(folder, TARGET, reads=(1, 2), choices=40, own_embeddings=True),
    "Medusa": lambda folder: medusa(folder, TARGET),
}


def carry_out(engine: Any, request: RunRequest) -> RunLog:
    recording = RecordLog()
    engine.run(request, recording, threading.Event())
    book = RunBook(recording)
    book.update()
    (run,) = book.runs.values()
    return run


@pytest.mark.parametrize("tree", ["", "2,2"])
@pytest.mark.parametrize("name", HEADS)
def test_a_run_says_who_drafted_and_says_what_the_target_says(
    *, name: str, tree: str, engine: Any, sample: Any, tmp_path: Path
) -> None:
    written = save(HEADS[name](tmp_path / "my-head"))
    kind, info = drafter_of(str(written.folder), None)
    assert info is not None
    settings = GenerationSettings(max_new_tokens=10)
    plain = carry_out(engine, RunRequest("target", sample, None, ModelChoice("tiny-target"), settings))
    speculation = SpeculationSettings(drafter=kind, adapter=str(info.folder), tree=tree)
    asked = GenerationSettings(
        max_new_tokens=10, speculation=speculation, switches=Switches(step="compiled" if name == "EAGLE-3" else "eager")
    )
    run = carry_out(engine, RunRequest("speculative", sample, None, ModelChoice("tiny-target"), asked))
    assert run.info.error is None
    kept = [token.token_id for token in run.tokens if token.origin != "rejected"]
    assert kept == [token.token_id for token in plain.tokens]
    facts = run.info.speculation
    assert facts is not None
    assert (facts.kind, facts.drafter, facts.tree) == (kind, "my-head", tree)
    assert facts.is_lossless
    said = [warning for warning in run.info.warnings if "reads what enters the target's layers" in warning]
    assert bool(said) == (name == "EAGLE-3")


def test_inspect_names_a_head_and_says_whether_it_fits(tmp_path: Path) -> None:
    save(eagle3(tmp_path / "fits", LlamaConfig(hidden_size=128, vocab_size=768), choices=40))
    save(eagle1(tmp_path / "other", LlamaConfig(hidden_size=64, vocab_size=768)))
    save(medusa(tmp_path / "heads", LlamaConfig(hidden_size=128, vocab_size=765)))
    told = {}
    for name in ("fits", "other", "heads"):
        info = find_head(str(tmp_path / name))
        assert info is not None
        told[name] = inspect_head(info, "evprof-tiny-video-llava")
        assert not told[name]["problems"]
    assert told["fits"]["layout"] == "EAGLE-3"
    assert told["fits"]["fit"] == {"target": "evprof-tiny-video-llava", "fits": True}
    assert told["fits"]["reads_layers"] == "1, 2, 3"
    assert "hidden size 64" in told["other"]["fit"]["reason"]
    assert told["heads"]["heads"] == 3
    assert told["heads"]["fit"]["fits"]


def test_inspect_leaves_models_and_adapters_alone(tmp_path: Path) -> None:
    import assets

    root = Path(assets.__file__).parent
    assert find_head(str(root / "models" / "evprof-tiny-video-llava")) is None
    assert find_head(str(root / "adapters" / "evprof-tiny-eagle")) is None
    assert find_head(str(tmp_path)) is None
    written = eagle1(tmp_path / "whole", TARGET)
    del written.tensors["fc.weight"]
    assert find_head(str(save(written).folder)) is None


def test_inspect_tells_what_is_wrong(tmp_path: Path) -> None:
    written = eagle3(tmp_path / "head", TARGET)
    written.config["rope_scaling"] = {"rope_type": "dynamic", "factor": 2.0}
    info = find_head(str(save(written).folder))
    assert info is not None
    (problem,) = inspect_head(info)["problems"]
    assert "changes with a prompt's length" in problem
