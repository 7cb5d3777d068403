"""EAGLE heads: drafts are lossless, heads are taught, stored and refused, trees grow where the head is sure."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file
from transformers import LlamaConfig, LlamaForCausalLM

import played_rounds as kit
from closeness import assert_close
from engines.adapters.folder import kept, load_tensors, save_adapter
from engines.adapters.following import FollowingHead, HeadPass
from engines.adapters.medusa import load_medusa
from engines.adapters.published import Eagle1Head, layer_like, load_head, published_tensors
from engines.decoder.decoding import Limits
from engines.decoder.llama import LlamaDecoder
from engines.drafters import head_drafter as dynamic_tree
from engines.drafters.drafter import PromptContext, Proposal
from engines.drafters.eagle_drafter import EagleDrafter
from engines.drafters.head_drafter import MedusaDrafter, grow
from engines.training.eagle_trainee import EagleTrainee
from engines.training.example import Example
from evprof.core.errors import UserError
from evprof.core.records import RoundRecord
from evprof.core.request import RunRequest
from evprof.core.vocabulary.generation import GenerationSettings, ModelChoice
from evprof.core.vocabulary.speculation import DynamicTree, SpeculationSettings
from evprof.loaders.adapters import AdapterInfo, read_adapter
from published_heads import Reference, Written, eagle1, eagle3, medusa, save
from run_logs import carry_out

ROWS = 24
"""So few that a head nobody taught is right now and then."""

INSIDE = (1, 2)
"""Layers whose inputs an EAGLE-3 head reads; 2 is what leaves the last."""

TREES = [(1,), (3, 2, 1), (8, 6), (1, 2, 1, 2), (30,)]


@pytest.fixture(scope="module")
def target(make_llama: Any) -> LlamaForCausalLM:
    return make_llama(5, vocabulary=ROWS)


@pytest.fixture(scope="module")
def decoder(target: LlamaForCausalLM) -> LlamaDecoder:
    return LlamaDecoder.take_over(target)


def untaught(decoder: LlamaDecoder, *, window: int = 4, seed: int = 0) -> Eagle1Head:
    torch.manual_seed(seed)
    head = Eagle1Head(layer_like(decoder.config), bias=False)
    head.window = window
    for weight in head.parameters():
        weight.data = weight + 0.1 * torch.randn_like(weight)
    return head.requires_grad_(False)


def drafting(head: FollowingHead, eos_ids: frozenset[int] = frozenset(), **more: Any) -> Any:
    return lambda one: EagleDrafter("head", head, one, eos_ids, **more)


def prompt_of(seed: int, length: int = 10) -> torch.Tensor:
    return kit.prompt_of(seed, length, ROWS)


@pytest.mark.usefixtures("without_gradients")
@pytest.mark.parametrize("gamma", [1, 2, 7])
def test_a_chain_gives_the_targets_own_answer(
    decoder: LlamaDecoder, target: LlamaForCausalLM, sink: Any, gamma: int
) -> None:
    accepted = 0
    for seed in range(6):
        head = untaught(decoder, window=(0, 3, 64)[seed % 3], seed=seed)
        prompt = prompt_of(seed, 1 + 3 * seed)
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
    decoder: LlamaDecoder, target: LlamaForCausalLM, sink: Any, widths: tuple[int, ...]
) -> None:
    accepted = 0
    for seed in range(4):
        prompt = prompt_of(seed)
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
def test_the_end_and_the_limit_are_the_targets_own(decoder: LlamaDecoder, sink, widths: tuple[int, ...]) -> None:
    prompt = prompt_of(2)
    whole = kit.plain(decoder, prompt, Limits(20), sink)
    for place in range(1, 20):
        eos = frozenset({whole[place]})
        for limits in (Limits(20, eos), Limits(place)):
            expected = kit.plain(decoder, prompt, limits, sink)
            drafter = drafting(untaught(decoder), limits.eos_ids, widths=widths)
            done = kit.play(kit.cached(decoder), drafter, prompt, limits, sink, gamma=2 if widths else 5)
            assert done.ids == expected


def example_of(decoder: LlamaDecoder, seed: int, count: int = 9, length: int = 7) -> Example:
    """A greedy answer of the target with its hidden states."""
    prompt = prompt_of(seed, length)
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


@pytest.mark.parametrize("layout", ["eagle", "eagle3"])
@pytest.mark.parametrize("window", [0, 3, 64])
def test_it_is_taught_with_what_it_will_see_when_it_drafts(decoder: LlamaDecoder, window: int, layout: str) -> None:
    """Guesses of the batched draft steps in training equal those of passes made one by one."""
    trainee = EagleTrainee(decoder, window=window, layout=layout, layers=INSIDE)
    for weight in trainee.head.parameters():
        weight.data = weight + 0.1 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(0))
    examples = [example_of(decoder, seed, 9 - seed, 4 + 3 * seed) for seed in range(3)]
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


@pytest.mark.parametrize("layout", ["eagle", "eagle3"])
def test_steps_of_training_make_it_right_more_often(decoder: LlamaDecoder, layout: str) -> None:
    decoder.requires_grad_(False)
    trainee = EagleTrainee(decoder, window=4, steps=2, layout=layout, layers=INSIDE)
    examples = [example_of(decoder, seed) for seed in range(6)]
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
    assert trainee.config()["window"] == 4


def saved(folder: Path, head: Eagle1Head, name: str, rows: int) -> AdapterInfo:
    llama = head.llama
    config = {
        "layout": "eagle",
        "heads": llama.num_attention_heads,
        "kv_heads": llama.num_key_value_heads,
        "head_dim": llama.head_dim,
        "intermediate": llama.intermediate_size,
        "window": head.window,
        "eps": 1e-6,
        "positions": 64,
        "rope": {"rope_theta": 10_000.0},
    }
    info = AdapterInfo(folder, "eagle", name, "a target", None, llama.hidden_size, None, rows, config)
    return save_adapter(info, published_tensors(head, head.state_dict()), "# A head\n")


def test_a_head_is_loaded_once_for_a_warm_model(tmp_path: Path, decoder: LlamaDecoder) -> None:
    head = untaught(decoder)
    info = saved(tmp_path / "head", head, "head", ROWS)
    first = kept(info, decoder, lambda: load_head(info, decoder))
    assert kept(info, decoder, lambda: load_head(info, decoder)) is first
    for name, weight in head.state_dict().items():
        torch.testing.assert_close(first.state_dict()[name], weight, rtol=0, atol=0)
    info = saved(tmp_path / "head", untaught(decoder, window=5, seed=2), "head", ROWS)
    assert kept(info, decoder, lambda: load_head(info, decoder)) is not first
    assert sorted(path.name for path in tmp_path.iterdir()) == ["head"]


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        ("cut", "damaged|truncated"),
        ("more", "damaged|truncated"),
        ("nan", "not finite"),
        ("large", "at most"),
        ("shape", "is of shape"),
        ("missing", "lacks 'b'"),
        ("gone", "lacks adapter.safetensors"),
    ],
)
def test_damaged_tensors_of_an_adapter_are_refused(tmp_path, damage: str, told: str, monkeypatch) -> None:
    info = AdapterInfo(tmp_path / "a", "hidden", "a", "a target", None, 64, None, ROWS, {})
    values = torch.full((4, 8), torch.nan if damage == "nan" else 1.0)
    info = save_adapter(info, {"a": values}, "# An adapter\n")
    whole = info.tensors_path.read_bytes()
    if damage in ("cut", "more"):
        info.tensors_path.write_bytes(whole[:-8] if damage == "cut" else whole + b"more")
    elif damage == "large":
        monkeypatch.setattr("engines.adapters.folder.MOST_BYTES", 100)
    elif damage == "gone":
        info.tensors_path.unlink()
    shapes = {"a": (4, 7) if damage == "shape" else (4, 8)} | ({"b": (1,)} if damage == "missing" else {})
    with pytest.raises(UserError, match=told):
        load_tensors(info, shapes)


def test_a_head_of_the_old_layout_is_refused(tmp_path: Path, decoder: LlamaDecoder) -> None:
    info = AdapterInfo(tmp_path, "eagle", "old", "a target", None, 64, None, ROWS, {"heads": 4, "window": 4})
    with pytest.raises(UserError, match="train it again"):
        load_head(info, decoder)


@pytest.fixture
def adapter(engine: Any, tmp_path: Path) -> str:
    """An untaught head for the tests' target."""
    torch.manual_seed(0)
    target = LlamaConfig(
        hidden_size=32, intermediate_size=64, num_attention_heads=2, num_key_value_heads=1, head_dim=16
    )
    head = Eagle1Head(layer_like(target), bias=False)
    head.window = 8
    return str(saved(tmp_path / "head", head, "test-head", 32_003).folder)


def request_for(sample: Any, adapter: str, tree: str = "", mode: str = "speculative", **more: Any) -> RunRequest:
    speculation = SpeculationSettings(drafter="eagle", adapter=adapter, tree=tree)
    if mode == "target":
        speculation = SpeculationSettings()
    settings = GenerationSettings(max_new_tokens=12, speculation=speculation, **more)
    return RunRequest(mode, sample, None, ModelChoice("tiny-target"), settings)


@pytest.mark.parametrize("tree", ["", "3,2,2,1,1,1"])
def test_a_run_says_who_drafted_and_says_what_the_target_says(engine, sample, adapter: str, tree: str) -> None:
    plain = carry_out(engine, request_for(sample, adapter, mode="target"))
    run = carry_out(engine, request_for(sample, adapter, tree))
    assert run.info.error is None
    kept = [token.token_id for token in run.tokens if token.origin != "rejected"]
    assert kept == [token.token_id for token in plain.tokens]
    facts = run.info.speculation
    assert (facts.kind, facts.drafter, facts.adapter, facts.tree) == ("eagle", "test-head", "test-head", tree)
    assert facts.is_lossless
    assert list(run.info.models) == ["target"]
    parts = run.children(run.stage("decode", "target").span_id)
    assert {span.name for span in parts} == {"prepare draft", "draft", "verify"}
    assert run.judgements
    # A whole tree, although gamma is 5: its levels are how far it drafts.
    assert run.rounds[0].drafted == (5 if not tree else 3 + 6 + 12 + 12 + 12 + 12)


def test_an_adapter_for_other_sizes_fails_the_run_in_a_sentence(engine: Any, sample: Any, adapter: str) -> None:
    path = Path(adapter) / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | {"hidden_size": 64}), "utf-8")
    run = carry_out(engine, request_for(sample, adapter))
    assert run.info.status == "failed"
    assert run.info.error is not None
    assert "hidden size 64" in run.info.error


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("widths", [(), (4, 3, 2)])
@pytest.mark.usefixtures("without_gradients")
def test_drafting_in_half_precision_runs(make_llama, sink, device: str, widths: tuple[int, ...]) -> None:
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("no CUDA device here")
    model = make_llama(1, vocabulary=60).to(device, torch.bfloat16)
    decoder = LlamaDecoder.take_over(model)
    config = layer_like(decoder.config)
    head = Eagle1Head(config, bias=False, device=decoder.device, dtype=torch.bfloat16).requires_grad_(False)
    one = kit.cached(decoder)
    done = kit.play(
        one,
        EagleDrafter("head", head, one, frozenset(), widths=widths),
        kit.prompt_of(1, 9, 60).to(device),
        Limits(20),
        sink,
        gamma=3,
    )
    assert len(done.ids) == 20
    assert sum(record.emitted for record in sink.of(RoundRecord)) == 19


@pytest.fixture(scope="module")
def deep_target(make_llama: Any) -> LlamaForCausalLM:
    return make_llama(5, vocabulary=ROWS, layers=4)


@pytest.fixture(scope="module")
def deep_decoder(deep_target: LlamaForCausalLM) -> LlamaDecoder:
    return LlamaDecoder.take_over(deep_target)


LAYERS = {"eagle": (), "eagle3": (1, 2, 4)}
"""Layout -> the layers whose inputs are read; 4 is what leaves the last."""


@pytest.fixture(params=LAYERS)
def taught(deep_decoder: LlamaDecoder, tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    trainee = EagleTrainee(deep_decoder, window=3, layout=request.param, layers=LAYERS[request.param])
    for number, weight in enumerate(trainee.head.parameters()):
        weight.data = weight + 0.2 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(number))
    info = AdapterInfo(
        tmp_path / "head", "eagle", "head", "a target", None, 64, None, ROWS, trainee.config(), training={"steps": 1}
    )
    return save_adapter(info, trainee.tensors(), "# A head\n").folder


@pytest.mark.usefixtures("without_gradients")
def test_the_folder_is_a_published_head_to_others(
    taught: Path, deep_decoder: LlamaDecoder, deep_target: LlamaForCausalLM, sink
) -> None:
    """config.json and model.safetensors alone make the drafts that the reference makes; beside them lies the rest."""
    names = {path.name for path in taught.iterdir()}
    assert names == {"adapter.json", "config.json", "model.safetensors", "MODEL_CARD.md"}
    stored = load_file(taught / "model.safetensors")
    tensors = {name: tensor.float() if tensor.is_floating_point() else tensor for name, tensor in stored.items()}
    config = json.loads((taught / "config.json").read_text())
    layout = "eagle3" if "draft_vocab_size" in config else "eagle"
    reference = Reference(Written(taught, config, tensors, LAYERS[layout]), deep_target)
    (taught / "adapter.json").rename(taught.parent / "adapter.json")
    bare = read_adapter(str(taught))
    assert (bare.kind, bare.config["layout"], bare.hidden_size, bare.vocabulary) == ("eagle", layout, 64, ROWS)
    head = load_head(bare, deep_decoder)
    assert head.window is None
    ids = kit.prompt_of(2, 8, ROWS)
    expected, _ = reference.chain([*ids[0].tolist(), 3], 4)
    one = kit.cached(deep_decoder)
    drafter = EagleDrafter("head", head, one, frozenset())
    one.keeps_features, one.reads = True, head.reads
    one.prefill(deep_decoder.embed(ids), kit.NEVER)
    drafter.start(PromptContext(ids[0].tolist(), one.prompt_embeddings, one.features))
    assert drafter.propose([3], 4, lambda: False).ids.tolist() == expected


@pytest.mark.usefixtures("without_gradients")
def test_ours_remembers_how_far_it_looks_back(taught: Path, deep_decoder: LlamaDecoder, sink) -> None:
    info = read_adapter(str(taught))
    head = load_head(info, deep_decoder)
    assert (head.window, info.config["trained_steps"], info.training) == (3, 3, {"steps": 1})
    prompt = kit.prompt_of(1, 9, ROWS)

    expected = kit.plain(deep_decoder, prompt, Limits(20), sink)
    done = kit.play(kit.cached(deep_decoder), drafting(head), prompt, Limits(20), sink)
    assert done.ids == expected


def test_a_folder_whose_two_descriptions_differ_is_refused(taught: Path) -> None:
    (taught / "config.json").write_text(json.dumps({"medusa_num_heads": 3}))
    with pytest.raises(UserError, match="describes a head of Medusa"):
        read_adapter(str(taught))
    (taught / "config.json").unlink()
    with pytest.raises(UserError, match="cannot be read"):
        read_adapter(str(taught))


Path_ = tuple[int, ...]


class Drawn:
    """A drafter of `rows` tokens whose logits after a path are drawn from its spelling; some are equal."""

    def __init__(self, seed: int, rows: int, spread: int) -> None:
        self.seed, self.rows, self.spread = seed, rows, spread
        self.paths: list[Path_] = [()]

    def logits(self, path: Path_) -> torch.Tensor:
        generator = torch.Generator().manual_seed(hash((self.seed, path)) % (1 << 62))
        return torch.randint(0, self.spread + 1, (self.rows,), generator=generator).float()

    def expand(self, ids: torch.Tensor, rows: torch.Tensor, level: int) -> torch.Tensor:
        self.paths = [(*self.paths[row], token) for row, token in zip(rows.tolist(), ids.tolist(), strict=True)]
        assert {len(path) for path in self.paths} == {level}
        return torch.stack([self.logits(path) for path in self.paths])

    def chance(self, path: Path_) -> float:
        return float(sum(self.logits(path[:end]).log_softmax(-1)[path[end]] for end in range(len(path))))


def paths_of(proposal: Proposal) -> list[Path_]:
    assert proposal.parents is not None
    found: list[Path_] = []
    for token, parent in zip(proposal.ids.tolist(), proposal.parents, strict=True):
        assert parent < len(found)
        found.append((*(found[parent] if parent >= 0 else ()), token))
    return found


@given(
    seed=st.integers(0, 10_000),
    rows=st.integers(1, 4),
    spread=st.sampled_from([0, 1, 5]),
    nodes=st.integers(1, 30),
    depth=st.integers(1, 3),
)
def test_the_nodes_are_the_likeliest_of_all_paths(seed: int, rows: int, spread: int, nodes: int, depth: int) -> None:
    """Wider than it has nodes, nothing better is missed: the tree is the best there is."""
    drawn = Drawn(seed, rows, spread)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(dynamic_tree, "WIDTH", 64)
        proposal = grow(
            drawn.logits(())[None], drawn.expand, DynamicTree(nodes, depth), choices=rows, is_stopped=lambda: False
        )
    found = paths_of(proposal)
    every = [path for length in range(1, depth + 1) for path in product(range(rows), repeat=length)]
    assert len(set(found)) == len(found) == proposal.size == min(nodes, len(every))
    best = sorted((drawn.chance(path) for path in every), reverse=True)[: proposal.size]
    assert sorted((drawn.chance(path) for path in found), reverse=True) == pytest.approx(best, abs=1e-4)


@pytest.mark.usefixtures("without_gradients")
@pytest.mark.parametrize("limits", [DynamicTree(1, 1), DynamicTree(6, 3), DynamicTree(40, 5)])
@pytest.mark.parametrize("kind", ["EAGLE-1", "EAGLE-3", "Medusa"])
def test_answers_are_the_targets_own(
    *, kind: str, limits: DynamicTree, deep_decoder: LlamaDecoder, deep_target: LlamaForCausalLM, sink, tmp_path
) -> None:
    make = tree_drafting(kind, deep_decoder, deep_target, tmp_path, dynamic=limits)
    for seed in range(3):
        prompt = kit.prompt_of(seed, 1 + 4 * seed, ROWS)
        expected = kit.plain(deep_decoder, prompt, Limits(24), sink)
        sink.records.clear()
        done = kit.play(kit.cached(deep_decoder), make, prompt, Limits(24), sink, gamma=limits.depth)
        assert done.ids == expected
        kit.assert_cache_is_fresh(done.target, deep_target, kit.sequence(prompt, done.ids[:-1]))
        rounds = sink.of(RoundRecord)
        assert all(record.drafted <= limits.nodes for record in rounds)
        assert all(record.accepted <= record.judged <= record.depth <= limits.depth for record in rounds)
        # Nobody taught the head: the target puts other tokens in place of most.
        assert sum(record.judged > record.accepted for record in rounds) > len(rounds) / 2


def tree_drafting(
    kind: str,
    deep_decoder: LlamaDecoder,
    deep_target: LlamaForCausalLM,
    folder: Path,
    **more: Any,
) -> Any:
    makers: dict[str, Any] = {
        "EAGLE-1": eagle1,
        "EAGLE-3": lambda folder, config: eagle3(folder, config, choices=13),
        "Medusa": medusa,
    }
    save(makers[kind](folder / "head", deep_target.config))
    info = read_adapter(str(folder / "head"))
    if kind == "Medusa":
        heads = load_medusa(info, deep_decoder)
        return lambda one: MedusaDrafter("head", heads, one, **more)
    head = load_head(info, deep_decoder)
    return lambda one: EagleDrafter("head", head, one, frozenset(), **more)


@pytest.mark.usefixtures("without_gradients")
def test_a_heads_tree_is_what_its_reference_thinks(
    deep_decoder: LlamaDecoder, deep_target: LlamaForCausalLM, tmp_path, sink
) -> None:
    """Branches see their own ancestors only: each node's logits are those of its path drafted as a chain."""
    make = tree_drafting("EAGLE-1", deep_decoder, deep_target, tmp_path, dynamic=DynamicTree(25, 4))
    reference = Reference(eagle1(tmp_path / "head", deep_target.config), deep_target)
    prompt = kit.prompt_of(2, 8, ROWS)
    ids = prompt[0].tolist()
    one = kit.cached(deep_decoder)
    drafter = make(one)
    one.keeps_features, one.reads = True, drafter.reads
    first = int(one.prefill(deep_decoder.embed(prompt), kit.NEVER).argmax())
    drafter.start(PromptContext(ids, one.prompt_embeddings, one.features))
    proposal = drafter.propose([first], 4, lambda: False)
    states = reference.states(torch.tensor(ids))
    for path, logits in zip(paths_of(proposal), proposal.logits, strict=True):
        places, embeddings = states, reference.embeddings(torch.tensor([*ids[1:], first]))
        for token in path[:-1]:
            places = torch.cat([places, reference.guesses(places, embeddings)[-1:]])
            embeddings = torch.cat([embeddings, reference.embeddings(torch.tensor([token]))])
        expected = deep_target.lm_head(reference.guesses(places, embeddings)[-1])
        assert torch.allclose(logits[0], expected, atol=1e-3 * float(expected.abs().max()))
