"""The benchmark `ui` in small: real engine process, real pipe, real window; figures that hang together."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from benchmarks.engine_effect import WindowTurn, paces
from benchmarks.processes import run_argv
from benchmarks.window import SIZES

CROWD = ("median_ms", "p99_ms", "cpu_median_ms", "cpu_p99_ms")
ENDS = ("", "_ci95_low", "_ci95_high")


@pytest.mark.whole
def test_it_measures_and_its_figures_hang_together(tmp_path) -> None:
    environment = {**os.environ, "QT_QPA_PLATFORM": "offscreen", "HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path)}
    words = run_argv("ui", "--trials", "1", "--seconds", "1", "--quick", "--json")
    done = subprocess.run(words, capture_output=True, text=True, timeout=600, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert (document["benchmark"], document["schema_version"]) == ("ui", 1)
    assert set(document["summary"]) == {
        "window_visible_ms",
        "pan_zoom_median_ms",
        "pan_zoom_p99_ms",
        "token_to_picture_median_ms",
        "token_to_picture_p99_ms",
        "many_runs",
        "many_runs_open_ms",
        "many_runs_unfold_ms",
        "many_runs_scroll_ms",
        "long_text_token_ms",
        "live_longest_gap_ms",
        "live_longest_work_ms",
        "first_picture_ms",
        "session_mb",
        *(f"million_{name}" for name in ("records", "first_picture_ms", "cpu_ms", "rss_mb", "grown_mb", "session_mb")),
        *("crowd_spans", "crowd_counters"),
        *(f"crowd_{what}_{name}" for what in ("pan_zoom", "live") for name in CROWD),
        *(f"{ratio}{end}" for ratio in ("windowed_vs_headless", "headless_a_vs_a") for end in ENDS),
        *("headless_ms_per_token", "windowed_ms_per_token", "windowed_pairs"),
    }
    (row,) = document["rows"]
    # Everything that was made has arrived: 20,000 a second for a second, and a few of the run itself and its memory.
    assert 20_000 <= row["records"] <= 20_100
    assert row["beats"] > 1
    assert document["summary"]["live_longest_gap_ms"] == row["longest_gap_ms"] >= 5
    assert document["summary"]["pan_zoom_median_ms"] <= document["summary"]["pan_zoom_p99_ms"]
    summary = document["summary"]
    assert all(value > 0 for value in summary.values())
    assert (summary["crowd_spans"], summary["crowd_counters"]) == (100_000, 30_000)
    assert (summary["million_records"], summary["many_runs"]) == (100_000, 444)
    assert summary["windowed_pairs"] >= SIZES.tenth().turns
    assert summary["million_grown_mb"] < summary["million_rss_mb"]
    low, high = (summary[f"windowed_vs_headless{end}"] for end in ENDS[1:])
    assert low <= summary["windowed_vs_headless"] <= high
    assert list(tmp_path.rglob("*.evprof")) == []


def test_a_window_that_never_paints_is_told() -> None:
    from benchmarks.window import first_paint_ms
    from evprof.core.errors import UserError

    with pytest.raises(UserError, match="no Qt here"):
        first_paint_ms([sys.executable, "-c", "raise SystemExit('no Qt here')"])


def test_a_turn_counts_the_tokens_that_came_in_it() -> None:
    times_ns = np.arange(0, 1_000_000_000, 10_000_000) + 5
    times_ns[50:] += np.arange(50) * 10_000_000  # from the middle on a token takes twice as long
    turns = [
        WindowTurn(False, -1, 7),  # begins before the answer
        WindowTurn(False, 100_000_005, 250_000_005),
        WindowTurn(True, 700_000_000, 1_000_000_000),
        WindowTurn(False, 1_400_000_000, 1_600_000_000),  # ends after it
    ]
    found = paces(times_ns, turns)
    assert [turn for turn, _ in found] == turns[1:3]
    assert [pace for _, pace in found] == pytest.approx([10.0, 20.0])
    assert paces(np.empty(0, dtype=np.int64), turns) == []
