"""The block `speculation` of a run's JSON, and what it is weighed against."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from evprof.core.run_info import SpeculationFacts
from evprof.metrics.document import run_document, session_document
from evprof.metrics.speculation.verdicts import speculation_document

KEYS = {
    *("drafter", "kind", "adapter", "alignment", "shared_ids", "draft_ids", "target_ids", "is_lossless", "length"),
    *("tree", "concurrency", "draft_threads", "target_threads", "rounds", "drafted", "accepted", "bonus", "emitted"),
    *("draft_acceptance_rate", "mean_acceptance_length", "accepted_per_position", "hidden_drafted", "hidden_accepted"),
    *("per_round", "definitions", "per_position", "histogram", "failures", "window", "prediction", "expected"),
    "sentence",
}


def test_all_keys_are_there_without_anything_to_weigh_against(speculative_run) -> None:
    found = speculation_document(speculative_run)
    assert found is not None
    assert set(found) == KEYS
    assert (found["drafter"], found["kind"]) == ("drafter", None)
    assert (found["window"], found["prediction"], found["expected"]) == (None, None, [])
    assert found["histogram"] == {"0": 1, "1": 1, "2": 1, "3": 1}
    assert sum(found["failures"]["counts"].values()) == len(found["failures"]["list"]) == 2
    assert "Run the target alone" in found["sentence"]
    json.dumps(found, allow_nan=False)


def test_a_session_weighs_its_runs_against_each_other(script, plain_writer, speculative_writer) -> None:
    plain, run = plain_writer(script(1)), speculative_writer(script(2, mode="speculative"))
    alone = run_document(run)["speculation"]
    assert alone["prediction"] is None
    found = session_document([plain, run])["runs"][1]["speculation"]
    assert found["prediction"]["step_ms"] == 30
    assert found["prediction"]["predicted"] == pytest.approx(2.75 * 30 / 20)
    assert set(found["prediction"]["measured"]) == {"decode", "without-load", "end-to-end"}
    assert found["prediction"]["measured"]["decode"]["ci95"] is None
    assert [row["tokens"] for row in found["expected"]] == [5, 20, 50, 100]
    assert len(found["prediction"]["curve"]) == 12
    # Only this command's runs are listed, but all of the session are known.
    known = session_document([run], others=[plain, run])["runs"]
    assert len(known) == 1
    assert known[0]["speculation"] == found
    run.info.sample = replace(run.info.sample, name="another")
    assert session_document([plain, run])["runs"][1]["speculation"]["prediction"] is None


def test_an_adapted_cache_has_a_block_of_its_own(plain_run) -> None:
    assert speculation_document(plain_run) is None
    plain_run.info.mode = "kv-adapted"
    plain_run.info.speculation = SpeculationFacts("map", "kv", adapter="kv-map", is_lossless=False)
    found = speculation_document(plain_run)
    assert found is not None
    assert (found["is_lossless"], found["rounds"], found["kind"]) == (False, 0, "kv")
    assert found["sentence"].startswith("Lossy")
