"""Parallel prefill on a GPU: a stream for the draft, copies between devices, the answer of a plain run."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch

from engines.engine import LocalEngine
from evprof.core.recording import RecordLog
from evprof.core.request import RunRequest
from evprof.core.run_log import RunLog
from evprof.core.vocabulary.generation import GenerationSettings, ModelChoice
from evprof.core.vocabulary.speculation import SpeculationSettings
from evprof.core.vocabulary.switches import Switches
from evprof.metrics.figures.stages import unattributed_ms
from run_logs import saved_runs

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


@pytest.fixture(scope="module")
def models(make_model: Callable[..., Any]) -> dict[tuple[str, str], Any]:
    return {
        (role, device): make_model(family, device=device)
        for role, family in (("draft", "eventgpt"), ("target", "video_llava"))
        for device in ("cpu", "cuda:0")
        if (role, device) != ("target", "cpu")
    }


def carry_out(
    models: Any, sample: Any, mode: str, *, drafts_on: str = "cuda:0", step: str = "auto", **asked: Any
) -> RunLog:
    """The second of two runs: what is captured or set aside late is there by then."""

    def load(choice: ModelChoice, role: str, progress: Any, stop: Any) -> Any:
        return models[role, choice.device]

    engine = LocalEngine(loader=load, make_room=lambda *_: None)
    recording = RecordLog()
    request = RunRequest(
        mode,
        sample,
        ModelChoice("tiny-draft", device=drafts_on),
        ModelChoice("tiny-target", device="cuda:0"),
        GenerationSettings(
            max_new_tokens=16,
            switches=Switches(step=step),
            speculation=SpeculationSettings(**asked),
        ),
        warmup=1,
    )
    engine.run(request, recording, threading.Event())
    engine.close()
    run = saved_runs(recording)[-1]
    assert (run.info.status, run.info.error) == ("finished", None)
    return run


@pytest.mark.parametrize("step", ["eager", "auto"])
@pytest.mark.parametrize("verify", ["after", "last-chunk"])
@pytest.mark.parametrize("afterwards", ["plain", "rounds"])
@pytest.mark.parametrize("hidden", [None, 0, 1, 6])
def test_one_gpu_has_a_stream_for_each(
    models: Any, sample: Any, *, step: str, verify: str, afterwards: str, hidden: int | None
) -> None:
    plain = carry_out(models, sample, "target", step=step)
    run = carry_out(models, sample, "parallel-prefill", step=step, verify=verify, afterwards=afterwards, hidden=hidden)
    assert [token.token_id for token in run.tokens] == [token.token_id for token in plain.tokens]
    assert run.info.speculation.concurrency == "streams"
    assert run.info.speculation.draft_threads is None
    assert all(span.is_settled for span in run.spans.values())
    assert unattributed_ms(run) >= 0
    if hidden is not None:
        assert [entry.drafted for entry in run.rounds if entry.hidden] == ([hidden] if hidden else [])


@pytest.mark.parametrize("verify", ["after", "last-chunk"])
def test_drafts_cross_from_device_to_device(models: Any, sample: Any, verify: str) -> None:
    plain = carry_out(models, sample, "target")
    run = carry_out(models, sample, "parallel-prefill", drafts_on="cpu", hidden=6, verify=verify)
    assert [token.token_id for token in run.tokens] == [token.token_id for token in plain.tokens]
    facts = run.info.speculation
    assert (facts.concurrency, facts.draft_threads) == ("devices", None)
    # A wrong first token is seen without sending anything.
    (block,) = run.rounds
    if verify == "last-chunk" or block.accepted:
        assert facts.transfer_bytes == 6 * 8
        assert facts.transfer_ms > 0
