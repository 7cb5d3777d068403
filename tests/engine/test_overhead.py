"""The overhead measurement: it finds a cost that is there, none where there is none, and prints the promised keys."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from engines.bench import overhead
from engines.bench.overhead import measure_overhead
from evprof.core.errors import UserError

KEYS = {
    *("instrumented_vs_off", "instrumented_vs_off_ci95_high", "a_vs_a"),
    *(
        "alternatives_vs_instrumented",
        "alternatives_vs_instrumented_ci95_low",
        "alternatives_vs_instrumented_ci95_high",
    ),
}


def test_summary_and_rows_hold_what_is_promised() -> None:
    notes: list[str] = []
    threads = torch.get_num_threads()
    found = measure_overhead("tiny", 51, notes.append)
    assert set(found) == {"environment", "rows", "summary"}
    assert set(found["summary"]) >= KEYS
    assert found["summary"]["instrumented_vs_off"] <= found["summary"]["instrumented_vs_off_ci95_high"]
    assert len(found["rows"]) == found["summary"]["pairs"] == 51
    assert all(row["on_us"] > 0 and row["off_us"] > 0 and row["off_again_us"] > 0 for row in found["rows"])
    assert len(notes) == 1
    assert torch.get_num_threads() == threads
    where = {key: found["summary"][key] for key in ("device", "step", "tokens_per_pair")}
    assert where == {"device": "cpu", "step": "eager", "tokens_per_pair": 24}


def test_all_three_make_the_same_answer_at_the_same_positions(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int, tuple[int, ...]]] = []
    end = overhead._Running.time_per_token

    def look(self: Any) -> float:
        seen.append((self._cached.length, tuple(self._answer.ids)))
        return end(self)

    monkeypatch.setattr(overhead._Running, "time_per_token", look)
    measure_overhead("tiny", 2)
    assert len(set(seen[:4])) == len(set(seen[4:8])) == 1
    assert len(seen[0][1]) == 1 + 4 * 6


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a CUDA device")
def test_a_device_that_is_not_there_is_told() -> None:
    with pytest.raises(UserError, match="cuda"):
        measure_overhead("tiny", 2, device="cuda:0")


def test_wrong_words_are_told() -> None:
    with pytest.raises(UserError, match="dispatch-32"):
        measure_overhead("giant", 10)
    with pytest.raises(UserError, match="--pairs"):
        measure_overhead("tiny", 1)
