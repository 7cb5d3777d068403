"""Runs in mode parallel-prefill as the engine makes them: both models' stages, what is told, and every way to end."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from engines.tokens.vocabulary_alignment import Alignment
from evprof.core.errors import UserError
from evprof.core.recording import RecordLog
from evprof.core.records import STAGES
from evprof.core.request import RunRequest
from evprof.core.run_book import RunBook
from evprof.core.run_log import RunLog
from evprof.core.vocabulary.generation import GenerationSettings, ModelChoice
from evprof.core.vocabulary.speculation import SpeculationSettings
from evprof.metrics.figures.stages import unattributed_ms, wall_ms

DRAFT, TARGET = ModelChoice("tiny-draft"), ModelChoice("tiny-target")


def request_for(sample: Any, mode: str = "parallel-prefill", count: int = 12, **asked: Any) -> RunRequest:
    speculation = SpeculationSettings(**asked)
    return RunRequest(mode, sample, DRAFT, TARGET, GenerationSettings(max_new_tokens=count, speculation=speculation))


def carry_out(engine: Any, request: RunRequest, stop: Any = None) -> RunLog:
    recording = RecordLog()
    engine.run(request, recording, stop or threading.Event())
    book = RunBook(recording)
    book.update()
    (run,) = book.runs.values()
    return run


def ids_of(run: RunLog) -> list[int]:
    return [token.token_id for token in run.tokens]


@pytest.fixture
def plain(engine: Any, sample: Any) -> list[int]:
    return ids_of(carry_out(engine, request_for(sample, "target")))


@pytest.mark.parametrize("begins", ["load", "prefill"])
def test_both_models_go_through_their_stages_in_one_run(
    engine: Any, sample: Any, plain: list[int], begins: str
) -> None:
    run = carry_out(engine, request_for(sample, hidden=4, begins=begins))
    info = run.info
    assert (info.status, info.error, info.mode, info.role) == ("finished", None, "parallel-prefill", "target")
    assert ids_of(run) == plain
    for role in ("draft", "target"):
        assert [span.name for span in run.stages(role)] == list(STAGES)
        assert info.lengths[role].input > 0
        assert run.frames[role]
        assert info.kv[role].measured_bytes > 0
    assert all(span.is_settled for span in run.spans.values())
    assert all(span.parent_id < 0 or run.spans[span.parent_id].role == span.role for span in run.spans.values())
    zero = run.stage("load", "target").start_ns
    assert info.start_ns == zero == min(span.start_ns for span in run.stages())
    prefill = run.stage("prefill", "target")
    drafting = run.stage("load", "draft")
    if begins == "load":
        assert zero < drafting.start_ns < run.stage("load", "target").end_ns
        assert info.loading["draft"].bytes_from_disk is info.loading["target"].bytes_from_disk is None
    else:
        assert prefill.start_ns < drafting.start_ns
    (block,) = run.rounds
    assert (block.drafted, block.hidden) == (4, 1)
    assert block.start_ns == run.stage("decode", "draft").start_ns
    assert 0 <= unattributed_ms(run) < wall_ms(run)
    facts = info.speculation
    assert (facts.kind, facts.concurrency, facts.draft_threads, facts.target_threads) == ("model", "threads", 1, 1)
    assert facts.transfer_bytes is None
    assert facts.is_lossless
    assert set(info.memory.by_stage) == set(STAGES)
    assert [record.round_index for record in run.judgements] == [0] * len(run.judgements)
    assert run.judgements


@pytest.mark.parametrize("hidden", [None, 0, 1, 5, 40])
@pytest.mark.parametrize("verify", ["after", "last-chunk"])
@pytest.mark.parametrize("afterwards", ["plain", "rounds"])
def test_answers_are_the_targets_own(
    engine: Any, sample: Any, plain: list[int], *, hidden: int | None, verify: str, afterwards: str
) -> None:
    run = carry_out(engine, request_for(sample, hidden=hidden, verify=verify, afterwards=afterwards))
    assert run.info.status == "finished"
    assert ids_of(run) == plain
    hidden_rounds = [entry for entry in run.rounds if entry.hidden]
    if hidden is not None:
        assert [entry.drafted for entry in hidden_rounds] == ([min(hidden, 11)] if hidden else [])
    lengths = run.info.lengths["target"].input
    assert run.kv["target"][-1].length == lengths + len(plain) - 1


def assert_both_ended(run: RunLog) -> None:
    assert all(span.end_ns is not None for span in run.spans.values())
    assert run.info.end_ns is not None


@pytest.mark.parametrize("asked", [{}, {"begins": "prefill"}, {"hidden": 5}, {"verify": "last-chunk"}])
def test_a_draft_that_cannot_read_its_input_fails_the_run(engine: Any, sample: Any, asked: dict[str, Any]) -> None:
    # A window that is forced waits for the draft; without one the answer may be there before the file was looked for.
    missing = replace(sample, events_path=str(Path(sample.events_path).with_name("nothing.npy")))
    run = carry_out(engine, request_for(missing, **{"hidden": 3, **asked}))
    assert run.info.status == "failed"
    assert "nothing.npy" in run.info.error
    assert_both_ended(run)


def test_a_target_that_cannot_read_its_input_fails_the_run(engine: Any, sample: Any) -> None:
    missing = replace(sample, video_path=str(Path(sample.video_path).with_name("nothing.mp4")))
    run = carry_out(engine, request_for(missing))
    assert run.info.status == "failed"
    assert "nothing.mp4" in run.info.error
    assert_both_ended(run)
    assert ids_of(carry_out(engine, request_for(sample, hidden=2)))


def test_memory_that_runs_out_in_the_draft_fails_the_run(
    engine: Any, sample: Any, tiny_models: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from engines.families.eventgpt import EventLanguageModel

    def full(*_: Any) -> Any:
        raise torch.OutOfMemoryError("no more")

    monkeypatch.setattr(EventLanguageModel, "encode_vision", full)
    run = carry_out(engine, request_for(sample, hidden=3))
    assert run.info.status == "failed"
    assert run.info.error.startswith("Memory ran out on cpu")
    assert_both_ended(run)


@pytest.mark.parametrize("asked", [{}, {"hidden": 8}, {"afterwards": "rounds"}, {"verify": "last-chunk", "hidden": 8}])
def test_stop_ends_both_models(
    engine: Any, sample: Any, plain: list[int], stop_after: Any, asked: dict[str, Any]
) -> None:
    seen = set()
    for count in (3, 6, 9, 12, 15, 18):
        run = carry_out(engine, request_for(sample, **asked), stop_after(count))
        seen.add(run.info.status)
        assert ids_of(run) == plain[: len(run.tokens)]
        assert_both_ended(run)
    assert "cancelled" in seen


@pytest.mark.parametrize("attention", ["flash", "cudnn"])
def test_kernels_are_not_restricted_for_two_threads(attention: str, engine: Any, sample: Any) -> None:
    request = request_for(sample)
    switches = replace(request.settings.switches, attention=attention)
    run = carry_out(engine, replace(request, settings=replace(request.settings, switches=switches)))
    assert run.info.status == "failed"
    assert "--attention" in run.info.error


def test_pairs_that_share_no_ids_are_refused(engine: Any, sample: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Alignment, "kind", "re-encoded")
    run = carry_out(engine, request_for(sample))
    assert run.info.status == "failed"
    assert "--mode speculative" in run.info.error
    assert_both_ended(run)


def test_drafters_without_a_model_are_refused(engine: Any, sample: Any) -> None:
    with pytest.raises(UserError, match="Parallel prefill drafts with the draft model"):
        carry_out(engine, request_for(sample, drafter="lookup"))
