"""Energy in `show` and `compare`."""

from __future__ import annotations

from pathlib import Path

import pytest

from evprof.cli.sessions.compare import figure_text
from fake_nvml import powered_session


@pytest.fixture
def session(tmp_path: Path) -> Path:
    return powered_session(tmp_path / "powered.evprof")


def test_show_tells_energy_and_warns_of_slowdowns(evprof, session) -> None:
    _, quiet, hot = evprof("show", session).output.split("\nrun ")
    lines = [line.split() for line in quiet.splitlines()]
    for words in (["Energy", "energy", "1,187", "J"], ["mean", "power", "457", "W"], ["decode", "781", "J"]):
        assert words in lines
    assert "Slowed down" not in quiet
    assert "warning: Slowed down: cuda:0 by thermal slowdown (software) in 38 % of its samples." in hot


def test_compare_has_rows_of_energy_and_a_note_of_slowdowns(evprof, session) -> None:
    found = evprof("compare", session)
    assert "energy_per_answer_j" in found.output
    assert "the GPU was slowed down in 1 of 1 runs; their times are not what it can do." in found.output
    rows = {row["metric"]: row for row in evprof("compare", session, "--json").document["rows"]}
    assert rows["energy_per_answer_j"]["values"] == pytest.approx([1187.2, 2474.2])
    assert rows["mean_power_w"]["lower_is_better"] is None


@pytest.mark.parametrize(("value", "said"), [
    (None, "n/a"), (0.0213, "0.0213 J"), (19.52, "19.5 J"), (1187.2, "1,187 J"),
])  # fmt: skip
def test_small_energies_are_not_rounded_to_nothing(value, said) -> None:
    assert figure_text(value, "J") == said
