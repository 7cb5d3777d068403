"""Energy of runs that an NVML of our own watched: by stage, by token, by device; and what slowed them down."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evprof.core.recording import RecordLog
from evprof.core.records import DRAFT, END, SETTLED, STAGES, TARGET, PowerRecord, SpanRecord
from evprof.core.run_log import RunBook, RunLog
from evprof.core.vocabulary.figures import ENERGY, FIGURES
from evprof.metrics.comparison.figures import READERS
from evprof.metrics.document import run_document
from evprof.metrics.figures.energy import (
    computing_devices,
    energy_document,
    energy_j,
    is_throttled,
    throttle_sentence,
    throttled_devices,
)
from evprof.metrics.figures.stages import BASES, END_TO_END, MODEL_ONLY, WITHOUT_LOAD
from fake_nvml import MS, FakeClock, FakeGpu, FakeNvml, WatchedRun, facts_on, powered_recording, watch


def watched(run: WatchedRun | None = None, *gpus: FakeGpu) -> RunLog:
    recording, clock, run = RecordLog(), FakeClock(), run or WatchedRun()
    watch(recording, run, FakeNvml(gpus or (FakeGpu(),), clock).meters(), clock)
    return runs_of(recording)[0]


def runs_of(recording: RecordLog) -> list[RunLog]:
    book = RunBook(recording)
    book.update()
    return list(book.runs.values())


def assert_adds_up(entry: dict) -> None:
    known = [value for value in entry["stages"].values() if value is not None]
    assert sum(known) + entry["unattributed_j"] == pytest.approx(entry["energy_j"], rel=1e-12)
    assert entry["unattributed_j"] >= -1e-9


def test_a_steady_gpu_draws_its_power_times_the_time():
    found = energy_document(watched())
    assert found["energy_j"] == pytest.approx(300 * 5.9, rel=0.02)
    assert found["mean_power_w"] == pytest.approx(300, rel=0.02)
    assert found["peak_power_w"] == 300
    assert found["stages"]["decode"] == pytest.approx(1200, rel=0.02)
    assert found["energy_per_token_j"] == pytest.approx(1200 / 40, rel=0.02)
    assert found["devices"]["cuda:0"]["source"] == "counter"
    assert found["devices"]["cuda:0"]["computes"] is True
    assert_adds_up(found)


LENGTHS = st.lists(st.integers(5, 900), min_size=5, max_size=5)


@given(LENGTHS, st.integers(0, 60), st.lists(st.integers(60, 700), min_size=3, max_size=3), st.booleans())
def test_stages_and_the_rest_add_up_whatever_is_known(lengths, gap_ms, watts, has_counter):
    gpu = FakeGpu(
        lambda now: watts[now // (400 * MS) % 3],
        withheld=set() if has_counter else {"nvmlDeviceGetTotalEnergyConsumption"},
    )
    run = WatchedRun(stages=tuple(zip(STAGES, lengths, strict=True)), gap_ms=gap_ms)
    found = energy_document(watched(run, gpu))
    for name, length in zip(STAGES, lengths, strict=True):
        assert length >= 100 or found["stages"][name] is None
    for entry in (found, *found["devices"].values()):
        if entry["energy_j"] is None:
            assert set(entry["stages"].values()) == {None}
            assert entry["unattributed_j"] is None
        else:
            assert_adds_up(entry)


def test_a_stage_shorter_than_a_step_is_not_known_and_never_0():
    stages = (("load", 4), ("preprocess", 30), ("vision", 99), ("prefill", 400), ("decode", 2000))
    found = energy_document(watched(WatchedRun(stages=stages)))
    assert [found["stages"][name] for name in ("load", "preprocess", "vision")] == [None] * 3
    assert found["stages"]["prefill"] == pytest.approx(120, rel=0.1)
    assert_adds_up(found)
    assert found["unattributed_j"] == pytest.approx(300 * 0.183, abs=31)


def test_a_run_shorter_than_a_step_is_not_known():
    run = watched(WatchedRun(stages=tuple((name, 10) for name in STAGES), gap_ms=0))
    found = energy_document(run)
    assert found["energy_j"] is found["mean_power_w"] is found["unattributed_j"] is None
    assert {READERS[key](run, TARGET, END_TO_END) for key in ("energy_per_answer_j", "energy_per_token_j")} == {None}


def test_bases_leave_out_what_their_totals_leave_out():
    run = watched(WatchedRun(stages=tuple(zip(STAGES, (500, 300, 500, 900, 4000), strict=True)), gap_ms=0))
    whole, without_load, model_only = (energy_j(run, basis) for basis in (END_TO_END, WITHOUT_LOAD, MODEL_ONLY))
    assert whole - without_load == pytest.approx(150, rel=0.1)
    assert without_load - model_only == pytest.approx(90, rel=0.1)
    assert set(BASES) == {END_TO_END, WITHOUT_LOAD, MODEL_ONLY}


def test_draft_and_target_on_two_gpus_are_told_apart_and_together():
    run = WatchedRun(mode="speculative", devices=((DRAFT, "cuda:1"), (TARGET, "cuda:0")))
    found = energy_document(watched(run, FakeGpu(lambda _: 400.0), FakeGpu(lambda _: 150.0), FakeGpu(lambda _: 70.0)))
    assert list(found["devices"]) == ["cuda:0", "cuda:1"]
    assert found["devices"]["cuda:0"]["energy_j"] == pytest.approx(400 * 5.9, rel=0.02)
    assert found["devices"]["cuda:1"]["energy_j"] == pytest.approx(150 * 5.9, rel=0.02)
    assert found["energy_j"] == pytest.approx(550 * 5.9, rel=0.02)
    assert found["peak_power_w"] == 550
    for entry in (found, *found["devices"].values()):
        assert_adds_up(entry)


def test_a_device_that_computes_and_was_not_sampled_leaves_the_run_unknown():
    run = watched(WatchedRun(devices=((DRAFT, "cuda:0"), (TARGET, "cuda:1"))))
    assert computing_devices(run) == ()
    found = energy_document(run)
    assert found["energy_j"] is None
    assert found["devices"]["cuda:0"]["energy_j"] == pytest.approx(300 * 5.9, rel=0.02)


def test_packages_of_the_processor_count_where_models_compute_there():
    run = watched(WatchedRun(devices=((TARGET, "cpu"),)), FakeGpu(lambda _: 50.0))
    for t_ms in range(1200, 7300, 100):
        for number in (0, 1):
            run.absorb(PowerRecord(1, t_ms * MS, f"cpu:{number}", t_ms * 1000 * 80))
    assert computing_devices(run) == ("cpu:0", "cpu:1")
    found = energy_document(run)
    assert found["energy_j"] == pytest.approx(160 * 5.9, rel=0.02)
    assert found["devices"]["cuda:0"]["computes"] is False


def test_stages_at_the_same_time_share_a_name_and_no_moment_counts_twice():
    run = watched()
    # Another model prefills during the target's vision and prefill, as in parallel prefill.
    run.info.models[DRAFT] = facts_on("cuda:0")
    start = (1230 + 150 + 10 + 300 + 10) * MS
    for phase in (END, SETTLED):
        run.absorb(SpanRecord(1, 90, -1, phase, DRAFT, "prefill", start, start + 1000 * MS))
    found = energy_document(run)
    assert list(found["stages"]) == ["load", "preprocess", "prefill", "vision+prefill", "decode"]
    assert found["stages"]["vision+prefill"] == pytest.approx(150, rel=0.1)
    assert found["stages"]["prefill"] == pytest.approx(300 * 0.91, rel=0.1)
    assert_adds_up(found)


def test_without_samples_nothing_was_measured():
    run = watched()
    run.power.clear()
    assert energy_document(run) is None
    assert is_throttled(run) is throttled_devices(run) is throttle_sentence(run) is None
    document = run_document(run)
    assert document["energy"] is document["throttled"] is document["throttling"] is None
    assert {READERS[key](run, TARGET, END_TO_END) for key, figure in FIGURES.items() if figure.head == ENERGY} == {None}


def test_slowed_down_runs_are_told_with_why():
    quiet, hot = runs_of(powered_recording())
    assert is_throttled(quiet) is False
    assert throttle_sentence(quiet) is None
    assert is_throttled(hot) is True
    state = run_document(hot)["throttling"]["cuda:0"]
    assert state["throttle_reasons"] == ["thermal slowdown (software)"]
    assert (state["lowest_sm_mhz"], state["highest_sm_mhz"], state["hottest_c"]) == (1410, 1980, 88)
    assert throttle_sentence(hot) == "Slowed down: cuda:0 by thermal slowdown (software) in 38 % of its samples."


@pytest.mark.parametrize("gpu", [
    FakeGpu(throttle=lambda _: 0x2),
    FakeGpu(lambda now: 80.0 if now < 3000 * MS else 300.0, clock_mhz=lambda now: 345 if now < 3000 * MS else 1980),
    FakeGpu(throttle=lambda now: 0x1, clock_mhz=lambda now: 345 if now < 3000 * MS else 1980),
])  # fmt: skip
def test_what_was_decided_and_idling_slow_nothing_down(gpu):
    assert is_throttled(watched(None, gpu)) is False


def test_samples_of_a_damaged_file_raise_nothing():
    run = watched()
    odd = run.power["cuda:0"]
    run.power["cuda:0"] = [*reversed(odd), *(odd[0]._replace(t_ns=t_ns) for t_ns in (-(1 << 62), 0, 1 << 62)), odd[3]]
    run.power["cpu:x"] = [PowerRecord(1, 0, "cpu:x", 1 << 62, 1 << 62, -(1 << 62), 0, 0, 1 << 62, 0, 0)]
    assert energy_document(run)["devices"]["cpu:x"]["energy_j"] is None
