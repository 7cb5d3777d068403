"""`evprof bench repeatability`: fresh processes side by side."""

from __future__ import annotations

from typing import Any

import pytest

from evprof.run.benches.repeatability import components

pytestmark = pytest.mark.usefixtures("processes")


def measured(evprof: Any, *words: object) -> Any:
    found = evprof("bench", "repeatability", "--processes", 3, "--repeat", 2, "--max-new-tokens", 3, "--json", *words)
    assert found.code == 0, found.errors
    return found.document


@pytest.mark.parametrize("words", [(), ("--target", "another-model")])
def test_a_row_for_every_process_and_two_components(evprof: Any, words: tuple[str, ...]) -> None:
    document = measured(evprof, *words)
    assert [row["runs"] for row in document["rows"]] == [2, 2, 2]
    assert len({row["engine_session"] for row in document["rows"]}) == 3
    assert document["summary"].keys() >= {"between_processes_pct", "within_process_pct"}
    assert document["summary"]["within_process_pct"] > 0


def test_components_are_those_of_the_analysis_of_variance() -> None:
    found = components([[10.0, 12.0], [20.0, 22.0], [30.0, 32.0]])
    assert found.mean == 21
    assert found.within == pytest.approx(2**0.5 / 21)
    assert found.between == pytest.approx(((200 - 2) / 2) ** 0.5 / 21)
    assert components([]) is None
    alone = components([[5.0]])
    assert (alone.between, alone.within) == (None, None)
