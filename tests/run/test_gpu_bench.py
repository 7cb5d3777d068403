"""`bench gpu` seen from its parent: sections fail, hang or end as they like, and all their rows are kept."""

from __future__ import annotations

import json
import math
import sys
import threading
from pathlib import Path

import pytest

from evprof.core.errors import UserError
from evprof.run.gpu_bench.driving import GpuBench, hear_out, measure_gpu
from evprof.run.gpu_bench.plan import (
    MOST_S,
    SECTIONS,
    START_S,
    STEPS,
    GpuSection,
    by_process,
    chosen_sections,
    summary_of,
)

CHILD = """
import json, os, subprocess, sys, time
def say(**found): print(json.dumps(found), flush=True)
def begin(name): say(begin=name, gpu={"clocks_mhz": 1})
def done(sentence=None): say(done=sentence, gpu={"clocks_mhz": 2})
say(environment={"device": "X"}, settings={"size": "7b"})
"""


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
    assert "Its time was over" in document["sections"][0]["sentence"]
    assert document["summary"]["failed"] == 1
    psutil = pytest.importorskip("psutil")
    pid = document["rows"][0]["pid"]
    assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


@pytest.mark.parametrize(
    ("first", "start_s", "status", "sentence"),
    [
        ('say(failed="There is no GPU 9."); sys.exit(1)', 300.0, "failed", "There is no GPU 9; logs/1.txt says more."),
        ("sys.exit(3)", 300.0, "failed", "Its process ended with code 3 and gave no reason; logs/1.txt says more."),
        ("time.sleep(600)", 1.0, "out of time", "Its time was over"),
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


def test_the_summary_has_figures_of_our_fastest_step() -> None:
    def step(contender: str, context: int, ms: float) -> dict:
        row = {"figure": "step", "phase": "decode", "contender": contender, "context": context, "turns": 7}
        return row | {"ms": ms, "mbu": 3.2 / ms, "vs_hf_eager": 25 / ms}

    rows = [step("ours", 640, 9.0), step("ours_fused", 640, 3.6), step("hf_eager", 640, 2.0)]
    rows += [step("ours_fused", 4643, 3.8), step("ours", 4643, 1.0) | {"turns": 0}, {"figure": "overhead"}]
    found = summary_of([{"status": "done"}, {"status": "failed"}, {"status": "out of time"}], rows, is_complete=True)
    assert (found["sections"], found["failed"]) == (3, 2)
    assert found["decode_mbu_640"] == pytest.approx(3.2 / 3.6)
    assert found["decode_mbu_4643"] == pytest.approx(3.2 / 3.8)
    assert found["ours_vs_hf_eager"] == pytest.approx(25 / 3.6)
    none = summary_of([], [], is_complete=True)
    assert (none["decode_mbu_640"], none["decode_mbu_4643"], none["ours_vs_hf_eager"]) == (None, None, None)
