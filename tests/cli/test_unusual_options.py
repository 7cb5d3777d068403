"""Options that are rare but right: the smallest, the largest, the repeated; really computed, with the bundled pair."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.usefixtures("computed")


@pytest.fixture
def finished(evprof: Callable[..., Any], tmp_path: Path) -> Callable[..., list[dict[str, Any]]]:
    """Runs on the bundled sample, always into the same session; all runs must finish."""

    def run(*words: object) -> list[dict[str, Any]]:
        found = evprof("run", *words, "-o", tmp_path / "s.evprof", "--json")
        assert found.code == 0, found.errors
        assert {entry["status"] for entry in found.document["runs"]} == {"finished"}
        return list(found.document["runs"])

    return run


def shape_of(run: dict[str, Any], stage: str, tensor: str) -> list[int]:
    """Shape of what a stage, or a part of it, took or gave under a name."""
    (found,) = (entry for entry in run["stages"] if entry["name"] == stage)
    parts = [found, *found["children"]]
    tensors = [entry for part in parts for entry in (*part["inputs"], *part["outputs"]) if entry["name"] == tensor]
    return list(tensors[0]["shape"])


@pytest.mark.parametrize("mode", ["side-by-side", "speculative"])
def test_one_token(finished, mode) -> None:
    for run in finished("--mode", mode, "--max-new-tokens", 1):
        assert len(run["token_ids"]) == run["metrics"]["output_sequence_length"] == 1
        assert run["metrics"]["time_to_first_token_ms"] > 0
        assert run["metrics"]["inter_token_latency_ms"] is None
        assert run["stages"][-1]["name"] == "decode"
        if run["speculation"] is not None:
            assert (run["speculation"]["rounds"], run["speculation"]["draft_acceptance_rate"]) == (0, None)


def test_more_event_frames_than_one_could_look_at(finished) -> None:
    (run,) = finished("--mode", "draft", "--event-frames", 200, "--max-new-tokens", 1)
    assert shape_of(run, "preprocess", "pixel_values")[0] == 200
    # Temporal pooling leaves one position a frame, spatial pooling one a patch and the class token's.
    tower = shape_of(run, "vision", "pixel_values")
    assert tower[0] == 200
    assert run["metrics"]["visual_tokens"] > 200


def test_drafting_more_than_is_wanted(finished) -> None:
    words = ["--max-new-tokens", 12]
    (speculative,) = finished("--mode", "speculative", "--gamma", 50, *words)
    (plain,) = finished("--mode", "target", *words)
    assert speculative["token_ids"] == plain["token_ids"]
    assert len(speculative["token_ids"]) <= 12
    assert all(entry["drafted"] <= 50 for entry in speculative["speculation"]["per_round"])


def test_the_same_seed_gives_the_same_answer(finished) -> None:
    words = ["--mode", "target", "--temperature", 2, "--max-new-tokens", 24]
    answers = [finished(*words, "--seed", seed)[0]["token_ids"] for seed in (3, 3, 4)]
    assert answers[0] == answers[1]
    assert answers[0] != answers[2]


def test_a_trace_is_a_run_of_its_own_and_opens(finished, evprof, tmp_path) -> None:
    folder = tmp_path / "traces"
    words = ["--mode", "target", "--max-new-tokens", 6, "--torch-trace", folder, "--trace-tokens", 2]
    plain, traced = finished(*words)
    assert (plain["profiled"], plain["trace_path"]) == (False, None)
    assert traced["profiled"] is True
    (path,) = [path for path in folder.rglob("*") if path.is_file()]
    assert str(path) == traced["trace_path"]
    assert path.parent.parent == folder
    assert path.name.endswith(".pt.trace.json.gz")
    # Decode covers tokens 2 to n: two steps are three tokens.
    assert len(traced["token_ids"]) == 3
    assert traced["token_ids"] == plain["token_ids"][:3]
    looked = evprof("inspect", path, "--json").document
    assert (looked["kind"], looked["problems"]) == ("trace", [])
    assert looked["steps"] >= 2
    alone = evprof("compare", tmp_path / "s.evprof")
    assert alone.code == 1
    assert "two finished runs" in alone.errors


def test_what_only_cuda_tells_is_refused_on_a_cpu(evprof, tmp_path) -> None:
    path = tmp_path / "none.evprof"
    found = evprof("run", "--device", "cpu", "--max-new-tokens", 2, "--nvtx", "-o", path)
    assert found.code == 2
    assert found.errors == "evprof: --nvtx needs a model on a CUDA device. Here all models run on the CPU.\n"
    assert not path.exists()
