"""Every fault that docs/faults.md tells of is tried by tests that exist."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]

WRITER = "tests/run/test_session_writer.py"

TRIED_BY = {
    "`kill -9` of `evprof run`": [
        "tests/cli/test_kills.py::test_a_killed_program_leaves_readable_sessions_and_no_process"
    ],
    "`kill -9` of `evprof suite`": [
        "tests/run/test_suite_driver.py::test_killed_at_any_row_and_resumed_is_the_same",
        "tests/run/test_suite_driver.py::test_a_suite_killed_before_its_first_row_can_be_resumed",
    ],
    "`kill -9` of the engine of a window": [
        "tests/run/test_engine_host.py::test_a_killed_engine_fails_its_run_keeps_the_records_and_the_next_run_works",
    ],
    "`kill -9` of the window": [
        WRITER + "::test_a_killed_program_loses_nothing_that_was_committed_and_leaves_no_orphan"
    ],
    "full disk": [
        "tests/run/test_suite_driver.py::test_a_full_disk_stops_at_the_first_row_it_does_not_take",
        WRITER + "::test_a_full_disk_is_a_warning_and_nothing_is_lost_once_there_is_room",
        WRITER + "::test_a_disk_that_is_full_everywhere_keeps_all_in_memory",
    ],
    "read-only folder": ["tests/cli/test_bad_input.py::*"],
    "session or folder that vanishes, or is replaced by another file, while it is recorded": [
        WRITER + "::test_a_session_that_is_gone_goes_on_among_the_autosaved_with_all_that_it_held",
    ],
    "session that vanishes while a window shows it": [
        WRITER + "::test_a_session_that_moved_since_it_was_opened_is_not_begun_anew",
        "tests/gui/test_defects.py::test_what_a_person_can_put_right_is_a_sentence_and_no_defect",
    ],
    "two programs record one session": [WRITER + "::test_one_writer_at_a_time_whatever_the_clock_says"],
    "home that cannot be written": [
        "tests/cli/test_streams.py::test_a_home_that_takes_nothing",
        "tests/cli/test_streams.py::test_a_crash_is_reported_where_nothing_can_be_written",
    ],
    "lost GPU": [
        "tests/engine/test_failures.py::test_a_gpu_that_fails_in_any_stage_ends_the_engine",
        "tests/run/test_engine_host.py::test_a_lost_gpu_ends_its_process_and_the_next_run_has_a_fresh_one",
        "tests/run/test_suite_driver.py::test_a_lost_gpu_stops_the_suite_and_its_row_is_measured_again",
    ],
    "memory runs out, in any stage": [
        "tests/engine/test_failures.py::test_a_run_that_runs_out_says_where_and_the_next_one_works",
    ],
    "the system ends a process for its memory": [
        "tests/run/test_engine_host.py::test_a_killed_engine_fails_its_run_keeps_the_records_and_the_next_run_works",
    ],
    "engine that hangs": [
        "tests/run/test_engine_host.py::test_an_engine_that_hangs_is_told_once_and_stop_ends_it",
        "tests/run/test_engine_host.py::test_an_engine_that_hangs_is_ended_after_the_time_that_was_asked_for",
        "tests/run/test_suite_driver.py::test_a_row_that_hangs_is_given_up_and_the_next_has_a_fresh_engine",
        "tests/gui/test_run_warnings.py::test_an_engine_that_says_nothing_can_be_ended",
    ],
    "clock that jumps": [
        "tests/run/test_clock_jumps.py::test_times_do_not_follow_a_clock_that_jumps",
        WRITER + "::test_one_writer_at_a_time_whatever_the_clock_says",
    ],
    "session of a newer version": [
        "tests/session/test_hostile_files.py::test_a_newer_format_asks_for_an_update",
    ],
    "truncated session": [
        "tests/session/test_hostile_files.py::test_every_truncation_is_told",
    ],
    "damaged session (bits that flipped)": [
        "tests/session/test_hostile_files.py::test_damage_anywhere_is_told_or_changes_nothing",
        "tests/session/test_hostile_files.py::test_a_damaged_chunk_names_its_run_and_stream_and_the_rest_is_read",
    ],
    "closed output (`>&-`)": [
        "tests/cli/test_streams.py::test_closed_output_is_an_output_that_nobody_wants",
        "tests/cli/test_streams.py::test_closed_errors_cost_nothing_but_their_lines",
    ],
    "full output (`>/dev/full`)": ["tests/cli/test_streams.py::test_a_full_output_is_one_sentence"],
    "output that nobody reads any more (<code>2>&1 &#124; head</code>)": [
        "tests/cli/test_streams.py::test_a_run_without_a_reader_of_its_progress_goes_on_until_ctrl_c",
    ],
    "packages that are gone": ["tests/cli/test_streams.py::test_a_package_that_is_gone_is_told"],
}
"""Fault -> tests, each as `file::function`; `*` for all of a file."""


@cache
def functions_of(path: str) -> set[str]:
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_every_fault_of_the_table_is_tried() -> None:
    lines = (ROOT / "docs" / "faults.md").read_text(encoding="utf-8").splitlines()
    faults = [line.split(" | ")[0].removeprefix("| ") for line in lines if line.startswith("| ")][1:]
    assert faults == list(TRIED_BY)


def test_every_test_of_the_table_exists() -> None:
    named = [name for names in TRIED_BY.values() for name in names]
    missing = []
    for name in named:
        path, _, function = name.partition("::")
        found = functions_of(path)
        if not any(each.startswith("test_") for each in found) or (function != "*" and function not in found):
            missing.append(name)
    assert not missing
