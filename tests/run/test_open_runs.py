"""What is said about runs that nobody else ends."""

from __future__ import annotations

from evprof.core.messages import RequestEnded, RunEnded, RunStarted
from evprof.core.run_info import RunInfo
from evprof.run.processes.open_runs import OpenRuns


def started(run_id: int) -> RunStarted:
    return RunStarted(run_id, RunInfo(run_id, 1, 0, "draft", "side-by-side"))


def test_only_runs_that_began_and_did_not_end_are_closed(request_for):
    runs = OpenRuns()
    runs.begin(request_for())
    for message in (started(1), RunEnded(1, "finished"), started(2)):
        runs.note(message)
    assert runs.run_ids == (2,)
    assert runs.close("failed", "why") == [RunEnded(2, "failed", "why"), RequestEnded(1)]
    assert not runs.is_busy
    assert runs.close("failed", "why") == []


def test_an_attempt_that_never_became_a_run_is_put_on_record(request_for):
    runs = OpenRuns()
    runs.begin(request_for(mode="speculative", first_run_id=5, group_id=3))
    start, end, last = runs.close("failed", "why")
    assert (start.run_id, start.info.group_id, start.info.role, start.info.mode) == (5, 3, "target", "speculative")
    assert start.info.sample.video_path == "absent.mp4"
    assert start.info.settings.max_new_tokens == 128
    assert end == RunEnded(5, "failed", "why")
    assert last == RequestEnded(5)


def test_a_request_that_ended_by_itself_needs_nothing(request_for):
    runs = OpenRuns()
    runs.begin(request_for())
    for message in (started(1), RunEnded(1, "finished"), RequestEnded(1)):
        runs.note(message)
    assert runs.close("failed", "why") == []
