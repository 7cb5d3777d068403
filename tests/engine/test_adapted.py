"""Adapters from hidden states, KV maps and LoRA: drafts stay lossless, folders come back, misfits are refused."""

from __future__ import annotations

import copy
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import played_rounds as kit
from closeness import assert_close, is_close
from engines.adapters.folder import save_adapter
from engines.adapters.hidden_states import (
    AdaptedDecoder,
    HiddenAdapter,
    HiddenSizes,
    KvMap,
    KvSizes,
    TappedDecoder,
    load_hidden,
    load_kv_map,
)
from engines.adapters.lora import load_lora, lora_shapes, merge, projections
from engines.decoder.decoding import CachedModel, Limits
from engines.decoder.kv_cache import DynamicKv
from engines.decoder.llama import LlamaDecoder
from engines.drafters.model_drafter import HiddenDrafter
from engines.loading.weights import load_model
from engines.tokens.vocabulary_alignment import Alignment, first_shared
from engines.training.trainees import LoraTrainee
from evprof.core.errors import UserError
from evprof.core.protocols import RunDescribed, RunEnded, RunWarned
from evprof.core.records import BEGIN, RoundRecord, SpanRecord, TokenRecord
from evprof.core.request import RunRequest
from evprof.core.vocabulary.drafters import HIDDEN, KV, LORA
from evprof.core.vocabulary.generation import GenerationSettings, ModelChoice
from evprof.core.vocabulary.modes import KV_ADAPTED, PARALLEL_PREFILL, SPECULATIVE
from evprof.core.vocabulary.speculation import SpeculationSettings
from evprof.loaders.adapters import AdapterInfo, read_adapter

NEVER = threading.Event()
PIECES = [f"<{index}>" for index in range(300)]
SIZES = HiddenSizes(32, 64, 24, 2, 8)
TARGET_ROWS, DRAFT_ROWS = 257, 250


@pytest.fixture(scope="module")
def pair(make_llama: Any) -> SimpleNamespace:
    draft = LlamaDecoder.take_over(make_llama(1, hidden=32, vocabulary=DRAFT_ROWS))
    target = LlamaDecoder.take_over(make_llama(2, layers=3, hidden=64, vocabulary=TARGET_ROWS))
    return SimpleNamespace(draft=draft, target=target)


def adapter(seed: int = 0, sizes: HiddenSizes = SIZES, std: float = 0.3) -> HiddenAdapter:
    """With random weights everywhere."""
    torch.manual_seed(seed)
    made = HiddenAdapter(sizes).requires_grad_(False)
    for weight in made.parameters():
        torch.nn.init.normal_(weight, std=std)
    return made


def visual(seed: int = 5) -> torch.Tensor:
    return torch.randn(6, 64, generator=torch.Generator().manual_seed(seed))


def drafter_of(pair: SimpleNamespace, made: HiddenAdapter, alignment: Alignment | None = None) -> HiddenDrafter:
    cached = CachedModel.over(pair.draft, "draft")
    decoder = AdaptedDecoder(pair.draft, pair.target, made)
    drafter = HiddenDrafter(
        "a draft", cached, decoder, alignment or first_shared(DRAFT_ROWS), frozenset(), target_rows=TARGET_ROWS
    )
    cached.prefill(pair.draft.embed(torch.arange(7)[None]), NEVER)
    return drafter


@pytest.mark.usefixtures("without_gradients")
@pytest.mark.parametrize("heads", [0, 2])
def test_rounds_stay_lossless_with_an_untrained_adapter(pair: SimpleNamespace, sink, heads: int) -> None:
    for seed in range(8):
        prompt = kit.prompt_of(seed, 9, DRAFT_ROWS)
        drafter = drafter_of(pair, adapter(seed, replace(SIZES, heads=heads)))
        drafter.see(visual())
        played = kit.play(kit.cached(pair.target), drafter, prompt, Limits(32), sink, gamma=3)
        assert played.ids == kit.plain(pair.target, prompt, Limits(32), sink)
        assert drafter.model.length == drafter.model.prompt_length + 31


@pytest.mark.usefixtures("without_gradients")
def test_what_the_target_sees_changes_what_is_drafted(pair: SimpleNamespace) -> None:
    decoder = AdaptedDecoder(pair.draft, pair.target, adapter())
    hidden = torch.randn(1, 4, 32)
    blind = decoder.head(hidden)
    decoder.look(visual(1))
    first = decoder.head(hidden)
    decoder.look(visual(2))
    second = decoder.head(hidden)
    assert not is_close(blind, first)
    assert not is_close(first, second)
    without = AdaptedDecoder(pair.draft, pair.target, adapter(sizes=replace(SIZES, heads=0)))
    before = without.head(hidden)
    without.look(visual(1))
    assert_close(without.head(hidden), before)


@pytest.mark.usefixtures("without_gradients")
def test_only_ids_the_draft_can_be_fed_are_proposed(pair: SimpleNamespace) -> None:
    """Of a prefix the first ones; of tables those that meet one of the draft's."""
    drafter = drafter_of(pair, adapter())
    assert drafter.heard(torch.zeros(1, TARGET_ROWS)).shape == (1, DRAFT_ROWS)
    to_draft = [0] * TARGET_ROWS
    to_target = [-1] * DRAFT_ROWS
    for own, other in ((3, 200), (7, 11)):
        to_draft[other], to_target[own] = own, other
    drafter = drafter_of(pair, adapter(), Alignment(to_draft, to_target, 2, is_prefix=False))
    heard = drafter.heard(torch.zeros(1, TARGET_ROWS))
    assert heard.isfinite().nonzero()[:, 1].tolist() == [11, 200]
    proposal = drafter.propose([11], 4, NEVER.is_set)
    assert set(proposal.ids.tolist()) <= {11, 200}


def saved(folder: Path, made: HiddenAdapter, rows: int = TARGET_ROWS) -> AdapterInfo:
    sizes = made.sizes
    info = AdapterInfo(
        folder, HIDDEN, "an-adapter", "the-target", "the-draft", sizes.target, sizes.draft, rows, sizes.config()
    )
    return save_adapter(info, made.state_dict(), "# An adapter\n")


@pytest.mark.usefixtures("without_gradients")
def test_a_saved_adapter_comes_back_the_same(pair: SimpleNamespace, tmp_path: Path) -> None:
    made = adapter(4)
    saved(tmp_path / "a", made)
    loaded = load_hidden(read_adapter(str(tmp_path / "a")), pair.draft, pair.target)
    direct = AdaptedDecoder(pair.draft, pair.target, made)
    hidden = torch.randn(1, 4, 32)
    for decoder in (loaded, direct):
        decoder.look(visual())
    torch.testing.assert_close(loaded.head(hidden), direct.head(hidden), rtol=0, atol=0)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"kind": "lora"}, "of kind lora; drafter hidden needs one of kind hidden"),
        ({"hidden_size": 65}, "hidden size 65"),
        ({"vocabulary": 99}, "vocabulary 99"),
        ({"draft_hidden_size": 31}, "hidden size 31"),
        ({"config": {"bottleneck": 24, "heads": 2}}, "config.head_dim"),
        ({"config": {"bottleneck": 24, "heads": 2, "head_dim": 0}}, "head_dim must be at least 1"),
        ({"config": {"bottleneck": 1 << 20, "heads": 2, "head_dim": 8}}, "is needed"),
        ({"config": {"bottleneck": 24, "heads": 0, "head_dim": 8}}, "no part of it"),
    ],
)
def test_what_does_not_fit_is_refused(pair: SimpleNamespace, tmp_path: Path, changes: Any, said: str) -> None:
    good = saved(tmp_path / "a", adapter())
    with pytest.raises(UserError, match=said):
        load_hidden(replace(good, **changes), pair.draft, pair.target)


@pytest.mark.parametrize("mode", [SPECULATIVE, PARALLEL_PREFILL])
def test_a_run_answers_as_the_target_alone(engine, tiny_models, sample, sink, *, tmp_path, mode: str) -> None:
    target = tiny_models(None, "target", lambda *_: None, NEVER).language_model
    saved(tmp_path / "a", adapter(sizes=HiddenSizes(32, 32, 8, 2, 4)), target.rows)
    settings = GenerationSettings(max_new_tokens=14, ignore_eos=True)
    asked = replace(settings, speculation=SpeculationSettings(HIDDEN, str(tmp_path / "a"), afterwards="rounds"))
    plain = RunRequest("target", sample, None, ModelChoice("t", "cpu"), settings)
    engine.run(plain, sink, NEVER)
    engine.run(
        RunRequest(mode, sample, ModelChoice("d", "cpu"), ModelChoice("t", "cpu"), asked, first_run_id=2), sink, NEVER
    )
    assert [message.status for message in sink.messages if isinstance(message, RunEnded)] == ["finished"] * 2
    said = [
        [record.token_id for record in sink.of(TokenRecord) if record.run_id == run and record.origin != "rejected"]
        for run in (1, 2)
    ]
    assert said[0] == said[1]
    assert len(sink.of(RoundRecord)) >= 1
    facts = next(
        message.facts["speculation"]
        for message in sink.messages
        if isinstance(message, RunDescribed) and "speculation" in message.facts
    )
    assert (facts.kind, facts.adapter, facts.is_lossless) == (HIDDEN, "an-adapter", True)


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


def test_a_run_is_lossy_everywhere_it_appears_and_needs_no_video(engine, tiny_models, sample, sink, tmp_path) -> None:
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


def test_stages_are_the_draft_s_four_and_the_target_s_text(engine, tiny_models, sample, sink, tmp_path) -> None:
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
def test_maps_that_do_not_fit_are_refused(make_llama: Any, tmp_path: Path, changes: Any, said: str) -> None:
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


@pytest.fixture
def draft(make_llama: Any) -> LlamaDecoder:
    return LlamaDecoder.take_over(make_llama(1, hidden=32))


def drawn(decoder: LlamaDecoder, rank: int, *, std: float = 0.1, seed: int = 0) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {name: std * torch.randn(shape, generator=generator) for name, shape in lora_shapes(decoder, rank).items()}


def saved_change(folder: Path, decoder: LlamaDecoder, tensors: dict[str, torch.Tensor], rank: int) -> AdapterInfo:
    info = AdapterInfo(
        folder, LORA, "a-change", "the-target", "the-draft", 64, decoder.config.hidden_size, 257, {"rank": rank}
    )
    return save_adapter(info, tensors, "# A change\n")


def test_merged_it_is_base_plus_the_product(draft: LlamaDecoder) -> None:
    before = {name: linear.weight.clone() for name, _, _, linear in projections(draft)}
    tensors = drawn(draft, 3)
    merge(draft, tensors)
    for name, _, _, linear in projections(draft):
        expected = before[name] + tensors[f"{name}.up"] @ tensors[f"{name}.down"]
        assert_close(linear.weight, expected)
        assert not is_close(linear.weight, before[name])
    assert len(before) == 4 * len(draft.layers)


@pytest.mark.usefixtures("without_gradients")
def test_learnt_and_merged_speak_alike(make_llama: Any, tmp_path: Path) -> None:
    """What the trainee computed beside the frozen weights is what the loaded adapter computes inside them."""
    source = make_llama(1, hidden=32)
    learning, loaded = LlamaDecoder.take_over(copy.deepcopy(source)), LlamaDecoder.take_over(source)
    trainee = LoraTrainee(learning, first_shared(257), rank=3)
    for name, tensor in drawn(loaded, 3).items():
        place, _, part = name.rpartition(".")
        getattr(trainee._learnt[place], part).data = tensor
    saved_change(tmp_path / "a", loaded, trainee.tensors(), 3)
    load_lora(read_adapter(str(tmp_path / "a")), loaded)
    prompt = loaded.embed(torch.arange(12)[None])
    found = loaded(prompt, DynamicKv(2), keep=12)
    assert_close(learning(prompt, DynamicKv(2), keep=12), found)
    trainee.release()
    plain = LlamaDecoder.take_over(make_llama(1, hidden=32))
    assert_close(learning(prompt, DynamicKv(2), keep=12), plain(prompt, DynamicKv(2), keep=12))
    assert not is_close(found, plain(prompt, DynamicKv(2), keep=12))


@pytest.mark.usefixtures("without_gradients")
def test_rounds_stay_lossless_with_a_changed_draft(make_llama: Any, sink: Any) -> None:
    target = LlamaDecoder.take_over(make_llama(2, hidden=64))
    for seed in range(6):
        changed = LlamaDecoder.take_over(make_llama(2, hidden=64))
        merge(changed, drawn(changed, 2, std=0.05 * seed, seed=seed))
        prompt = kit.prompt_of(seed, 9)
        model = kit.cached(changed, "draft")
        played = kit.play(kit.cached(target), kit.drafting(model, prompt, 257), prompt, Limits(32), sink, gamma=3)
        assert played.ids == kit.plain(target, prompt, Limits(32), sink)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"kind": "hidden"}, "of kind hidden; drafter lora needs one of kind lora"),
        ({"draft_hidden_size": 33}, "hidden size 33"),
        ({"config": {"rank": 0}}, "config.rank must be a whole number from 1"),
        ({"config": {"rank": 5}}, "is needed"),
        ({"config": {}}, "config.rank"),
    ],
)
def test_changes_that_do_not_fit_are_refused(draft: LlamaDecoder, tmp_path: Path, changes: Any, said: str) -> None:
    good = saved_change(tmp_path / "a", draft, drawn(draft, 3), 3)
    before = next(projections(draft))[3].weight.clone()
    with pytest.raises(UserError, match=said):
        load_lora(replace(good, **changes), draft)
    assert torch.equal(next(projections(draft))[3].weight, before)


def test_the_bundled_draft_is_loaded_with_it(tmp_path: Path) -> None:
    choice = ModelChoice("evprof-tiny-eventgpt", "cpu", "float32")
    plain = load_model(choice, "draft", lambda *_: None, NEVER).language_model
    tensors = drawn(plain, 2, std=0.02)
    saved_change(tmp_path / "a", plain, tensors, 2)
    changed = load_model(replace(choice, lora=str(tmp_path / "a")), "draft", lambda *_: None, NEVER).language_model
    merge(plain, tensors)
    for (_, _, _, mine), (_, _, _, theirs) in zip(projections(plain), projections(changed), strict=True):
        assert torch.equal(mine.weight, theirs.weight)
