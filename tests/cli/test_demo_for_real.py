"""The bundled pair on the bundled sample, computed: the program as a stranger meets it, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

SCENE_WORDS = ("road", "street", "left", "closer", "car", "coach", "truck", "tree", "house", "sky")


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path]:
    """The document that `demo --headless --json` prints, and the session it saves."""
    folder = tmp_path_factory.mktemp("demo")
    path = folder / "demo.evprof"
    words = ["-m", "evprof", "demo", "--headless", "--json", "-o", str(path)]
    environment = {**os.environ, "XDG_DATA_HOME": str(folder), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, timeout=300, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), path


def test_three_finished_runs_after_a_warm_up_of_each_model(demo) -> None:
    warm_ups, runs = demo[0]["runs"][:2], demo[0]["runs"][2:]
    assert [(run["role"], run["warmup"], run["cold"]) for run in warm_ups] == [
        ("draft", True, True),
        ("target", True, True),
    ]
    assert not any(run["warmup"] or run["cold"] for run in runs)
    assert [(run["mode"], run["role"], run["status"]) for run in runs] == [
        ("side-by-side", "draft", "finished"),
        ("side-by-side", "target", "finished"),
        ("speculative", "target", "finished"),
    ]


def test_five_stages_and_what_no_stage_covers(demo) -> None:
    for run in demo[0]["runs"]:
        assert [stage["name"] for stage in run["stages"]] == ["load", "preprocess", "vision", "prefill", "decode"]
        assert all(stage["duration_ms"] > 0 for stage in run["stages"])
        covered = sum(stage["duration_ms"] for stage in run["stages"])
        covered += sum(stage["duration_ms"] for stage in (run["draft"] or {"stages": []})["stages"])
        assert run["wall_ms"] - covered == pytest.approx(run["unattributed_ms"], abs=1e-3)
        # Under 5 % on a quiet machine; tests share theirs.
        assert 0 <= run["unattributed_ms"] < run["wall_ms"]


def test_measured_and_computed_cache_agree(demo) -> None:
    for run in demo[0]["runs"]:
        cache = run["kv_cache"]
        assert cache["measured_bytes"] == cache["formula_bytes"] == sum(cache["per_layer_bytes"])
        assert cache["measured_bytes"] <= cache["stored_bytes"] <= cache["reserved_bytes"]
        origins = cache["by_origin"]
        assert sum(origins[name] for name in ("system", "text", "visual", "generated")) == cache["formula_bytes"]
        assert 0 < sum(origins["visual_per_frame"]) <= origins["visual"]
        assert origins["draft_accepted"] <= origins["generated"]


def test_sentences_name_what_is_in_the_scene(demo) -> None:
    for run in demo[0]["runs"]:
        assert sum(word in run["text"].lower() for word in SCENE_WORDS) >= 2, run["text"]


def test_speculation_changes_no_token(demo) -> None:
    _, target, speculative = demo[0]["runs"][2:]
    assert speculative["token_ids"] == target["token_ids"]
    figures = speculative["speculation"]
    assert figures["emitted"] == figures["accepted"] + figures["bonus"] == len(target["token_ids"]) - 1
    assert sum(figures["accepted_per_position"]) == figures["accepted"] <= figures["drafted"]
    assert speculative["token_origin"].count("accepted") == figures["accepted"]


def test_times_are_in_order(demo) -> None:
    for run in demo[0]["runs"]:
        times = run["token_times_ms"]
        assert times == sorted(times)
        assert run["metrics"]["time_to_first_token_ms"] == times[0]
        assert times[-1] <= run["wall_ms"]


def test_the_session_says_the_same(demo) -> None:
    from evprof.cli.run.recorded_session import read_runs
    from evprof.metrics.document import session_document

    saved = json.loads(json.dumps(session_document(read_runs(str(demo[1])))["runs"]))
    assert saved == demo[0]["runs"]
