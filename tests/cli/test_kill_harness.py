"""`make faults` in small: a few kills of real runs, and what it finds of files that it is shown."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from faults.appended import Diary, entries_of, lost_ms
from faults.growth import Sample, growth_of, theil_sen
from faults.kill import main

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks and asks for SIGKILL")


@pytest.mark.whole
def test_a_few_kills_of_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No time is held against this machine: what may be lost is as large as a run is long."""
    words = ["--kills", "3", "--at-once", "1", "--programs", "run", "--most-ms", "600000", "--out", str(tmp_path)]
    assert main(words) == 0, capsys.readouterr().err
    found = json.loads((tmp_path / "kills.json").read_text())
    assert [kill["program"] for kill in found] == ["run"] * 3
    assert not any(kill["unreadable"] or kill["orphans"] for kill in found)
    assert "| all | 3 | 0 | 0 |" in capsys.readouterr().out


def test_what_was_lost_is_what_was_appended_and_is_not_in_the_file(tmp_path: Path) -> None:
    diary = Diary(tmp_path / "diary")
    for stream in ("tokens", "spans", "memory", "tokens"):
        diary.note(stream, 2)
    entries = entries_of(tmp_path / "diary")
    assert [(stream, rows) for stream, rows, _ in entries] == [
        ("tokens", 2),
        ("spans", 2),
        ("memory", 2),
        ("tokens", 4),
    ]
    times = [at_ns for *_, at_ns in entries]
    assert lost_ms(entries, {"tokens": 4, "spans": 2}, times[-1] + 10**6) == (0.0, 0.0)
    lost, oldest = lost_ms(entries, {"tokens": 2}, times[-1] + 10**6)
    assert lost == (times[3] - times[1]) / 1e6
    assert oldest == pytest.approx(lost + 1.0)
    assert entries_of(tmp_path / "absent") == []


def test_a_slope_is_found_in_noise_and_none_where_there_is_none() -> None:
    random = np.random.default_rng(3)
    units = np.arange(200.0)
    noise = random.normal(0, 50_000, 200)
    noise[::17] += 3_000_000
    slope, low, high = theil_sen(units, 4096 * units + noise)
    assert low < 4096 < high
    assert 3500 < slope < 4700
    flat = [Sample(number, int(10**8 + noise[number]), 7, 30, 0) for number in range(200)]
    assert growth_of(flat).is_within(1024)
    leaking = [Sample(number, int(10**8 + 90_000 * number), 7, 30 + number // 10, 0) for number in range(200)]
    growth = growth_of(leaking)
    assert not growth.is_within(1024)
    assert growth.risen["handles"] > 0
