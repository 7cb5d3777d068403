"""All runs of a configuration as one picture: means by part, spreads, and the runs at percentiles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from evprof.core.run_log import RunLog
from evprof.metrics.configurations.parts import PartKey, mean_parts, parts_document


def _runs(script: Callable[..., Any], write: Callable[..., RunLog], *scales: float) -> list[RunLog]:
    return [write(script(run_id=number), scale=scale) for number, scale in enumerate(scales, start=1)]


def test_means_spreads_and_percentiles_name_runs(script, plain_writer) -> None:
    found = mean_parts(_runs(script, plain_writer, 5.0, 1.0, 2.0, 4.0, 3.0))
    assert [part.key.name for part in found] == ["load", "preprocess", "vision", "prefill", "decode", "unattributed"]
    load = found[0]
    assert (load.key.role, load.mean_ms, load.spread_ms) == ("target", 30.0, (20.0, 40.0))
    assert [load.at(percent) for percent in (5, 50, 95)] == [(10.0, 2), (30.0, 5), (50.0, 1)]


@pytest.mark.parametrize(
    ("scales", "spread", "ends"), [((1.0, 3.0), "range", [10.0, 30.0]), ((2.0,), "range", [20.0, 20.0])]
)
def test_few_runs_show_their_range(
    script, plain_writer, scales: tuple[float, ...], spread: str, ends: list[float]
) -> None:
    load = mean_parts(_runs(script, plain_writer, *scales))[0].to_json()
    assert (load["spread"], load["spread_ms"], load["runs"]) == (spread, ends, len(scales))


def test_draft_and_target_are_apart_and_rounds_are_parts_of_decode(speculative_run: RunLog) -> None:
    found = {part.key: part for part in mean_parts([speculative_run])}
    assert {key.role for key in found} == {"draft", "target", ""}
    assert PartKey("draft", "load") in found
    rounds = speculative_run.rounds
    for name in ("draft", "verify", "rollback"):
        total = sum(getattr(entry, f"{name}_ns") for entry in rounds) / 1e6
        assert found[PartKey("target", name, "decode")].mean_ms == pytest.approx(total)


def test_the_document_has_an_entry_for_each_configuration(plain_run: RunLog, speculative_run: RunLog) -> None:
    entries = parts_document([plain_run, speculative_run])
    assert [entry["run_ids"] for entry in entries] == [[1], [2]]
    assert entries[0]["parts"][-1]["role"] is None
