"""Low-rank changes of the draft: merged they are base + up @ down, zero is nothing, and a changed draft is another."""

from __future__ import annotations

import copy
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from closeness import assert_close, is_close
from engines.adapters.folder import save_adapter
from engines.adapters.lora import load_lora, lora_shapes, merge, projections
from engines.decoder.decoding import CachedModel, Limits, decode
from engines.decoder.kv_cache import DynamicKv
from engines.decoder.llama import LlamaDecoder
from engines.decoder.sampling import greedy
from engines.drafters.model_drafter import ModelDrafter
from engines.loading.weights import load_model
from engines.measuring.timing import StageClock
from engines.speculation.draft_length import DraftLength
from engines.speculation.rounds import Rounds
from engines.speculation.verification import Verifier
from engines.tokens.answer import Answer
from engines.tokens.vocabulary_alignment import first_shared
from engines.training.trainees import LoraTrainee
from evprof.core.errors import UserError
from evprof.core.vocabulary.drafters import LORA
from evprof.core.vocabulary.generation import ModelChoice
from evprof.loaders.adapters import AdapterInfo, read_adapter

NEVER = threading.Event()
PIECES = [f"<{index}>" for index in range(300)]


@pytest.fixture
def draft(make_llama: Any) -> LlamaDecoder:
    return LlamaDecoder.take_over(make_llama(1, hidden=32))


def drawn(decoder: LlamaDecoder, rank: int, *, std: float = 0.1, seed: int = 0) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {name: std * torch.randn(shape, generator=generator) for name, shape in lora_shapes(decoder, rank).items()}


def saved(folder: Path, decoder: LlamaDecoder, tensors: dict[str, torch.Tensor], rank: int) -> AdapterInfo:
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
    trainee.load(drawn(loaded, 3))
    saved(tmp_path / "a", loaded, trainee.tensors(), 3)
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
        prompt = torch.randint(0, 250, (1, 9), generator=torch.Generator().manual_seed(seed))
        said = []
        for drafts in (False, True):
            cached, clock = CachedModel.over(target, "target"), StageClock(sink, 1)
            first = greedy(cached.prefill(target.embed(prompt), NEVER))
            answer = Answer(sink, 1, "target", PIECES)
            answer.add(int(first))
            if drafts:
                model = CachedModel.over(changed, "draft")
                model.prefill(changed.embed(prompt), NEVER)
                drafter = ModelDrafter("changed", model, first_shared(257), frozenset())
                with clock.stage("decode", "target"):
                    Rounds(
                        cached,
                        drafter,
                        answer,
                        Limits(32),
                        length=DraftLength(3),
                        verifier=Verifier(),
                        clock=clock,
                        stop=NEVER,
                    ).run()
            else:
                decode(cached, first, answer, Limits(32), sampler=greedy, clock=clock, stop=NEVER)
            said.append(answer.ids)
        assert said[0] == said[1]


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
def test_what_does_not_fit_is_refused(draft: LlamaDecoder, tmp_path: Path, changes: Any, said: str) -> None:
    good = saved(tmp_path / "a", draft, drawn(draft, 3), 3)
    before = next(projections(draft))[3].weight.clone()
    with pytest.raises(UserError, match=said):
        load_lora(replace(good, **changes), draft)
    assert torch.equal(next(projections(draft))[3].weight, before)


def test_the_bundled_draft_is_loaded_with_it(tmp_path: Path) -> None:
    choice = ModelChoice("evprof-tiny-eventgpt", "cpu", "float32")
    plain = load_model(choice, "draft", lambda *_: None, NEVER).language_model
    tensors = drawn(plain, 2, std=0.02)
    saved(tmp_path / "a", plain, tensors, 2)
    changed = load_model(replace(choice, lora=str(tmp_path / "a")), "draft", lambda *_: None, NEVER).language_model
    merge(plain, tensors)
    for (_, _, _, mine), (_, _, _, theirs) in zip(projections(plain), projections(changed), strict=True):
        assert torch.equal(mine.weight, theirs.weight)
