"""The overhead measurement: it finds a cost that is there, none where there is none, and prints the promised keys."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
import torch

from engines.bench import overhead
from engines.bench.overhead import Turn, measure_overhead, median_interval, summarise
from engines.loading.shapes import LANGUAGE_SHAPES
from engines.tokens.answer import Answer
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


def test_a_cost_that_is_there_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    add = Answer.add

    def slow(self: Answer, *words: Any) -> None:
        end = time.perf_counter() + 0.01
        while time.perf_counter() < end:
            pass
        add(self, *words)

    monkeypatch.setattr(Answer, "add", slow)
    summary = measure_overhead("tiny", 20)["summary"]
    assert summary["instrumented_vs_off"] > 1.3
    assert summary["a_vs_a"] < summary["instrumented_vs_off"]


def test_ratios_are_medians_of_pairs() -> None:
    pairs = ((101, 99), (103, 100), (250, 101), (102, 100), (102, 100))
    summary = summarise([Turn(on, 100.0, again, 1.5 * on) for on, again in pairs])
    assert summary["alternatives_vs_instrumented"] == pytest.approx(1.5)
    assert summary["instrumented_vs_off"] == pytest.approx(1.02)
    assert summary["a_vs_a"] == pytest.approx(1.0)
    assert summary["off_ms_per_token"] == pytest.approx(1e-4)


def test_the_bootstrap_covers_the_median_as_often_as_it_says() -> None:
    drawn = np.random.default_rng(1)
    covered = 0
    for _ in range(60):
        low, high = median_interval(drawn.normal(1.0, 0.1, 80))
        covered += low <= 1.0 <= high
    assert covered >= 50


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


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_on_a_gpu_the_step_is_captured_and_spans_have_device_times() -> None:
    summary = measure_overhead("tiny", 4, device="cuda:0")["summary"]
    assert (summary["device"], summary["tokens_per_pair"]) == ("cuda:0", 192)
    assert summary["step"] != "eager"
    assert summary["a_vs_a"] > 0
    assert summary["instrumented_vs_off"] > 0


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a CUDA device")
def test_a_device_that_is_not_there_is_told() -> None:
    with pytest.raises(UserError, match="cuda"):
        measure_overhead("tiny", 2, device="cuda:0")


def test_wrong_words_are_told() -> None:
    with pytest.raises(UserError, match="dispatch-32"):
        measure_overhead("giant", 10)
    with pytest.raises(UserError, match="--pairs"):
        measure_overhead("tiny", 1)


def test_the_worst_case_has_the_calls_of_a_7b_model() -> None:
    assert LANGUAGE_SHAPES["dispatch-32"]["num_hidden_layers"] == 32
