"""The block `speculation` of a run's JSON, and what it is weighed against."""

from __future__ import annotations

from dataclasses import replace

from evprof.core.run_info import SpeculationFacts
from evprof.metrics.document import run_document, session_document
from evprof.metrics.speculation.verdicts import speculation_document


def test_a_session_weighs_its_runs_against_each_other(script, plain_writer, speculative_writer) -> None:
    plain = plain_writer(script(1))
    run, *repeats = [speculative_writer(script(number, mode="speculative")) for number in (2, 3, 4)]
    alone = run_document(run)["speculation"]
    assert alone["prediction"] is None
    found = session_document([plain, run, *repeats])["runs"][1]["speculation"]
    assert found["prediction"]["step_ms"] == 30
    assert (found["prediction"]["rounds"], found["prediction"]["rounds_left_out"]) == (12, 0)
    assert set(found["prediction"]["measured"]) == {"decode", "without-load", "end-to-end"}
    assert found["prediction"]["measured"]["decode"]["ci95"] is None
    assert len(found["prediction"]["curve"]) == 12
    # Only this command's runs are listed, but all of the session are known.
    known = session_document([run], others=[plain, run, *repeats])["runs"]
    assert len(known) == 1
    assert known[0]["speculation"] == found
    run.info.sample = replace(run.info.sample, name="another")
    assert session_document([plain, run, *repeats])["runs"][1]["speculation"]["prediction"] is None


def test_an_adapted_cache_has_a_block_of_its_own(plain_run) -> None:
    assert speculation_document(plain_run) is None
    plain_run.info.mode = "kv-adapted"
    plain_run.info.speculation = SpeculationFacts("map", "kv", adapter="kv-map", is_lossless=False)
    found = speculation_document(plain_run)
    assert (found["is_lossless"], found["rounds"], found["kind"]) == (False, 0, "kv")
    assert found["sentence"].startswith("Lossy")
