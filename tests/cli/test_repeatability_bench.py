"""`evprof bench repeatability`: fresh processes side by side, and what is kept of them."""

from __future__ import annotations

from statistics import fmean, stdev
from typing import Any

import pytest

from evprof.run.kept_repeatability import keep_repeatability, kept_repeatability

pytestmark = pytest.mark.usefixtures("processes")


def measured(evprof: Any, *words: object) -> Any:
    found = evprof("bench", "repeatability", "--sessions", 3, "--repeat", 2, "--max-new-tokens", 3, "--json", *words)
    assert found.code == 0, found.errors
    return found.document


@pytest.mark.parametrize("words", [(), ("--target", "another-model")])
def test_a_row_for_every_process_and_two_components(evprof: Any, words: tuple[str, ...]) -> None:
    document = measured(evprof, *words)
    assert [row["runs"] for row in document["rows"]] == [2, 2, 2]
    assert len({row["engine_session"] for row in document["rows"]}) == 3
    assert document["summary"].keys() >= {"between_processes_pct", "within_process_pct"}
    assert document["summary"]["within_process_pct"] > 0
    [kept] = kept_repeatability(["scripted"])
    assert (kept["sessions"], kept["runs"], kept["degrees"]) == (3, 6, 2)
    levels = [row["mean_ms"] for row in document["rows"]]
    assert kept["relative_sd"] == pytest.approx(stdev(levels) / fmean(levels))
    assert kept["relative_sd"] >= document["summary"]["between_processes_pct"] / 100


def test_text_for_people(evprof: Any) -> None:
    found = evprof("bench", "repeatability", "--sessions", 2, "--repeat", 1, "--max-new-tokens", 2)
    assert found.code == 0, found.errors
    assert "from process to process (2 processes)" in found.output
    assert "n/a from run to run" in found.output


def test_one_process_is_nothing_to_compare(evprof: Any) -> None:
    found = evprof("bench", "repeatability", "--sessions", 1)
    assert found.code == 2
    assert "--sessions" in found.errors


@pytest.mark.usefixtures("scripted")
def test_sessions_note_what_is_known_of_their_machine(evprof: Any, tmp_path: Any) -> None:
    from evprof.session.reading import load_session

    entry = {"machine": "scripted", "device": "scripted", "dtype": "bfloat16", "relative_sd": 0.02, "degrees": 4}
    for known in (entry, {**entry, "machine": "elsewhere"}, {**entry, "relative_sd": 0.03}):
        keep_repeatability(known)
    path = tmp_path / "s.evprof"
    assert evprof("run", "--mode", "target", "-o", path).code == 0
    assert load_session(path).facts["repeatability"] == [{**entry, "relative_sd": 0.03}]


@pytest.mark.usefixtures("scripted")
def test_a_comparison_of_one_process_each_says_what_is_usual(evprof: Any, tmp_path: Any) -> None:
    paths = [tmp_path / f"{number}.evprof" for number in range(2)]
    for path in paths:
        assert evprof("run", "--mode", "target", "--repeat", 3, "-o", path).code == 0
    keep_repeatability(
        {"machine": "scripted", "device": "scripted", "dtype": "bfloat16", "relative_sd": 0.018, "degrees": 4}
    )
    rows = {row["metric"]: row for row in evprof("compare", *paths, "--json").document["rows"]}
    assert "differences of 1.8 % are usual here" in str(rows["total_ms"])
