"""Heads as others publish them: EAGLE, Medusa and speculators, held against their references."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from transformers import LlamaConfig, LlamaForCausalLM

import played_rounds as kit
from engines.adapters.following import HeadPass
from engines.adapters.medusa import load_medusa
from engines.adapters.published import load_head
from engines.decoder.decoding import Limits
from engines.decoder.llama import LlamaDecoder
from engines.drafters.drafter import PromptContext
from engines.drafters.eagle_drafter import EagleDrafter
from engines.drafters.head_drafter import MedusaDrafter
from engines.inspection import find_head, inspect_head
from evprof.core.errors import UserError
from evprof.core.records import RoundRecord
from evprof.core.request import RunRequest
from evprof.core.vocabulary.generation import GenerationSettings, ModelChoice
from evprof.core.vocabulary.speculation import SpeculationSettings
from evprof.core.vocabulary.switches import Switches
from evprof.loaders.adapters import drafter_of, read_adapter
from published_heads import Reference, Written, eagle1, eagle3, medusa, save
from run_logs import carry_out

ROWS = 24
Make = Callable[[Path, Any], Written]

HEADS: dict[str, Make] = {
    "EAGLE-1": eagle1,
    "EAGLE-1 without a bias": lambda folder, config: eagle1(folder, config, bias=False, seed=1),
    "EAGLE-1 as speculators saves it": lambda folder, config: eagle1(folder, config, layout="speculators-eagle"),
    "MSD": lambda folder, config: eagle1(folder, config, layout="msd", seed=2),
    "EAGLE-3": eagle3,
    "EAGLE-3 over fewer tokens": lambda folder, config: eagle3(folder, config, choices=11, seed=3),
    "EAGLE-3 with embeddings": lambda folder, config: eagle3(folder, config, own_embeddings=True, seed=4),
    "EAGLE-3, residual normed": lambda folder, config: eagle3(folder, config, norm_before_residual=True, seed=5),
    "EAGLE-3, norm_output false": lambda folder, config: eagle3(folder, config, norm_output=False),
    "EAGLE-3.1 of SpecForge": lambda folder, config: eagle3(folder, config, fc_norm=True, norm_output=True, seed=8),
    "EAGLE-3, vLLM's place of flags": lambda folder, config: eagle3(folder, config, norm_before_fc=True, nests=True),
    "EAGLE-3, SGLang's norms": lambda folder, config: eagle3(folder, config, use_aux_norm=True, seed=9),
    "EAGLE-3 with the target's head": lambda folder, config: eagle3(folder, config, has_head=False, seed=10),
    "EAGLE-3, tied": lambda folder, config: eagle3(
        folder, config, has_head=False, own_embeddings=True, tie_word_embeddings=True, seed=11
    ),
    "EAGLE-3.1": lambda folder, config: eagle3(
        folder, config, fc_norm=True, norm_output=True, choices=13, layout="speculators-eagle3", seed=6
    ),
    "EAGLE-3, reading under one norm": lambda folder, config: eagle3(
        folder, config, norm_before_fc=True, layout="speculators-eagle3", reads=(0, 2, 4), seed=7
    ),
}


@pytest.fixture(scope="module")
def target(make_llama: Any) -> LlamaForCausalLM:
    return make_llama(5, vocabulary=ROWS, layers=4)


@pytest.fixture(scope="module")
def decoder(target: LlamaForCausalLM) -> LlamaDecoder:
    return LlamaDecoder.take_over(target)


def drafting(folder: Path, decoder: LlamaDecoder, **more: Any) -> Any:
    head = load_head(read_adapter(str(folder)), decoder)
    return lambda one: EagleDrafter("head", head, one, frozenset(), **more)


def ids_of(seed: int, length: int) -> list[int]:
    return kit.prompt_of(seed, length, ROWS)[0].tolist()


@pytest.mark.usefixtures("without_gradients")
@pytest.mark.parametrize("name", HEADS)
def test_hidden_states_and_drafts_are_the_references(
    name: str, decoder: LlamaDecoder, target: LlamaForCausalLM, tmp_path: Path
) -> None:
    written = save(HEADS[name](tmp_path / "head", target.config))
    reference = Reference(written, target)
    head = load_head(read_adapter(str(tmp_path / "head")), decoder)
    largest = 0.0
    for seed in range(4):
        ids = ids_of(seed, 3 + 5 * seed)
        tokens, guesses = reference.chain(ids, 6)
        one = kit.cached(decoder)
        one.keeps_features, one.reads = True, head.reads
        one.prefill(decoder.embed(torch.tensor([ids[:-1]])), kit.NEVER)
        states = head.taken(one.features[0], decoder)
        passes = HeadPass(head, decoder, 8)
        behind = torch.tensor(ids[1:])
        passes.look_back(states[:-1], head.embed(behind[:-1], decoder))
        guess, token = passes.follow(states[-1:], behind[-1:]), None
        made: list[int] = []
        for place in range(6):
            largest = max(largest, float((guess[0] - guesses[place]).abs().max() / guesses[place].abs().max()))
            token = passes.logits(guess).argmax(-1)
            made.append(int(token))
            guess = passes.follow(guess, token)
        assert made == tokens
    print(f"{name}: largest difference {largest:.1e} of the largest state")
    assert largest < 1e-4


@pytest.mark.usefixtures("without_gradients")
@pytest.mark.parametrize("widths", [(), (3, 2, 1)])
@pytest.mark.parametrize("name", HEADS)
def test_answers_are_the_targets_own(
    *, name: str, widths: tuple[int, ...], decoder: LlamaDecoder, target: LlamaForCausalLM, sink, tmp_path
) -> None:
    save(HEADS[name](tmp_path / "head", target.config))
    for seed in range(3):
        prompt = kit.prompt_of(seed, 1 + 4 * seed, ROWS)
        expected = kit.plain(decoder, prompt, Limits(24), sink)
        make = drafting(tmp_path / "head", decoder, widths=widths)
        done = kit.play(kit.cached(decoder), make, prompt, Limits(24), sink, gamma=len(widths) or 4)
        assert done.ids == expected
        kit.assert_cache_is_fresh(done.target, target, kit.sequence(prompt, done.ids[:-1]))


@pytest.mark.usefixtures("without_gradients")
@pytest.mark.parametrize("name", ["EAGLE-1", "EAGLE-3 over fewer tokens", "EAGLE-3.1"])
def test_rounds_draft_what_the_reference_drafts(
    *, name: str, decoder: LlamaDecoder, target: LlamaForCausalLM, sink: Any, tmp_path: Path
) -> None:
    """After acceptance and rollback, too: each round anew from true states."""
    written = save(HEADS[name](tmp_path / "head", target.config))
    reference = Reference(written, target)
    prompt = kit.prompt_of(3, 9, ROWS)
    make = drafting(tmp_path / "head", decoder)
    done = kit.play(kit.cached(decoder), make, prompt, Limits(20), sink, gamma=3, chunk=4)
    answer: list[int] = [done.ids[0]]
    for record in sink.of(RoundRecord):
        if record.drafted:
            expected, _ = reference.chain([*prompt[0].tolist(), *answer], record.drafted)
            assert record.drafted_ids == ",".join(map(str, expected))
        answer = done.ids[: len(answer) + record.emitted]
    assert answer == done.ids


@pytest.mark.usefixtures("without_gradients")
def test_msd_sees_pictures_as_they_are(decoder: LlamaDecoder, target: LlamaForCausalLM, tmp_path) -> None:
    written = save(HEADS["MSD"](tmp_path / "head", target.config))
    reference = Reference(written, target)
    torch.manual_seed(0)
    visual = torch.randn(4, target.config.hidden_size)
    text = ids_of(1, 7)
    embeddings = torch.cat(
        [target.model.embed_tokens(torch.tensor(text[:3])), visual, target.model.embed_tokens(torch.tensor(text[3:]))]
    )
    one = kit.cached(decoder)
    drafter = drafting(tmp_path / "head", decoder)(one)
    one.keeps_features, one.reads = True, drafter.reads
    first = int(one.prefill(embeddings[None], kit.NEVER).argmax())
    drafter.start(PromptContext(text, one.prompt_embeddings, one.features, visual, (3,)))
    proposal = drafter.propose([first], 5, lambda: False)
    pictures = torch.tensor([False] * 2 + [True] * 4 + [False] * 5)
    behind = torch.cat([embeddings[1:], target.model.embed_tokens(torch.tensor([first]))])
    expected, _ = reference.chain_from(reference.states_of(embeddings), behind, 5, pictures)
    assert proposal.ids.tolist() == expected
    assert PromptContext(text, slots=(3,)).places(11) == [*text[:3], *[-200] * 4, *text[3:]]


@pytest.mark.usefixtures("without_gradients")
def test_old_bin_files_open_as_well(decoder: LlamaDecoder, target: LlamaForCausalLM, tmp_path: Path) -> None:
    one = save(eagle1(tmp_path / "one", target.config))
    save(eagle1(tmp_path / "other", target.config), as_bin=True)
    mine, theirs = (load_head(read_adapter(str(tmp_path / name)), decoder) for name in ("one", "other"))
    assert one.tensors
    for name, tensor in mine.state_dict().items():
        assert torch.equal(tensor, theirs.state_dict()[name])


Damage = Callable[[Written], Any]


def _set(**changed: Any) -> Damage:
    return lambda written: written.config.update(changed)


def _tensor(name: str, change: Callable[[torch.Tensor], torch.Tensor]) -> Damage:
    return lambda written: written.tensors.update({name: change(written.tensors[name])})


DAMAGED: dict[str, tuple[Make, Damage, str]] = {
    "another width": (eagle1, _set(hidden_size=32, intermediate_size=48), "for a target with hidden size 32"),
    "another vocabulary": (eagle1, _set(vocab_size=ROWS + 1), f"for a target with {ROWS + 1} tokens"),
    "a whole model": (eagle1, _set(num_hidden_layers=32), "describes 32 layers"),
    "a tensor missing": (eagle1, lambda written: written.tensors.pop("fc.weight"), "lacks 'fc.weight'"),
    "a tensor too many": (
        eagle1,
        lambda written: written.tensors.update(more=torch.zeros(2)),
        "holds 'more', which is no part",
    ),
    "ViSpec": (
        eagle1,
        lambda written: written.tensors.update({"imadpt.query": torch.zeros(2)}),
        "a head of ViSpec",
    ),
    "another shape": (
        eagle1,
        _tensor("fc.weight", lambda tensor: tensor[:, 1:].contiguous()),
        "'fc.weight' is of shape",
    ),
    "not a number": (eagle1, _tensor("fc.weight", lambda tensor: tensor * torch.nan), "not finite"),
    "whole numbers": (eagle1, _tensor("fc.bias", lambda tensor: tensor.long()), "weights are needed"),
    "no attention": (eagle1, _set(num_key_value_heads=3), "make no attention"),
    "a width of nothing": (eagle1, _set(intermediate_size=0), "intermediate_size is 0"),
    "a width without end": (eagle1, _set(hidden_size=1 << 40), "hidden_size is 1099511627776"),
    "a width in words": (eagle1, _set(num_attention_heads="four"), "num_attention_heads is four"),
    "a bias": (eagle1, _set(attention_bias=True), "attention_bias is set"),
    "another activation": (eagle1, _set(hidden_act="gelu"), "the activation 'gelu'"),
    "senseless positions": (eagle1, _set(rope_scaling={"rope_type": "yarn"}), "rotary positions cannot be computed"),
    "positions that follow the length": (
        eagle1,
        _set(rope_scaling={"rope_type": "dynamic", "factor": 2.0}),
        "changes with a prompt's length",
    ),
    "norms of HASS": (eagle1, _set(add_para_norm=True), "add_para_norm is set"),
    "another model": (eagle1, _set(model_type="gpt2"), "is no draft head evprof knows"),
    "no layer described": (
        lambda folder, config: eagle3(folder, config, layout="speculators-eagle3"),
        _set(transformer_layer_config=None),
        "lacks 'transformer_layer_config'",
    ),
    "layers that are not there": (
        eagle3,
        _set(eagle_config={"eagle_aux_hidden_state_layer_ids": [1, 2, 30]}),
        "reads what enters layers 2, 3, 31",
    ),
    "layers twice": (eagle3, _set(eagle_config={"eagle_aux_hidden_state_layer_ids": [1, 1, 2]}), "different layers"),
    "the usual layers of a shallow target": (eagle3, _set(eagle_config={}), "reads what enters layers 2, 2, 1"),
    "a flag in words": (eagle3, _set(norm_before_residual="yes"), "must be true or false"),
    "narrower than its target": (eagle3, _set(target_hidden_size=128), "as wide as their target"),
    "no reading inside": (eagle3, _set(eagle_config={"use_aux_hidden_state": False}), "use_aux_hidden_state is off"),
    "a map out of bounds": (
        lambda folder, config: eagle3(folder, config, choices=5),
        _tensor("d2t", lambda tensor: tensor + ROWS),
        "names tokens that the target does not have",
    ),
    "a map that wraps round": (
        lambda folder, config: eagle3(folder, config, choices=5),
        _tensor("d2t", lambda tensor: tensor.index_fill(0, torch.tensor([4]), (1 << 63) - 1)),
        "names tokens that the target does not have",
    ),
    "a token twice": (
        lambda folder, config: eagle3(folder, config, choices=5),
        _tensor("d2t", lambda tensor: -torch.arange(5)),
        "or one twice",
    ),
    "no map": (
        lambda folder, config: eagle3(folder, config, choices=5),
        lambda written: written.tensors.pop("d2t"),
        "lacks 'd2t'",
    ),
    "a map in fractions": (
        lambda folder, config: eagle3(folder, config, choices=5),
        _tensor("d2t", lambda tensor: tensor.float()),
        "whole numbers are needed",
    ),
}


@pytest.mark.parametrize("what", DAMAGED)
def test_what_is_damaged_or_does_not_fit_is_refused(
    what: str, decoder: LlamaDecoder, target: LlamaForCausalLM, tmp_path: Path
) -> None:
    make, damage, sentence = DAMAGED[what]
    written = make(tmp_path / "head", target.config)
    damage(written)
    save(written)
    with pytest.raises(UserError, match=sentence):
        load_head(read_adapter(str(tmp_path / "head")), decoder)


def test_a_config_that_is_none_is_refused(tmp_path: Path) -> None:
    for number, content in enumerate(("[]", "{", '{"a":' * 5000, json.dumps({"model_type": 5}))):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "config.json").write_text(content)
        with pytest.raises(UserError):
            read_adapter(str(folder))


def test_weights_that_run_code_are_refused(decoder: LlamaDecoder, target: LlamaForCausalLM, tmp_path: Path) -> None:
    written = eagle1(tmp_path / "head", target.config)
    written.folder.mkdir()
    (written.folder / "config.json").write_text(json.dumps(written.config))
    torch.save({"fc.weight": Path}, written.folder / "pytorch_model.bin")
    with pytest.raises(UserError, match="nothing of it was run"):
        load_head(read_adapter(str(written.folder)), decoder)


def test_a_head_without_weights_is_refused(decoder: LlamaDecoder, target: LlamaForCausalLM, tmp_path: Path) -> None:
    written = eagle1(tmp_path / "head", target.config)
    written.folder.mkdir()
    (written.folder / "config.json").write_text(json.dumps(written.config))
    with pytest.raises(UserError, match="holds no weights"):
        load_head(read_adapter(str(written.folder)), decoder)
    save_file({}, written.folder / "model.safetensors")
    with pytest.raises(UserError, match="lacks"):
        load_head(read_adapter(str(written.folder)), decoder)


TARGET = LlamaConfig(hidden_size=32, vocab_size=32_003)
"""The sizes of the tests' target that a head has to share."""

RUN_HEADS: dict[str, Callable[[Path], Written]] = {
    "EAGLE-1": lambda folder: eagle1(folder, TARGET),
    "MSD": lambda folder: eagle1(folder, TARGET, layout="msd"),
    "EAGLE-3": lambda folder: eagle3(folder, TARGET, reads=(1, 2), choices=40, own_embeddings=True),
    "Medusa": lambda folder: medusa(folder, TARGET),
}


@pytest.mark.parametrize("tree", ["", "2,2"])
@pytest.mark.parametrize("name", RUN_HEADS)
def test_a_run_says_who_drafted_and_says_what_the_target_says(
    *, name: str, tree: str, engine: Any, sample: Any, tmp_path: Path
) -> None:
    written = save(RUN_HEADS[name](tmp_path / "my-head"))
    kind, info = drafter_of(str(written.folder), None)
    settings = GenerationSettings(max_new_tokens=10)
    plain = carry_out(engine, RunRequest("target", sample, None, ModelChoice("tiny-target"), settings))
    speculation = SpeculationSettings(drafter=kind, adapter=str(info.folder), tree=tree)
    asked = GenerationSettings(
        max_new_tokens=10, speculation=speculation, switches=Switches(step="compiled" if name == "EAGLE-3" else "eager")
    )
    run = carry_out(engine, RunRequest("speculative", sample, None, ModelChoice("tiny-target"), asked))
    assert run.info.error is None
    kept = [token.token_id for token in run.tokens if token.origin != "rejected"]
    assert kept == [token.token_id for token in plain.tokens]
    facts = run.info.speculation
    assert (facts.kind, facts.drafter, facts.tree) == (kind, "my-head", tree)
    assert facts.is_lossless
    said = [warning for warning in run.info.warnings if "reads what enters the target's layers" in warning]
    assert bool(said) == (name == "EAGLE-3")


def test_inspect_names_a_head_and_says_whether_it_fits(tmp_path: Path) -> None:
    save(eagle3(tmp_path / "fits", LlamaConfig(hidden_size=128, vocab_size=768), choices=40))
    save(eagle1(tmp_path / "other", LlamaConfig(hidden_size=64, vocab_size=768)))
    save(medusa(tmp_path / "heads", LlamaConfig(hidden_size=128, vocab_size=765)))
    told = {}
    for name in ("fits", "other", "heads"):
        info = find_head(str(tmp_path / name))
        assert info is not None
        told[name] = inspect_head(info, "evprof-tiny-video-llava")
        assert not told[name]["problems"]
    assert told["fits"]["layout"] == "EAGLE-3"
    assert told["fits"]["fit"] == {"target": "evprof-tiny-video-llava", "fits": True}
    assert told["fits"]["reads_layers"] == "1, 2, 3"
    assert "hidden size 64" in told["other"]["fit"]["reason"]
    assert told["heads"]["heads"] == 3
    assert told["heads"]["fit"]["fits"]


def test_inspect_leaves_models_and_adapters_alone(tmp_path: Path) -> None:
    import assets

    root = Path(assets.__file__).parent
    assert find_head(str(root / "models" / "evprof-tiny-video-llava")) is None
    assert find_head(str(root / "adapters" / "evprof-tiny-eagle")) is None
    assert find_head(str(tmp_path)) is None
    written = eagle1(tmp_path / "whole", TARGET)
    del written.tensors["fc.weight"]
    assert find_head(str(save(written).folder)) is None


def test_inspect_tells_what_is_wrong(tmp_path: Path) -> None:
    written = eagle3(tmp_path / "head", TARGET)
    written.config["rope_scaling"] = {"rope_type": "dynamic", "factor": 2.0}
    info = find_head(str(save(written).folder))
    assert info is not None
    (problem,) = inspect_head(info)["problems"]
    assert "changes with a prompt's length" in problem


PACKAGE_ROWS, STEPS = 24, 3

FLAGS: list[dict[str, Any]] = [
    {},
    {"norm_before_residual": True, "choices": 11},
    {"fc_norm": True, "norm_output": True},
    {"norm_before_fc": True, "own_embeddings": True},
]


@pytest.mark.usefixtures("without_gradients")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("flags", FLAGS)
def test_states_and_choices_are_the_packages(flags: dict[str, Any], make_llama: Any, tmp_path: Path) -> None:
    package = importlib.import_module("speculators.models.eagle3")
    target: LlamaForCausalLM = make_llama(5, vocabulary=PACKAGE_ROWS, layers=4)
    theirs_embed = target.model.embed_tokens.weight.detach().clone()
    decoder = LlamaDecoder.take_over(target)
    written = save(eagle3(tmp_path / "head", target.config, layout="speculators-eagle3", **flags))
    config = package.Eagle3SpeculatorConfig(**written.config)
    config.transformer_layer_config._attn_implementation = "eager"
    theirs = package.Eagle3DraftModel(config).eval()
    theirs.load_state_dict({"embed_tokens.weight": theirs_embed, **written.tensors}, strict=False)
    head = load_head(read_adapter(str(tmp_path / "head")), decoder)

    features = torch.randn(12, 3 * 64)
    ids = torch.randint(PACKAGE_ROWS, (12,))
    made: list[torch.Tensor] = []
    chosen: list[torch.Tensor] = []
    theirs.norm.register_forward_pre_hook(lambda _, inputs: made.append(inputs[0][0]))
    theirs.norm.register_forward_hook(lambda _, __, output: chosen.append(output[0]))
    with torch.compiler.set_stance("force_eager"):
        theirs(features[None], ids[None], torch.zeros(1, 12, dtype=torch.long), ttt_steps=STEPS)
    guessed = chosen if flags.get("norm_output") else made
    assert len(made) == STEPS

    largest = 0.0
    for length in range(1, 12 - STEPS):
        passes = HeadPass(head, decoder, 4)
        states = head.taken(features[:length], decoder)
        passes.look_back(states[:-1], head.embed(ids[: length - 1], decoder))
        guess = passes.follow(states[-1:], ids[length - 1 : length])
        for step in range(STEPS):
            expected = guessed[step][length - 1]
            largest = max(largest, float((guess[0] - expected).abs().max() / expected.abs().max()))
            own = (theirs.lm_head.weight @ chosen[step][length - 1]).argmax()
            token = own if theirs.d2t is None else own + theirs.d2t[own]
            assert int(passes.logits(guess).argmax()) == int(token)
            guess = passes.follow(guess, ids[length + step : length + step + 1])
    print(f"{flags}: largest difference {largest:.1e} of the largest state")
    assert largest < 1e-4


@pytest.fixture(scope="module")
def medusa_target(make_llama: Any) -> LlamaForCausalLM:
    return make_llama(5, vocabulary=ROWS)


@pytest.fixture(scope="module")
def medusa_decoder(medusa_target: LlamaForCausalLM) -> LlamaDecoder:
    return LlamaDecoder.take_over(medusa_target)


def medusa_drafting(folder: Path, medusa_decoder: LlamaDecoder, **more: Any) -> Any:
    heads = load_medusa(read_adapter(str(folder)), medusa_decoder)
    return lambda one: MedusaDrafter("heads", heads, one, **more)


def said(written: Written, state: torch.Tensor, blocks: int) -> list[torch.Tensor]:
    """Logits of each head on a normed state [H], from the layout."""
    tensors, logits = written.tensors, []
    for head in range(3):
        hidden = state
        for block in range(blocks):
            made = tensors[f"{head}.{block}.linear.weight"] @ hidden + tensors[f"{head}.{block}.linear.bias"]
            hidden = hidden + made * torch.sigmoid(made)
        logits.append(tensors[f"{head}.{blocks}.weight"] @ hidden)
    return logits


@pytest.mark.usefixtures("without_gradients")
@pytest.mark.parametrize("as_bin", [False, True])
@pytest.mark.parametrize("blocks", [1, 2])
def test_rounds_draft_what_each_head_says(
    *, blocks: int, as_bin: bool, medusa_decoder: LlamaDecoder, medusa_target: LlamaForCausalLM, sink, tmp_path
) -> None:
    written = save(medusa(tmp_path / "head", medusa_target.config, blocks=blocks), as_bin=as_bin)
    prompt = kit.prompt_of(3, 9, ROWS)
    expected = kit.plain(medusa_decoder, prompt, Limits(20), sink)
    sink.records.clear()
    done = kit.play(
        kit.cached(medusa_decoder),
        medusa_drafting(tmp_path / "head", medusa_decoder),
        prompt,
        Limits(20),
        sink,
        gamma=5,
    )
    assert done.ids == expected
    length = 1
    for record in sink.of(RoundRecord):
        before = torch.tensor([[*prompt[0].tolist(), *done.ids[: length - 1]]])
        state = medusa_target.model(before).last_hidden_state[0, -1]
        drafted = [int(logits.argmax()) for logits in said(written, state, blocks)][: record.drafted]
        assert record.drafted_ids == ",".join(map(str, drafted))
        assert record.drafted <= 3
        length += record.emitted
    kit.assert_cache_is_fresh(done.target, medusa_target, kit.sequence(prompt, done.ids[:-1]))


@pytest.mark.usefixtures("without_gradients")
@pytest.mark.parametrize("widths", [(3, 2), (2, 2, 2, 2), (30,)])
def test_a_tree_holds_each_heads_likeliest_below_every_node(
    *, widths: tuple[int, ...], medusa_decoder: LlamaDecoder, medusa_target: LlamaForCausalLM, sink, tmp_path
) -> None:
    save(medusa(tmp_path / "head", medusa_target.config))
    make = medusa_drafting(tmp_path / "head", medusa_decoder, widths=widths)
    for seed in range(3):
        prompt = kit.prompt_of(seed, 4, ROWS)
        expected = kit.plain(medusa_decoder, prompt, Limits(24), sink)
        sink.records.clear()
        done = kit.play(kit.cached(medusa_decoder), make, prompt, Limits(24), sink, gamma=len(widths))
        assert done.ids == expected
        nodes, level = 0, 1
        for width in widths[:3]:
            level *= min(width, ROWS)
            nodes += level
        assert sink.of(RoundRecord)[0].drafted == nodes


DAMAGED_HEADS: dict[str, tuple[Callable[[Written], Any], str]] = {
    "no heads": (lambda written: written.tensors.clear(), "holds 0 heads"),
    "a head missing": (lambda written: written.tensors.pop("1.0.linear.bias"), "lacks '1.0.linear.bias'"),
    "another width": (lambda written: written.tensors.update({"0.1.weight": torch.zeros(ROWS, 8)}), "hidden size 8"),
    "another vocabulary": (
        lambda written: written.tensors.update({"0.1.weight": torch.zeros(ROWS + 1, 64)}),
        "25 tokens",
    ),
    "a vector": (lambda written: written.tensors.update({"0.1.weight": torch.zeros(9)}), "holds 3 heads of 1 blocks"),
    "too many heads": (lambda written: written.tensors.update({"99.1.weight": torch.zeros(9, 64)}), "holds 100 heads"),
    "something else": (lambda written: written.tensors.update(more=torch.zeros(1)), "holds 'more'"),
}


@pytest.mark.parametrize("what", DAMAGED_HEADS)
def test_damaged_heads_are_refused(
    what: str, medusa_decoder: LlamaDecoder, medusa_target: LlamaForCausalLM, tmp_path: Path
) -> None:
    damage, sentence = DAMAGED_HEADS[what]
    written = medusa(tmp_path / "head", medusa_target.config)
    damage(written)
    if not written.tensors:
        written.tensors["other"] = torch.zeros(1)
    save(written)
    with pytest.raises(UserError, match=sentence):
        load_medusa(read_adapter(str(tmp_path / "head")), medusa_decoder)
