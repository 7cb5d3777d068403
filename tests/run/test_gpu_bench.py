"""`bench gpu` seen from its parent: sections fail, hang or end as they like, and everything said is kept."""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path

import pytest

from evprof.core.errors import UserError
from evprof.loaders.videos.opening import open_video
from evprof.run.gpu_bench import cuda_tests
from evprof.run.gpu_bench.child import hear_out
from evprof.run.gpu_bench.cuda_tests import TestCounts, run_cuda_tests
from evprof.run.gpu_bench.driver import has_gpu
from evprof.run.gpu_bench.driving import GpuBench, measure_gpu
from evprof.run.gpu_bench.picture_scene import FRAMES, write_picture_scene
from evprof.run.gpu_bench.plan import MOST_S, SECTIONS, GpuSection, chosen_sections
from evprof.run.gpu_bench.targets import MET, MISSED, NOT_MEASURED, is_fused_proven, judged, summary_of

SAYS = "import json, sys, time\ndef say(**found): print(json.dumps(found), flush=True)\n"
ON_A_GPU = {"device_type": "cuda", "size": "7b"}


def sections(*names: str, limit_s: int = 300) -> list[GpuSection]:
    return [GpuSection(name, f"Section {name}", limit_s, "") for name in names]


def bench_of(folder: Path, scripts: dict[str, str], limit_s: int = 300) -> GpuBench:
    """A bench whose sections are short scripts."""
    return GpuBench(
        sections(*scripts, limit_s=limit_s),
        lambda section: [sys.executable, "-c", SAYS + scripts[section.name]],
        folder,
        lambda document: f"{len(document['rows'])} rows\n",
    )


def statuses(document: dict) -> dict[str, str]:
    return {section["name"]: section["status"] for section in document["sections"]}


def test_the_rest_goes_on_after_a_section_that_fails(tmp_path) -> None:
    scripts = {
        "first": 'say(environment={"device": "X", "gpu": {"clocks_mhz": 1}}, settings={"size": "7b"})\n'
        'say(row={"a": 1})',
        "failing": 'say(row={"a": 2}); say(failed="There is no room."); sys.exit(1)',
        "dying": "import os; os._exit(3)",
        "last": 'print("chatter of a library"); say(row={"a": 3}); say(problem="Hot.")\n'
        'say(gpu_end={"clocks_mhz": 2}); say(done="All well.")',
    }
    document = measure_gpu(bench_of(tmp_path, scripts), threading.Event())
    assert statuses(document) == {"first": "done", "failing": "failed", "dying": "failed", "last": "done"}
    assert [(row["section"], row["a"]) for row in document["rows"]] == [("first", 1), ("failing", 2), ("last", 3)]
    found = {section["name"]: section for section in document["sections"]}
    assert found["failing"]["sentence"] == "There is no room; logs/failing.txt says more."
    assert "code 3" in found["dying"]["sentence"]
    assert found["last"]["sentence"] == "All well."
    assert found["last"]["problems"] == ["Hot."]
    assert found["last"]["gpu_end"] == {"clocks_mhz": 2}
    assert found["first"]["gpu_start"] == {"clocks_mhz": 1}
    assert document["environment"]["device"] == "X"
    assert (document["summary"]["sections"], document["summary"]["failed"]) == (4, 2)
    assert document["summary"]["is_complete"] is True
    assert json.loads((tmp_path / "gpu.json").read_text()) == document
    assert (tmp_path / "gpu.md").read_text() == "3 rows\n"


def test_a_section_that_hangs_is_ended_with_what_it_started(tmp_path) -> None:
    """It ignores the first request, and its own child holds the stream."""
    child = f"{sys.executable!r}, '-c', 'import time; time.sleep(600)'"
    scripts = {
        "hanging": "import signal, subprocess; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        f'process = subprocess.Popen([{child}]); say(row={{"pid": process.pid}}); time.sleep(600)',
        "next": 'say(row={"a": 1})',
    }
    bench = bench_of(tmp_path, scripts, limit_s=2)
    document = measure_gpu(bench, threading.Event())
    assert statuses(document) == {"hanging": "out of time", "next": "done"}
    assert "2 s" in document["sections"][0]["sentence"]
    assert document["summary"]["failed"] == 1
    psutil = pytest.importorskip("psutil")
    pid = document["rows"][0]["pid"]
    assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_a_process_that_leaves_children_behind_is_done_all_the_same(tmp_path) -> None:
    child = f"{sys.executable!r}, '-c', 'import time; time.sleep(600)'"
    script = SAYS + f'import subprocess; subprocess.Popen([{child}]); say(row={{"a": 1}})'
    heard: list[dict] = []
    ending = hear_out([sys.executable, "-c", script], tmp_path / "log", 300, threading.Event(), heard.append)
    assert (ending.code, ending.cut_short) == (0, None)
    assert heard == [{"row": {"a": 1}}]


def test_what_was_said_is_in_the_file_before_the_section_ends(tmp_path, wait_until) -> None:
    """As a bench that is killed leaves it."""
    stop = threading.Event()
    scripts = {"slow": 'say(row={"a": 1}); time.sleep(600)', "never": ""}
    bench = bench_of(tmp_path, scripts)
    worker = threading.Thread(target=measure_gpu, args=(bench, stop), name="evprof-test")
    worker.start()
    path = tmp_path / "gpu.json"
    try:
        wait_until(lambda: path.exists() and json.loads(path.read_text())["rows"])
    finally:
        stop.set()
        worker.join()
    document = json.loads(path.read_text())
    assert statuses(document) == {"slow": "stopped"}
    assert document["summary"]["is_complete"] is False
    assert document["rows"] == [{"section": "slow", "a": 1}]


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="--out"):
        measure_gpu(bench_of(tmp_path / "file", {"a": ""}), threading.Event())


def test_the_plan_keeps_its_promise() -> None:
    assert sum(section.limit_s for section in SECTIONS) <= MOST_S == 540
    assert all(section.reckoning for section in SECTIONS)
    assert [section.name for section in chosen_sections(["trace", "ceilings"])] == ["ceilings", "trace"]
    with pytest.raises(UserError, match="there is no section 'x'"):
        chosen_sections(["x"])


def test_a_machine_without_a_driver_has_no_gpu(monkeypatch) -> None:
    def missing(_: str) -> None:
        raise OSError("no such library")

    monkeypatch.setattr("ctypes.CDLL", missing)
    assert has_gpu() is False


def test_the_scene_needs_no_video_decoder(tmp_path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "av", None)
    sample = write_picture_scene(tmp_path / "frames")
    with open_video(sample.video_path) as video:
        assert len(video.table.pts) == FRAMES
    assert Path(sample.events_path).suffix == ".npy"


# What is promised


def step(contender: str, context: int, ms: float, **more) -> dict:
    row = {"figure": "step", "phase": "decode", "contender": contender, "context": context, "turns": 7}
    row |= {"ms": ms, "ms_low": ms - 0.1, "ms_high": ms + 0.1, "mbu": 3.2 / ms, "vs_hf_eager": 25 / ms}
    row |= {"vs_hf_eager_low": 24 / ms, "vs_hf_eager_high": 26 / ms, "same_tokens": 1.0, "compared_positions": 64}
    return row | {"near_ties": 0, "divergences": 0, "is_forced": True} | more


OVERHEAD = {
    "figure": "overhead",
    "shape": "dispatch-32",
    "step": "fused",
    "pairs": 40,
    "instrumented_vs_off": 1.004,
    "instrumented_vs_off_ci95_low": 1.001,
    "instrumented_vs_off_ci95_high": 1.008,
}
GOOD = [
    step("ours", 640, 9.0),
    step("ours_fused", 640, 3.6),
    step("ours_fused", 4643, 3.8, same_tokens=0.995, near_ties=1, divergences=1),
    step("hf_eager", 640, 2.0, is_forced=False, same_tokens=0.1),
    OVERHEAD,
]


def verdicts(rows: list, settings: dict = ON_A_GPU) -> list[str]:
    return [verdict["verdict"] for verdict in judged(rows, settings)]


def test_every_promise_is_judged_by_our_fastest_step() -> None:
    assert verdicts(GOOD) == [MET] * 5
    first = judged(GOOD, ON_A_GPU)[0]
    assert first["value"] == pytest.approx(3.2 / 3.6)
    assert first["low"] == pytest.approx(3.2 / 3.7)
    assert first["high"] == pytest.approx(3.2 / 3.5)
    assert (first["n"], first["subject"]) == (7, "ours_fused")


@pytest.mark.parametrize(
    ("place", "worse"),
    [
        (0, step("ours_fused", 640, 3.9)),
        (1, step("ours_fused", 4643, 4.1)),
        (2, step("ours_fused", 640, 3.6, vs_hf_eager=2.9)),
        (3, OVERHEAD | {"instrumented_vs_off": 1.011}),
        (4, step("ours_fused", 2086, 3.7, same_tokens=0.98, near_ties=2, divergences=2)),
        (4, step("ours_fused", 2086, 3.7, same_tokens=0.999, near_ties=0, divergences=1)),
    ],
)
def test_what_falls_short_is_missed(place, worse) -> None:
    same = [
        row
        for row in GOOD
        if (row.get("contender"), row.get("context")) != (worse.get("contender"), worse.get("context"))
    ]
    found = verdicts([*same, worse])
    assert found[place] == MISSED
    assert found.count(MISSED) == 1


@pytest.mark.parametrize(
    "settings", [{}, {"device_type": "cpu", "size": "tiny"}, {"device_type": "cuda", "size": "tiny"}]
)
def test_nothing_is_promised_of_tiny_shapes_or_a_cpu(settings) -> None:
    assert verdicts(GOOD, settings) == [NOT_MEASURED] * 5


def test_what_was_not_measured_is_not_judged() -> None:
    assert verdicts([]) == [NOT_MEASURED] * 5
    skipped = step("ours_fused", 640, 3.6) | {"turns": 0, "ms": None, "mbu": None}
    assert verdicts([skipped]) == [NOT_MEASURED] * 5


def test_the_summary_has_the_promised_keys() -> None:
    found = summary_of([{"status": "done"}, {"status": "failed"}, {"status": "out of time"}], GOOD, is_complete=True)
    assert (found["sections"], found["failed"]) == (3, 2)
    assert found["decode_mbu_640"] == pytest.approx(3.2 / 3.6)
    assert found["decode_mbu_4643"] == pytest.approx(3.2 / 3.8)
    assert found["ours_vs_hf_eager"] == pytest.approx(25 / 3.6)
    none = summary_of([], [], is_complete=True)
    assert (none["decode_mbu_640"], none["decode_mbu_4643"], none["ours_vs_hf_eager"]) == (None, None, None)


def proof(**changes) -> dict:
    """A document that shows the fused step to be right."""
    rows = [{"section": "steps", **row} for row in GOOD]
    tests = {"section": "tests", "figure": "tests", "passed": 90, "failed": 0}
    sections = [{"name": name, "status": "done"} for name in ("tests", "fused")]
    return {"settings": ON_A_GPU, "sections": sections, "rows": [*rows, tests], **changes}


def test_the_fused_step_is_proven_by_tests_and_tokens() -> None:
    assert is_fused_proven(proof())
    rows = proof()["rows"]
    assert not is_fused_proven(proof(settings={"device_type": "cpu", "size": "tiny"}))
    assert not is_fused_proven(proof(sections=[{"name": "tests", "status": "done"}]))
    assert not is_fused_proven(proof(sections=[{"name": name, "status": "failed"} for name in ("tests", "fused")]))
    assert not is_fused_proven(proof(rows=rows[:-1]))
    for key, value in (("passed", 0), ("failed", 1)):
        assert not is_fused_proven(proof(rows=[*rows[:-1], rows[-1] | {key: value}]))
    left_out = step("ours_fused", 2086, 1.0) | {"turns": 0, "reason": "it failed"}
    assert not is_fused_proven(proof(rows=[*rows, left_out]))
    for worse in ({"same_tokens": 0.98}, {"divergences": 1}):
        changed = [row | worse if row.get("contender") == "ours_fused" else row for row in rows]
        assert not is_fused_proven(proof(rows=changed))


# The CUDA tests

OUTPUT = """\
tests/engine/test_cuda.py::test_late_ids PASSED                                  [ 10%]
tests/engine/test_cuda.py::test_agree[None] FAILED                               [ 20%]
tests/engine/test_cuda.py::test_agree[a b] PASSED                                [ 30%]
tests/engine/test_cuda.py::test_rest SKIPPED (left to make test)                 [ 40%]
tests/engine/test_vision_cuda.py::test_odd ERROR                                 [ 50%]
FAILED tests/engine/test_cuda.py::test_agree[None] - assert 3 == 4
ERROR tests/engine/test_broken_cuda.py - ImportError: no module
"""


def test_outcomes_are_counted_as_pytest_tells_them() -> None:
    counts = TestCounts()
    for line in OUTPUT.splitlines():
        counts.hear(line)
    row = counts.to_json()
    assert (row["passed"], row["failed"], row["skipped"]) == (2, 2, 1)
    assert {failure["name"]: failure["reason"] for failure in row["failures"]} == {
        "tests/engine/test_cuda.py::test_agree[None]": "assert 3 == 4",
        "tests/engine/test_vision_cuda.py::test_odd": "",
        "tests/engine/test_broken_cuda.py": "ImportError: no module",
    }


@pytest.fixture
def checkout(tmp_path, monkeypatch) -> Path:
    folder = tmp_path / "tests" / "engine"
    folder.mkdir(parents=True)
    option = 'def pytest_addoption(parser): parser.addoption("--for-seconds", type=float)\n'
    (tmp_path / "conftest.py").write_text(option)
    monkeypatch.setattr(cuda_tests, "tests_folder", lambda: folder)
    return folder


def test_pytest_is_really_run(checkout) -> None:
    (checkout / "test_some_cuda.py").write_text(
        "import pytest\ndef test_good(): pass\ndef test_bad(): assert 1 == 2\n"
        "@pytest.mark.skip\ndef test_left(): pass\n"
    )
    (checkout / "test_other.py").write_text("def test_not_asked_for(): assert False\n")
    rows: list[dict] = []
    with pytest.raises(UserError, match=r"1 passed, 1 skipped, 1 failed: test_some_cuda.py::test_bad"):
        run_cuda_tests(rows.append, 300.0)
    assert (rows[0]["passed"], rows[0]["failed"], rows[0]["skipped"]) == (1, 1, 1)
    assert "1 == 2" in rows[0]["failures"][0]["reason"]


def test_an_installed_program_has_no_tests_and_says_so(monkeypatch) -> None:
    monkeypatch.setattr(cuda_tests, "tests_folder", lambda: None)
    rows: list[dict] = []
    assert "from a checkout" in run_cuda_tests(rows.append, 300.0)
    assert rows == []


def test_the_checkout_has_cuda_tests() -> None:
    names = [path.name for path in cuda_tests.cuda_test_files(cuda_tests.tests_folder())]
    assert "test_cuda.py" in names
    assert "test_parallel_cuda.py" in names


def test_progress_is_told(tmp_path) -> None:
    notes: list[str] = []
    measure_gpu(bench_of(tmp_path, {"a": 'say(done="Well.")'}), threading.Event(), notes.append)
    assert notes[0].startswith("a: Section a")
    assert notes[-1].startswith("a: done after")
