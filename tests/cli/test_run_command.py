"""`evprof run`: modes, sessions, refusals, failures, warnings."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from benchmarks.synthetic_engine import ENVIRONMENT, SyntheticEngine
from evprof.cli.run import recorded_session
from evprof.core.errors import UserError
from evprof.core.protocols import RunEnded, RunStarted
from evprof.session.facts import add_facts
from whole_session import load_session

INFERRED = [("both", "side-by-side", 2), ("events", "draft", 1), ("video", "target", 1)]


@pytest.mark.usefixtures("scripted")
@pytest.mark.parametrize(("given", "mode", "runs"), INFERRED)
def test_the_mode_follows_from_the_inputs(evprof, inputs, given, mode, runs) -> None:
    words = (["--events", inputs[0]] if given != "video" else []) + (
        ["--video", inputs[1]] if given != "events" else []
    )
    found = evprof("run", *words, "--json")
    assert found.code == 0, found.errors
    assert [run["mode"] for run in found.document["runs"]] == [mode] * runs
    assert [run["status"] for run in found.document["runs"]] == ["finished"] * runs
    assert found.document["environment"]["device"] == "scripted"


@pytest.mark.usefixtures("loading")
def test_a_model_that_had_to_be_loaded_warms_up_first(evprof, tmp_path) -> None:
    path = tmp_path / "s.evprof"
    runs = evprof("run", "--mode", "target", "-o", path, "--json").document["runs"]
    assert [(run["run_id"], run["warmup"], run["cold"]) for run in runs] == [(1, True, True), (2, False, False)]
    [asked] = evprof("run", "--mode", "target", "--warmup", 0, "-o", path, "--json").document["runs"]
    assert (asked["warmup"], asked["cold"]) == (False, True)
    assert "run 1 · target · scripted-video-llava · bfloat16 on scripted · warm-up" in evprof("show", path).output
    assert "run 3 · target · scripted-video-llava · bfloat16 on scripted · cold" in evprof("show", path).output
    assert runs[0]["engine_session"] == runs[1]["engine_session"] != asked["engine_session"]


@pytest.mark.usefixtures("scripted")
def test_what_a_drafted_run_is_weighed_against_stands_in_its_document(evprof, tmp_path) -> None:
    path = tmp_path / "s.evprof"
    evprof("run", "--mode", "target", "--repeat", 2, "-o", path)
    evprof("run", "--mode", "speculative", "-o", path)
    evprof("run", "--mode", "target", "-o", path)
    runs = evprof("show", path, "--json").document["runs"]
    assert [run["baseline"] for run in runs] == [None, None, {"run_ids": [1, 2, 4]}, None]


@pytest.mark.usefixtures("computed")
def test_modes_run_in_turns_that_every_session_keeps(evprof, tmp_path) -> None:
    path, joined = tmp_path / "s.evprof", tmp_path / "joined.evprof"
    words = ("--mode", "target,speculative,side-by-side", "--repeat", 3, "--max-new-tokens", 3)
    for _ in range(2):
        found = evprof("run", *words, "-o", path, "--json")
        assert found.code == 0, found.errors
        runs = [run for run in found.document["runs"] if not run["warmup"]]
        assert [divmod(place, 4) for place in range(12)] == [
            (run["turn"]["number"], run["turn"]["place"]) for run in runs
        ]
        assert Counter((run["turn"]["number"], run["mode"], run["role"], run["repeat"]) for run in runs) == Counter(
            (turn, mode, role, turn)
            for turn in range(3)
            for mode in ("target", "speculative", "side-by-side")
            for role in (("draft", "target") if mode == "side-by-side" else ("target",))
        )
        assert len({(run["mode"], run["group_id"]) for run in runs}) == 3
    copy = shutil.copy(path, tmp_path / "copy.evprof")
    assert evprof("session", "merge", path, copy, "-o", joined).code == 0
    turns = [run["turn"] for run in evprof("show", path, "--json").document["runs"]]
    assert len({turn["series"] for turn in turns if turn}) == 2
    assert [run["turn"] for run in evprof("show", joined, "--json").document["runs"]] == turns * 2


@pytest.mark.usefixtures("scripted")
@pytest.mark.parametrize(
    ("words", "fact"),
    [
        (("--mode", "target,lunch"), "'target,lunch' is none of"),
        (("--mode", "draft,target", "--drafter", "lookup"), "mode draft,target has none"),
    ],
)
def test_several_modes_are_checked_together(evprof, words, fact) -> None:
    found = evprof("run", *words)
    assert found.code == 2
    assert fact in found.errors


def recorded(run: dict[str, Any]) -> dict[str, Any]:
    """A run's document without what depends on other runs of the session."""
    block = run["speculation"]
    weighed = ("prediction", "window", "sentence", "definitions")
    alone = block and {key: value for key, value in block.items() if key not in weighed}
    return run | {"baseline": None, "speculation": alone}


def test_a_session_is_appended_to_and_shown_again(evprof, inputs, session) -> None:
    before = evprof("show", session, "--json").document
    assert [run["run_id"] for run in before["runs"]] == [1, 2, 3]
    assert [run["group_id"] for run in before["runs"]] == [1, 1, 2]
    added = evprof("run", "--video", inputs[1], "-o", session, "--json").document
    assert [run["run_id"] for run in added["runs"]] == [4]
    assert added["runs"][0]["group_id"] == 3
    after = evprof("show", session, "--json").document
    assert [recorded(run) for run in after["runs"][:3]] == [recorded(run) for run in before["runs"]]
    # Speculation is weighed against the plain runs that there are by now.
    assert after["runs"][2]["speculation"]["prediction"]["step_ms"] > 0
    assert after["runs"][3] == added["runs"][0]
    assert after["environment"] == added["environment"]


@pytest.mark.usefixtures("computed")
def test_a_session_says_what_its_models_are_built_of(evprof, tmp_path) -> None:
    session = tmp_path / "s.evprof"
    for mode in ("target", "draft"):
        assert evprof("run", "--mode", mode, "--max-new-tokens", "2", "-o", session).code == 0
    models = load_session(session).facts["models"]
    assert set(models) == {"evprof-tiny-eventgpt", "evprof-tiny-video-llava"}
    for facts in models.values():
        assert facts["architecture"]["backbone"].startswith("Llama")
        assert facts["text"]["layers"] > 0
        assert facts["flops"]["prefill"] > 0


@pytest.mark.usefixtures("computed")
def test_batches_are_measured_behind_the_runs_and_kept(evprof, tmp_path) -> None:
    session = tmp_path / "s.evprof"
    words = ("run", "--mode", "target", "--frames", "1", "--max-new-tokens", "3", "--batches", "1,2", "-o", session)
    measured = evprof(*words, "--json").document["batches"]
    assert [(row["batch"], row["requests"], row["tokens"]) for row in measured] == [(1, 2, 6), (2, 2, 6)]
    assert evprof("show", session, "--json").document["batches"] == measured
    shown = evprof("show", session).output
    assert "decode_tok_s" in shown
    # What is no row is passed over.
    add_facts(session, {"batches": [{"model": "x"}, 7, {**measured[0], "batch": "2"}]})
    assert evprof("show", session, "--json").document["batches"] == measured


@pytest.mark.parametrize("sizes", ["", "0", "1,x", "1;2", "999"])
def test_sizes_that_mean_nothing_are_refused(evprof, sizes: str) -> None:
    found = evprof("run", "--batches", sizes)
    assert found.code == 2
    assert "--batches takes sizes from 1 to 256" in found.errors


@pytest.mark.usefixtures("scripted")
def test_no_output_named_means_a_new_session_that_is_named(evprof, inputs) -> None:
    found = evprof("run", "--video", inputs[1])
    assert found.code == 0
    line = next(line for line in found.errors.splitlines() if line.startswith("session saved: "))
    assert Path(line.removeprefix("session saved: ")).is_file()


REFUSED = [
    (["--events", "EVENTS", "--mode", "speculative"], "needs a video"),
    (["--video", "VIDEO", "--mode", "draft"], "needs an event recording"),
    (["--draft-quant", "int3"], "--draft-quant: 'int3' is none of"),
    (["--max-new-tokens", "0"], "--max-new-tokens must lie from 1 to"),
    (["--repeat", "0"], "--repeat"),
    (["--prompt", "  "], "prompt is empty"),
    (["--trace-tokens", "4"], "--torch-trace"),
    (["--torch-trace", "T", "--trace-tokens", "0"], "--trace-tokens"),
    (["--mode", "speculative", "--drafter", "eagle"], "--adapter"),
    (["--max", "3"], "no option --max"),
]


@pytest.mark.usefixtures("scripted")
@pytest.mark.parametrize(
    ("words", "part"), REFUSED, ids=lambda value: " ".join(value) if isinstance(value, list) else ""
)
def test_what_cannot_work_is_refused_in_one_sentence(evprof, inputs, tmp_path, words, part) -> None:
    places = {"EVENTS": inputs[0], "VIDEO": inputs[1]}
    path = tmp_path / "s.evprof"
    found = evprof("run", *[places.get(word, word) for word in words], "-o", path)
    assert found.code == 2
    assert part in found.errors
    assert len(found.errors.splitlines()) == 1
    assert found.output == ""
    assert not path.exists()


class RefusingEngine(SyntheticEngine):
    """Begins a run, then finds that the input is no good."""

    def run(self, request, sink, stop) -> None:
        from benchmarks.synthetic_engine import synthetic_info

        sink.post(RunStarted(request.first_run_id, synthetic_info(request, 0)))
        raise UserError("video.mp4 holds no frames; name another file.")


class CrashingEngine(SyntheticEngine):
    """Has a defect."""

    def run(self, request, sink, stop) -> None:
        raise RuntimeError("a defect")


@pytest.mark.usefixtures("anything_goes")
@pytest.mark.parametrize(("engine", "part"), [(RefusingEngine, "holds no frames"), (CrashingEngine, "a defect")])
def test_a_failed_run_is_saved_printed_and_exit_code_1(evprof, inputs, monkeypatch, engine, part) -> None:
    monkeypatch.setattr(recorded_session, "make_engine", lambda: engine(1000, 1))
    path = inputs[0].with_name("s.evprof")
    found = evprof("run", "--video", inputs[1], "-o", path, "--json")
    assert found.code == 1
    (run,) = found.document["runs"]
    assert run["status"] == "failed"
    assert part in run["error"]
    shown = evprof("show", path, "--json")
    assert shown.code == 0
    assert shown.document["runs"] == [run]


@pytest.mark.usefixtures("anything_goes")
def test_an_engine_that_cannot_start_is_one_sentence(evprof, inputs, tmp_path, monkeypatch) -> None:
    def refuse():
        raise UserError("This machine lacks something; install it.")

    monkeypatch.setattr(recorded_session, "make_engine", refuse)
    found = evprof("run", "--video", inputs[1], "-o", tmp_path / "s.evprof")
    assert found.code == 1
    assert "This machine lacks something" in found.errors


@pytest.mark.usefixtures("anything_goes")
def test_a_library_that_prints_does_not_spoil_the_document(evprof, inputs, tmp_path, monkeypatch) -> None:
    class Chatty(SyntheticEngine):
        def run(self, request, sink, stop) -> None:
            print("loading, please wait")
            sink.post(RunStarted(request.first_run_id, _info(request)))
            sink.post(RunEnded(request.first_run_id, "finished"))

    def _info(request):
        from benchmarks.synthetic_engine import synthetic_info

        return synthetic_info(request, 0)

    monkeypatch.setattr(recorded_session, "make_engine", lambda: Chatty(1, 1))
    found = evprof("run", "--video", inputs[1], "-o", tmp_path / "s.evprof", "--json")
    assert found.document["environment"] == ENVIRONMENT
    assert "loading, please wait" in found.errors


@pytest.mark.usefixtures("scripted")
def test_a_disk_that_refuses_still_gets_the_runs_printed(evprof, inputs, tmp_path, monkeypatch) -> None:
    import sqlite3

    from evprof.session.store import SessionFile

    def refuse(self, streams, news) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(SessionFile, "commit", refuse)
    found = evprof("run", "--video", inputs[1], "-o", tmp_path / "s.evprof", "--json")
    assert found.code == 1
    assert "disk is full" in found.errors
    assert found.document["runs"][0]["status"] == "finished"
    assert found.document["runs"][0]["token_ids"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--mode", "target", "--gamma", "3"), ["--gamma changes nothing here: Only speculative modes draft."]),
        (("--mode", "target", "--top-k", "3"), ["--top-k changes nothing here: Nothing is drawn at temperature 0."]),
        (("--mode", "target", "--top-k", "3", "--temperature", "1"), []),
        (("--mode", "speculative", "--gamma", "3"), []),
        (("--mode", "target", "--gamma", "5"), ["--gamma changes nothing here: Only speculative modes draft."]),
    ],
)
@pytest.mark.usefixtures("scripted")
def test_an_option_without_effect_is_told(evprof: Any, words: tuple[str, ...], told: list[str]) -> None:
    found = evprof("run", *words, "-q")
    assert found.code == 0, found.errors
    assert [line for line in found.errors.splitlines() if "changes nothing" in line] == told
