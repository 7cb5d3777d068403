"""Mode kv-adapted: an answer over a mapped cache, marked as lossy, reproducible, made without the target's input."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from closeness import assert_close
from engines.adapters.folder import save_adapter
from engines.adapters.hidden_states import KvMap, KvSizes, TappedDecoder, load_kv_map
from engines.decoder.kv_cache import DynamicKv
from engines.decoder.llama import LlamaDecoder
from evprof.core.errors import UserError
from evprof.core.messages import RunDescribed, RunEnded, RunWarned
from evprof.core.records import BEGIN, SpanRecord, TokenRecord
from evprof.core.request import RunRequest
from evprof.core.vocabulary.drafters import KV
from evprof.core.vocabulary.generation import GenerationSettings, ModelChoice
from evprof.core.vocabulary.modes import KV_ADAPTED
from evprof.core.vocabulary.speculation import SpeculationSettings
from evprof.loaders.adapters import AdapterInfo, read_adapter

NEVER = threading.Event()


def info_for(folder: Path, draft: LlamaDecoder, target: LlamaDecoder, sizes: KvSizes, **changes: Any) -> AdapterInfo:
    info = AdapterInfo(
        folder,
        KV,
        "a-map",
        "the-target",
        "the-draft",
        target.config.hidden_size,
        draft.config.hidden_size,
        target.rows,
        sizes.config(),
        evaluation={"agreement": 0.25},
    )
    return replace(info, **changes)


def saved_map(folder: Path, draft: LlamaDecoder, target: LlamaDecoder, seed: int = 3) -> AdapterInfo:
    """A map with random weights."""
    torch.manual_seed(seed)
    sizes = KvSizes.between(draft, target, 5)
    made = KvMap(sizes)
    for weight in made.parameters():
        torch.nn.init.normal_(weight, std=0.3)
    return save_adapter(info_for(folder, draft, target, sizes), made.state_dict(), "# A map\n")


def tiny_request(tiny_models: Any, sample: Any, adapter: str, **changes: Any) -> RunRequest:
    return RunRequest(
        KV_ADAPTED,
        replace(sample, video_path=None),
        ModelChoice("d", "cpu"),
        ModelChoice("t", "cpu"),
        GenerationSettings(max_new_tokens=12, ignore_eos=True, speculation=SpeculationSettings(adapter=adapter)),
        **changes,
    )


def decoders(tiny_models: Any) -> tuple[LlamaDecoder, LlamaDecoder]:
    draft, target = (tiny_models(None, role, lambda *_: None, NEVER) for role in ("draft", "target"))
    return draft.language_model, target.language_model


def test_a_run_is_lossy_everywhere_it_appears_and_needs_no_video(
    engine: Any, tiny_models: Any, sample: Any, sink: Any, tmp_path: Path
) -> None:
    saved_map(tmp_path / "map", *decoders(tiny_models))
    engine.run(tiny_request(tiny_models, sample, str(tmp_path / "map"), repeat=2), sink, NEVER)
    ended = [message for message in sink.messages if isinstance(message, RunEnded)]
    assert [message.status for message in ended] == ["finished", "finished"]
    tokens = [record for record in sink.of(TokenRecord) if record.run_id == 1]
    assert len(tokens) == 12
    assert {record.origin for record in tokens} == {"draft"}
    again = [record.token_id for record in sink.of(TokenRecord) if record.run_id == 2]
    assert again == [record.token_id for record in tokens]
    facts = [message.facts["speculation"] for message in sink.messages if _describes(message, "speculation")]
    assert [(fact.kind, fact.adapter, fact.is_lossless) for fact in facts] == [(KV, "a-map", False)] * 2
    said = [message.sentence for message in sink.messages if isinstance(message, RunWarned)]
    assert any("KV adaptation is lossy" in sentence and "25.0 %" in sentence for sentence in said)


def test_stages_are_the_draft_s_four_and_the_target_s_text(
    engine: Any, tiny_models: Any, sample: Any, sink: Any, tmp_path: Path
) -> None:
    saved_map(tmp_path / "map", *decoders(tiny_models))
    engine.run(tiny_request(tiny_models, sample, str(tmp_path / "map")), sink, NEVER)
    begun = [record for record in sink.of(SpanRecord) if record.phase == BEGIN]
    stages = [(record.role, record.name) for record in begun if record.parent_id == -1]
    assert stages == [
        ("draft", "load"),
        ("draft", "preprocess"),
        ("draft", "vision"),
        ("draft", "prefill"),
        ("target", "preprocess"),
        ("target", "prefill"),
        ("target", "decode"),
    ]
    assert ("target", "map cache") in [(record.role, record.name) for record in begun]
    lengths = [message.facts["lengths"] for message in sink.messages if _describes(message, "lengths")]
    told = {role: fact for one in lengths for role, fact in one.items()}
    assert told["target"].visual == told["draft"].visual > 0


def _describes(message: Any, name: str) -> bool:
    return isinstance(message, RunDescribed) and name in message.facts


@pytest.mark.usefixtures("without_gradients")
def test_the_true_layer_inputs_make_the_true_cache(make_llama: Any) -> None:
    """Filled with what really enters each layer, the cache is the prefill's, and so is what follows."""
    decoder = LlamaDecoder.take_over(make_llama(2, layers=3))
    prompt = decoder.embed(torch.arange(20)[None])
    tapped = TappedDecoder(decoder)
    whole, parts = DynamicKv(3), DynamicKv(3)
    expected = decoder.head(tapped.trunk(prompt, whole))
    decoder.trunk(prompt[:, :4], parts)
    KvMap.fill([level[:, 4:15] for level in tapped.levels[:-1]], decoder, parts)
    found = decoder.head(decoder.trunk(prompt[:, 15:], parts))
    assert parts.length == 20
    assert_close(found, expected[:, 15:])
    for layer in range(3):
        for made, true in zip(parts.tensors(layer), whole.tensors(layer), strict=True):
            assert_close(made, true)


def test_a_saved_map_comes_back_the_same(make_llama: Any, tmp_path: Path) -> None:
    draft = LlamaDecoder.take_over(make_llama(1, layers=2, hidden=32))
    target = LlamaDecoder.take_over(make_llama(2, layers=5, hidden=64))
    saved_map(tmp_path / "m", draft, target)
    info = read_adapter(str(tmp_path / "m"))
    once, twice = (load_kv_map(info, draft, target).state_dict() for _ in range(2))
    assert once.keys() == twice.keys()
    assert all(torch.equal(once[name], twice[name]) for name in once)
    assert load_kv_map(info, draft, target).sizes == KvSizes.between(draft, target, 5)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"kind": "eagle"}, "of kind eagle; mode kv-adapted needs one of kind kv"),
        ({"hidden_size": 63}, "hidden size 63"),
        ({"draft_hidden_size": 31}, "hidden size 31"),
        ({"config": {"levels": [[0]], "bottleneck": 5}}, "levels of the draft from 0 to 2"),
        ({"config": {"levels": [[0]] * 4 + [[3]], "bottleneck": 5}}, "levels of the draft from 0 to 2"),
        ({"config": {"levels": [[0]] * 4 + [[True]], "bottleneck": 5}}, "levels of the draft from 0 to 2"),
        ({"config": {"levels": [[0]] * 5, "bottleneck": 0}}, "config.bottleneck"),
        ({"config": {"levels": [[0]] * 5, "bottleneck": 1 << 19}}, "is needed"),
    ],
)
def test_what_does_not_fit_is_refused(make_llama: Any, tmp_path: Path, changes: Any, said: str) -> None:
    draft = LlamaDecoder.take_over(make_llama(1, layers=2, hidden=32))
    target = LlamaDecoder.take_over(make_llama(2, layers=5, hidden=64))
    good = saved_map(tmp_path / "m", draft, target)
    with pytest.raises(UserError, match=said):
        load_kv_map(replace(good, **changes), draft, target)


def test_a_missing_map_or_recording_is_told_before_anything_runs(sample: Any, tiny_models: Any) -> None:
    request = tiny_request(tiny_models, sample, "somewhere")
    with pytest.raises(UserError, match="needs an event recording"):
        replace(request, sample=replace(sample, events_path=None)).validate()
    with pytest.raises(UserError, match="needs a trained map"):
        replace(request, settings=GenerationSettings()).validate()
