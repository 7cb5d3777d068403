"""The head on a target's hidden states: lossless in chains and trees, its cache exact, taught as it drafts."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from transformers import LlamaForCausalLM

from closeness import assert_close
from engines.adapters.eagle import EagleHead, EagleShape
from engines.adapters.folder import kept, save_adapter
from engines.adapters.following import FollowingHead, HeadPass
from engines.decoder.decoding import Limits
from engines.decoder.llama import LlamaDecoder
from engines.drafters.eagle_drafter import EagleDrafter
from engines.training.eagle_trainee import EagleTrainee
from engines.training.example import Example
from evprof.core.errors import UserError
from evprof.core.records import RoundRecord
from evprof.loaders.adapters import AdapterInfo, read_adapter

ROWS = 24
"""So few that a head nobody taught is right now and then."""

INSIDE = (1, 2)
"""Layers whose inputs an EAGLE-3 head reads; 2 is what leaves the last."""

TREES = [(1,), (3, 2, 1), (8, 6), (1, 2, 1, 2), (30,)]


@pytest.fixture(scope="session")
def kit(played_rounds: ModuleType) -> ModuleType:
    return played_rounds


@pytest.fixture(scope="module")
def target(make_llama: Any) -> LlamaForCausalLM:
    made: LlamaForCausalLM = make_llama(5, vocabulary=ROWS)
    return made


@pytest.fixture(scope="module")
def decoder(target: LlamaForCausalLM) -> LlamaDecoder:
    return LlamaDecoder.take_over(target)


def untaught(decoder: LlamaDecoder, *, window: int = 4, seed: int = 0) -> EagleHead:
    torch.manual_seed(seed)
    head = EagleHead(EagleShape.like(decoder.config, window=window))
    for weight in head.parameters():
        weight.data = weight + 0.1 * torch.randn_like(weight)
    return head.requires_grad_(False)


def drafting(head: FollowingHead, eos_ids: frozenset[int] = frozenset(), **more: Any) -> Any:
    return lambda one: EagleDrafter("head", head, one, eos_ids, **more)


def prompt_of(kit: ModuleType, seed: int, length: int = 10) -> torch.Tensor:
    made: torch.Tensor = kit.prompt_of(seed, length, ROWS)
    return made


@pytest.mark.usefixtures("without_gradients")
@pytest.mark.parametrize("gamma", [1, 2, 7])
def test_a_chain_gives_the_targets_own_answer(
    decoder: LlamaDecoder, target: LlamaForCausalLM, sink: Any, kit: ModuleType, gamma: int
) -> None:
    accepted = 0
    for seed in range(6):
        head = untaught(decoder, window=(0, 3, 64)[seed % 3], seed=seed)
        prompt = prompt_of(kit, seed, 1 + 3 * seed)
        expected = kit.plain(decoder, prompt, Limits(30), sink)
        sink.records.clear()
        done = kit.play(kit.cached(decoder), drafting(head), prompt, Limits(30), sink, gamma=gamma)
        assert done.ids == expected
        kit.assert_cache_is_fresh(done.target, target, kit.sequence(prompt, done.ids[:-1]))
        rounds = sink.of(RoundRecord)
        accepted += sum(record.accepted for record in rounds)
        assert all(record.drafted <= gamma for record in rounds)
    assert accepted > 0


@pytest.mark.usefixtures("without_gradients")
@pytest.mark.parametrize("widths", TREES)
def test_a_tree_gives_the_targets_own_answer(
    decoder: LlamaDecoder, target: LlamaForCausalLM, sink: Any, kit: ModuleType, widths: tuple[int, ...]
) -> None:
    accepted = 0
    for seed in range(4):
        prompt = prompt_of(kit, seed)
        expected = kit.plain(decoder, prompt, Limits(24), sink)
        sink.records.clear()
        head = untaught(decoder, seed=seed)
        done = kit.play(kit.cached(decoder), drafting(head, widths=widths), prompt, Limits(24), sink, gamma=len(widths))
        assert done.ids == expected
        kit.assert_cache_is_fresh(done.target, target, kit.sequence(prompt, done.ids[:-1]))
        rounds = sink.of(RoundRecord)
        accepted += sum(record.accepted for record in rounds)
        sizes, level = [0], 1
        for width in widths:
            level *= min(width, ROWS)
            sizes.append(sizes[-1] + level)
        assert {record.drafted for record in rounds} <= set(sizes)
        assert rounds[0].drafted == sizes[-1]
    assert accepted > 0 or widths == (1,)


@pytest.mark.usefixtures("without_gradients")
@pytest.mark.parametrize("widths", [(), (4, 2)])
def test_the_end_and_the_limit_are_the_targets_own(
    decoder: LlamaDecoder, sink: Any, kit: ModuleType, widths: tuple[int, ...]
) -> None:
    prompt = prompt_of(kit, 2)
    whole = kit.plain(decoder, prompt, Limits(20), sink)
    for place in range(1, 20):
        eos = frozenset({whole[place]})
        for limits in (Limits(20, eos), Limits(place)):
            expected = kit.plain(decoder, prompt, limits, sink)
            drafter = drafting(untaught(decoder), limits.eos_ids, widths=widths)
            done = kit.play(kit.cached(decoder), drafter, prompt, limits, sink, gamma=2 if widths else 5)
            assert done.ids == expected


def example_of(decoder: LlamaDecoder, kit: ModuleType, seed: int, count: int = 9, length: int = 7) -> Example:
    """A greedy answer of the target with its hidden states."""
    prompt = prompt_of(kit, seed, length)
    one = kit.cached(decoder)
    one.keeps_features, one.reads = True, INSIDE
    with torch.no_grad():
        logits, states = one.prefill(decoder.embed(prompt), kit.NEVER), [one.features]
        ids = [int(logits.argmax())]
        while len(ids) < count:
            ids.append(int(one.step(torch.tensor([ids[-1:]]))[0, -1].argmax()))
            states.append(one.features)
        embeddings = decoder.embed(prompt)[0]
    inside, answer = torch.cat(states, dim=1)[0], torch.tensor(ids)
    return Example(f"{seed}", "?", answer, prompt[0], embeddings, inside[:, -64:], (0, 0), target_layers=inside)


@pytest.mark.parametrize("layout", ["", "eagle", "eagle3"])
@pytest.mark.parametrize("window", [0, 3, 64])
def test_it_is_taught_with_what_it_will_see_when_it_drafts(
    decoder: LlamaDecoder, kit: ModuleType, window: int, layout: str
) -> None:
    """Guesses of the batched draft steps in training equal those of passes made one by one."""
    trainee = EagleTrainee(decoder, window=window, layout=layout, layers=INSIDE)
    for weight in trainee.head.parameters():
        weight.data = weight + 0.1 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(0))
    examples = [example_of(decoder, kit, seed, 9 - seed, 4 + 3 * seed) for seed in range(3)]
    with torch.no_grad():
        steps = list(trainee._drafts(trainee._batch(examples), 3))
    for row, example in enumerate(examples):
        last, ids = example.target_prompt - 1, example.answer_ids
        for start in range(len(ids) - 3):
            head = HeadPass(trainee.head, decoder, 64)
            first = max(0, last - window)
            states = trainee.head.taken(example.layers if layout == "eagle3" else example.target_features, decoder)
            head.look_back(states[first:last], example.target_embeddings[first + 1 : last + 1])
            guess = head.follow(states[last : last + start + 1], ids[: start + 1])
            assert_close(steps[0][row, start], guess[0])
            for step in (1, 2):
                guess = head.follow(guess, ids[start + step : start + step + 1])
                assert_close(steps[step][row, start + step], guess[0])


@pytest.mark.parametrize("layout", ["", "eagle", "eagle3"])
def test_steps_of_training_make_it_right_more_often(decoder: LlamaDecoder, kit: ModuleType, layout: str) -> None:
    decoder.requires_grad_(False)
    trainee = EagleTrainee(decoder, window=4, steps=2, layout=layout, layers=INSIDE)
    examples = [example_of(decoder, kit, seed) for seed in range(6)]
    before = trainee.figures(examples)
    optimizer = torch.optim.AdamW(trainee.parameters(), lr=5e-3)
    for _ in range(60):
        optimizer.zero_grad()
        trainee.loss(examples).backward()
        optimizer.step()
    after = trainee.figures(examples)
    assert after.match > before.match
    assert after.match > 0.6
    assert after.loss < 0.7 * before.loss
    again = EagleTrainee(decoder, window=4, steps=2, seed=1, layout=layout, layers=INSIDE)
    again.load(trainee.tensors())
    assert again.figures(examples).match == pytest.approx(after.match, abs=0.03)
    assert trainee.config()["window"] == 4


def saved(folder: Path, decoder: LlamaDecoder, head: EagleHead, **changed: Any) -> AdapterInfo:
    values: dict[str, Any] = {
        "hidden_size": decoder.config.hidden_size,
        "vocabulary": decoder.rows,
        "config": head.shape.config(),
    }
    info = AdapterInfo(folder, "eagle", "test-head", "a target", **(values | changed))
    return save_adapter(info, head.state_dict(), "# A head\n")


def test_a_folder_brings_the_same_head_back(tmp_path: Path, decoder: LlamaDecoder) -> None:
    head = untaught(decoder)
    saved(tmp_path / "head", decoder, head)
    info = read_adapter(str(tmp_path / "head"))
    found = EagleHead.load(info, decoder)
    assert found.shape == head.shape
    for name, weight in head.state_dict().items():
        torch.testing.assert_close(found.state_dict()[name], weight, rtol=0, atol=0)
    assert not any(weight.requires_grad for weight in found.parameters())
    saved(tmp_path / "head", decoder, untaught(decoder, seed=1))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["head"]


def test_a_head_is_loaded_once_for_a_warm_model(tmp_path: Path, decoder: LlamaDecoder) -> None:
    info = saved(tmp_path / "head", decoder, untaught(decoder))
    first = kept(info, decoder, lambda: EagleHead.load(info, decoder))
    assert kept(info, decoder, lambda: EagleHead.load(info, decoder)) is first
    info = saved(tmp_path / "head", decoder, untaught(decoder, window=5, seed=2))
    assert kept(info, decoder, lambda: EagleHead.load(info, decoder)) is not first


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"hidden_size": 32}, "hidden size 32"),
        ({"vocabulary": 7}, "vocabulary 7"),
        ({"config": {"heads": 4, "kv_heads": 3, "head_dim": 16, "intermediate": 128, "window": 4}}, "make no"),
        ({"config": {"heads": 4, "kv_heads": 2, "head_dim": 16, "intermediate": 999_999, "window": 4}}, "is of shape"),
        ({"config": {"heads": 4, "kv_heads": 2, "head_dim": 16, "intermediate": 1 << 40, "window": 4}}, "must be a"),
        ({"config": {"heads": "4"}}, "config.heads"),
        ({"kind": "hidden"}, "kind hidden"),
    ],
)
def test_what_does_not_fit_is_refused_in_a_sentence(
    tmp_path: Path, decoder: LlamaDecoder, changed: dict[str, Any], told: str
) -> None:
    info = saved(tmp_path / "head", decoder, untaught(decoder))
    values = {name: getattr(info, name) for name in ("kind", "name", "target", "hidden_size", "vocabulary", "config")}
    with pytest.raises(UserError, match=told):
        EagleHead.load(AdapterInfo(info.folder, **(values | changed)), decoder)


def test_values_that_are_not_finite_are_refused(tmp_path: Path, decoder: LlamaDecoder) -> None:
    head = untaught(decoder)
    head.feature.weight.data[0, 0] = float("nan")
    info = saved(tmp_path / "head", decoder, head)
    with pytest.raises(UserError, match="not finite"):
        EagleHead.load(info, decoder)


def test_files_that_lie_about_their_size_are_refused(
    tmp_path: Path, decoder: LlamaDecoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = saved(tmp_path / "head", decoder, untaught(decoder))
    whole = info.tensors_path.read_bytes()
    for damaged in (whole[:-8], b"\xff" * 64, b"", whole + b"more"):
        info.tensors_path.write_bytes(damaged)
        with pytest.raises(UserError, match=r"damaged|truncated"):
            EagleHead.load(info, decoder)
    info.tensors_path.write_bytes(whole)
    monkeypatch.setattr("engines.adapters.folder.MOST_BYTES", 1000)
    with pytest.raises(UserError, match="at most"):
        EagleHead.load(info, decoder)
    info.tensors_path.unlink()
    with pytest.raises(UserError, match="lacks"):
        EagleHead.load(info, decoder)
