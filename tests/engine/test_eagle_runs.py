"""The head in whole runs, the one that comes along on the bundled samples, and both on CUDA where there is one."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from engines.adapters.eagle import EagleHead, EagleShape
from engines.adapters.folder import save_adapter
from engines.decoder.decoding import Limits
from engines.decoder.llama import LlamaDecoder
from engines.drafters.eagle_drafter import EagleDrafter
from evprof.core.recording import RecordLog
from evprof.core.records import RoundRecord
from evprof.core.request import RunRequest
from evprof.core.run_book import RunBook
from evprof.core.run_log import RunLog
from evprof.core.vocabulary.generation import GenerationSettings, ModelChoice
from evprof.core.vocabulary.speculation import SpeculationSettings
from evprof.loaders.adapters import AdapterInfo


def carry_out(engine: Any, request: RunRequest) -> RunLog:
    recording = RecordLog()
    engine.run(request, recording, threading.Event())
    book = RunBook(recording)
    book.update()
    (run,) = book.runs.values()
    return run


@pytest.fixture
def adapter(engine: Any, tmp_path: Path) -> str:
    """An untaught head for the tests' target."""
    shape = EagleShape(32, 2, 1, 16, 64, window=8)
    torch.manual_seed(0)
    info = AdapterInfo(
        tmp_path / "head", "eagle", "test-head", "tiny-target", hidden_size=32, vocabulary=32_003, config=shape.config()
    )
    return str(save_adapter(info, EagleHead(shape).state_dict(), "# A head\n").folder)


def request_for(sample: Any, adapter: str, tree: str = "", mode: str = "speculative", **more: Any) -> RunRequest:
    speculation = SpeculationSettings(drafter="eagle", adapter=adapter, tree=tree)
    if mode == "target":
        speculation = SpeculationSettings()
    settings = GenerationSettings(max_new_tokens=12, speculation=speculation, **more)
    return RunRequest(mode, sample, None, ModelChoice("tiny-target"), settings)


@pytest.mark.parametrize("tree", ["", "3,2,2,1,1,1"])
def test_a_run_says_who_drafted_and_says_what_the_target_says(
    engine: Any, sample: Any, adapter: str, tree: str
) -> None:
    plain = carry_out(engine, request_for(sample, adapter, mode="target"))
    run = carry_out(engine, request_for(sample, adapter, tree))
    assert run.info.error is None
    kept = [token.token_id for token in run.tokens if token.origin != "rejected"]
    assert kept == [token.token_id for token in plain.tokens]
    facts = run.info.speculation
    assert facts is not None
    assert (facts.kind, facts.drafter, facts.adapter, facts.tree) == ("eagle", "test-head", "test-head", tree)
    assert facts.is_lossless
    assert list(run.info.models) == ["target"]
    parts = run.children(run.stage("decode", "target").span_id)
    assert {span.name for span in parts} == {"prepare draft", "draft", "verify"}
    assert run.judgements
    # A whole tree, although gamma is 5: its levels are how far it drafts.
    assert run.rounds[0].drafted == (5 if not tree else 3 + 6 + 12 + 12 + 12 + 12)


def test_an_adapter_for_other_sizes_fails_the_run_in_a_sentence(engine: Any, sample: Any, adapter: str) -> None:
    path = Path(adapter) / "adapter.json"
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | {"hidden_size": 64}), "utf-8")
    run = carry_out(engine, request_for(sample, adapter))
    assert run.info.status == "failed"
    assert run.info.error is not None
    assert "hidden size 64" in run.info.error


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("widths", [(), (4, 3, 2)])
@pytest.mark.usefixtures("without_gradients")
def test_drafting_in_half_precision_runs(
    make_llama: Any, sink: Any, played_rounds: ModuleType, device: str, widths: tuple[int, ...]
) -> None:
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("no CUDA device here")
    model = make_llama(1, vocabulary=60).to(device, torch.bfloat16)
    decoder = LlamaDecoder.take_over(model)
    shape = EagleShape.like(decoder.config, window=4)
    head = EagleHead(shape, device=decoder.device, dtype=torch.bfloat16).requires_grad_(False)
    one = played_rounds.cached(decoder)
    done = played_rounds.play(
        one,
        EagleDrafter("head", head, one, frozenset(), widths=widths),
        played_rounds.prompt_of(1, 9, 60).to(device),
        Limits(20),
        sink,
        gamma=3,
    )
    assert len(done.ids) == 20
    assert sum(record.emitted for record in sink.of(RoundRecord)) == 19
