"""`bench gpu` seen from its parent: sections fail, hang or end as they like, and all their rows are kept."""

from __future__ import annotations

import json
import math
import sys
import threading
from pathlib import Path

import pytest

from evprof.core.errors import UserError
from evprof.run.gpu_bench import engine_sections
from evprof.run.gpu_bench.driving import GpuBench, hear_out, measure_gpu
from evprof.run.gpu_bench.engine_sections import counts_of, run_cuda_tests
from evprof.run.gpu_bench.plan import (
    MET,
    MISSED,
    MOST_S,
    NOT_MEASURED,
    SECTIONS,
    START_S,
    STEPS,
    GpuSection,
    by_process,
    chosen_sections,
    judged,
    summary_of,
)

CHILD = """
import json, os, subprocess, sys, time
def say(**found): print(json.dumps(found), flush=True)
def begin(name): say(begin=name, gpu={"clocks_mhz": 1})
def done(sentence=None): say(done=sentence, gpu={"clocks_mhz": 2})
say(environment={"device": "X"}, settings={"size": "7b"})
"""
ON_A_GPU = {"device_type": "cuda", "size": "7b"}


def sections(*names: str, limit_s: int = 300) -> list[GpuSection]:
    return [GpuSection(name, f"Section {name}", limit_s, STEPS, {}, {}) for name in names]


def bench_of(folder: Path, scripts: dict[str, str], limit_s: int = 300, first: str = "", **more) -> GpuBench:
    """A bench whose process does `first`, and then a short script for each section."""

    def argv(together) -> list[str]:
        script = "".join(f"begin({one.name!r})\n{scripts[one.name]}\n" for one in together)
        return [sys.executable, "-c", f"{CHILD}{first}\n{script}"]

    limits = {"start_s": 300.0, "most_s": 3000.0} | more
    return GpuBench(
        sections(*scripts, limit_s=limit_s), argv, folder, lambda document: f"{len(document['rows'])} rows\n", **limits
    )


def statuses(document: dict) -> dict[str, str]:
    return {section["name"]: section["status"] for section in document["sections"]}


PID = 'say(row={"pid": os.getpid()})\n'


def processes(document: dict) -> list[int]:
    pids = [row["pid"] for row in document["rows"]]
    return [list(dict.fromkeys(pids)).index(pid) for pid in pids]


def test_one_process_carries_out_all_sections(tmp_path) -> None:
    scripts = {
        "first": f"{PID}done()",
        "failing": f'{PID}say(failed="There is no room.")',
        "last": f'{PID}print("chatter of a library"); say(problem="Hot."); done("All well.")',
    }
    document = measure_gpu(bench_of(tmp_path, scripts), threading.Event())
    assert processes(document) == [0, 0, 0]
    assert statuses(document) == {"first": "done", "failing": "failed", "last": "done"}
    assert [row["section"] for row in document["rows"]] == ["first", "failing", "last"]
    found = {section["name"]: section for section in document["sections"]}
    assert found["failing"]["sentence"] == "There is no room; logs/1.txt says more."
    assert (found["last"]["sentence"], found["last"]["problems"]) == ("All well.", ["Hot."])
    assert (found["first"]["gpu_start"], found["first"]["gpu_end"]) == ({"clocks_mhz": 1}, {"clocks_mhz": 2})
    assert document["environment"]["device"] == "X"
    assert len(document["start_seconds"]) == 1
    assert (document["summary"]["sections"], document["summary"]["failed"]) == (3, 1)
    assert document["summary"]["is_complete"] is True
    assert json.loads((tmp_path / "gpu.json").read_text()) == document
    assert (tmp_path / "gpu.md").read_text() == "3 rows\n"


def test_a_fresh_process_goes_on_after_a_section_that_crashes(tmp_path) -> None:
    scripts = {
        "first": f"{PID}done()",
        "dying": f"{PID}os.kill(os.getpid(), 11)",
        "lost": f'{PID}say(failed="The GPU failed."); sys.exit(1)',
        "last": f"{PID}done()",
    }
    document = measure_gpu(bench_of(tmp_path, scripts), threading.Event())
    assert statuses(document) == {"first": "done", "dying": "failed", "lost": "failed", "last": "done"}
    assert processes(document) == [0, 0, 1, 2]
    assert (
        document["sections"][1]["sentence"]
        == "Its process ended by signal 11 and gave no reason; logs/1.txt says more."
    )
    assert document["sections"][2]["sentence"] == "The GPU failed; logs/2.txt says more."
    assert (len(document["start_seconds"]), document["summary"]["failed"]) == (3, 2)


def test_a_section_that_hangs_is_ended_with_what_it_started(tmp_path) -> None:
    """It ignores the first request, and its own child holds the stream."""
    child = f"{sys.executable!r}, '-c', 'import time; time.sleep(600)'"
    scripts = {
        "hanging": "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        f'process = subprocess.Popen([{child}]); say(row={{"pid": process.pid}}); time.sleep(600)',
        "next": f"{PID}done()",
    }
    document = measure_gpu(bench_of(tmp_path, scripts, limit_s=2), threading.Event())
    assert statuses(document) == {"hanging": "out of time", "next": "done"}
    assert (processes(document), len(document["start_seconds"])) == ([0, 1], 2)
    assert "its time was over" in document["sections"][0]["sentence"]
    assert document["summary"]["failed"] == 1
    psutil = pytest.importorskip("psutil")
    pid = document["rows"][0]["pid"]
    assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


@pytest.mark.parametrize(
    ("first", "start_s", "status", "sentence"),
    [
        ('say(failed="There is no GPU 9."); sys.exit(1)', 300.0, "failed", "There is no GPU 9; logs/1.txt says more."),
        ("sys.exit(3)", 300.0, "failed", "Its process ended with code 3 and gave no reason; logs/1.txt says more."),
        ("time.sleep(600)", 1.0, "out of time", "its time was over"),
    ],
)
def test_a_process_that_never_begins_fails_all_sections_once(tmp_path, first, start_s, status, sentence) -> None:
    bench = bench_of(tmp_path, {"a": "done()", "b": "done()"}, first=first, start_s=start_s)
    document = measure_gpu(bench, threading.Event())
    assert statuses(document) == {"a": status, "b": status}
    assert all(sentence in section["sentence"] for section in document["sections"])
    assert document["start_seconds"] == [None]


def test_what_all_sections_may_take_together_is_kept(tmp_path) -> None:
    scripts = {"a": 'say(row={"a": 1}); time.sleep(600)', "b": "done()", "c": "done()"}
    document = measure_gpu(bench_of(tmp_path, scripts, most_s=2.0), threading.Event())
    assert statuses(document) == dict.fromkeys("abc", "out of time")
    assert document["sections"][2]["sentence"] == "The 2 s of all sections were over before it began."
    assert document["summary"]["is_complete"] is True


def test_a_process_that_leaves_children_behind_is_done_all_the_same(tmp_path) -> None:
    child = f"{sys.executable!r}, '-c', 'import time; time.sleep(600)'"
    script = CHILD + f'subprocess.Popen([{child}]); say(row={{"a": 1}})'
    heard: list[dict] = []
    argv = [sys.executable, "-c", script]
    assert hear_out(argv, tmp_path / "log", lambda: math.inf, threading.Event(), heard.append) == 0
    assert heard[-1] == {"row": {"a": 1}}


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


def test_the_plan_keeps_its_promise() -> None:
    starts_s = START_S * len(by_process(SECTIONS))
    assert starts_s + sum(section.limit_s for section in SECTIONS) <= MOST_S == 540
    assert all(0 < section.expected_s <= section.limit_s for section in SECTIONS)
    assert all(section.measured or section.assumed for section in SECTIONS)
    assert [section.name for section in chosen_sections(["trace", "steps"])] == ["steps", "trace"]
    with pytest.raises(UserError, match="there is no section 'x'"):
        chosen_sections(["x"])


# What is promised


def step(contender: str, context: int, ms: float, *, divergences: int = 0, near_ties: int = 0, **more) -> dict:
    row = {"figure": "step", "phase": "decode", "contender": contender, "context": context, "turns": 7}
    row |= {"ms": ms, "ms_low": ms - 0.1, "ms_high": ms + 0.1, "mbu": 3.2 / ms, "vs_hf_eager": 25 / ms}
    row |= {"vs_hf_eager_low": 24 / ms, "vs_hf_eager_high": 26 / ms, "compared_positions": 64, "is_forced": True}
    row |= {"divergences": divergences, "near_ties": near_ties, "same_positions": 64 - divergences}
    return row | more


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
    step("ours_fused", 4643, 3.8, near_ties=1, divergences=1),
    step("hf_eager", 640, 2.0, is_forced=False),
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
    last = judged(GOOD, ON_A_GPU)[-1]
    assert (last["value"], last["subject"]) == (127 / 128, "1 of 1 that differ are near-ties")


@pytest.mark.parametrize(
    ("place", "worse"),
    [
        (0, step("ours_fused", 640, 3.9)),
        (1, step("ours_fused", 4643, 4.1)),
        (2, step("ours_fused", 640, 3.6, vs_hf_eager=2.9)),
        (3, OVERHEAD | {"instrumented_vs_off": 1.011}),
        (4, step("ours_fused", 2086, 3.7, near_ties=0, divergences=1)),
        (4, step("ours_fused", 2086, 3.7, near_ties=50, divergences=50)),
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


# The CUDA tests

REPORT = """<testsuites><testsuite>
<testcase classname="tests.engine.test_cuda" name="test_late_ids"/>
<testcase classname="tests.engine.test_cuda" name="test_known"><skipped type="pytest.xfail"/></testcase>
<testcase classname="tests.engine.test_cuda" name="test_rest"><skipped type="pytest.skip"/></testcase>
<testcase classname="tests.engine.test_cuda" name="test_agree[a b]">
<failure message="assert 3 == 4&#10;more"/></testcase>
<testcase classname="" name="tests.engine.test_broken_cuda"><error message="collection failure"/></testcase>
</testsuite></testsuites>"""


def test_outcomes_are_those_of_the_report(tmp_path) -> None:
    (tmp_path / "report.xml").write_text(REPORT)
    row = counts_of(tmp_path / "report.xml")
    assert (row["passed"], row["failed"], row["skipped"]) == (2, 2, 1)
    assert {failure["name"]: failure["reason"] for failure in row["failures"]} == {
        "tests/engine/test_cuda.py::test_agree[a b]": "assert 3 == 4",
        "tests.engine.test_broken_cuda": "collection failure",
    }


@pytest.fixture
def checkout(tmp_path, monkeypatch) -> Path:
    folder = tmp_path / "tests" / "engine"
    folder.mkdir(parents=True)
    option = 'def pytest_addoption(parser): parser.addoption("--for-seconds", type=float)\n'
    (tmp_path / "conftest.py").write_text(option)
    monkeypatch.setattr(engine_sections, "tests_folder", lambda: folder)
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
