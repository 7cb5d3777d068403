"""Whether models fit into memory, and what makes them fit."""

from __future__ import annotations

import threading
import weakref
from contextlib import nullcontext
from dataclasses import asdict, replace
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from transformers import CLIPVisionConfig, LlamaConfig

from engines.checkpoints.config import ModelConfig
from engines.decoder.kv_cache import DynamicKv
from engines.decoder.llama import LlamaDecoder
from engines.decoder.quantized_kv import make_cache
from engines.engine import LocalEngine
from engines.families.eventgpt import EventGptConfig
from engines.families.llava_model import LlavaConfig
from engines.fit.advice import BOTH, IN_TURN, REFUSED, PlannedModels, demand, place, shortage
from engines.fit.requirements import (
    MemoryNeed,
    ModelShape,
    batch_capacity,
    memory_need,
    model_shape,
    planned,
    projection_shapes,
    stored_weights,
)
from engines.fit.verdict import FitQuestion, SuiteRoom, describe_fit, make_room, memory_size
from engines.hardware.device import AssumedMachine
from engines.inspection import inspect_checkpoint
from engines.loading.shapes import build_random, random_config
from engines.loading.warm_models import WarmModels
from engines.loading.weights import load_model
from evprof.core.errors import UserError
from evprof.core.protocols import RunEnded
from evprof.core.recording import RecordLog
from evprof.core.request import RunRequest
from evprof.core.sample import Sample
from evprof.core.units import MIB
from evprof.core.vocabulary.generation import GenerationSettings, ModelChoice
from evprof.core.vocabulary.modes import MODES
from evprof.core.vocabulary.speculation import SpeculationSettings
from evprof.core.vocabulary.switches import Switches
from evprof.metrics.limits.memory_need import weight_bytes
from evprof.run.suites.cell import SuiteConfiguration
from evprof.run.suites.spec import parse_suite
from run_logs import saved_runs
from small_models import small_vision
from tensor_names import tensor_names

GIB = 1 << 30
DRAFT, TARGET = ModelChoice("random:7b-eventgpt"), ModelChoice("random:7b-video-llava")
SETTINGS = GenerationSettings()


def fit(gib: float, **changes: Any) -> dict[str, Any]:
    asked: dict[str, Any] = {"model": DRAFT, "other": TARGET, "memory_bytes": int(gib * GIB)}
    return describe_fit(FitQuestion(**(asked | changes)))


def test_a_pair_beside_each_other_in_turn_or_not_at_all() -> None:
    """Two 7B models in bfloat16 take 26.9 GiB of weights: not one 24 GB card, and neither a 12 GB one alone."""
    assert [fit(gib)["placement"] for gib in (32, 24, 12)] == [BOTH, IN_TURN, REFUSED]
    found = fit(24)
    assert [model["role"] for model in found["models"]] == ["draft", "target"]
    assert found["models"][0]["dtype"] == "bfloat16"
    assert found["free_bytes"] == {"cuda:0": 24 * GIB}
    assert found["sentence"].count(".") >= 1
    assert "side by side loads, runs and frees them in turn" in found["sentence"]
    assert fit(32)["advice"] == []


@pytest.mark.parametrize("gib", [28, 24, 16, 12, 8])
def test_every_way_named_makes_them_fit_and_none_is_idle(gib: int) -> None:
    """What the sentence names is applied, option by option, and placed again; without one of its parts it fails."""
    found = fit(gib)
    together = found["placement"] == IN_TURN
    assert found["advice"]
    for way in found["advice"]:
        words = way["change"].split()
        options = dict(zip(words[::2], words[1::2], strict=True))
        assert _fits(options, gib, together)
        for option in options:
            rest = {name: value for name, value in options.items() if name != option}
            assert not _fits(rest, gib, together), f"{option} is not needed in {way['change']}"


def _fits(options: dict[str, str], gib: int, together: bool) -> bool:
    names = {"quant": "quantization", "device": "device", "dtype": "dtype"}
    choices: dict[str, dict[str, str]] = {"draft": {"name": DRAFT.name}, "target": {"name": TARGET.name}}
    switches: dict[str, Any] = {}
    frames: dict[str, int] = {}
    for option, value in options.items():
        role, _, name = option.removeprefix("--").partition("-")
        if role in choices:
            choices[role][names[name]] = value
        elif "frames" in option:
            frames[option.removeprefix("--").replace("-", "_")] = int(value)
        else:
            switches[option.removeprefix("--").replace("-", "_")] = int(value) if value.isdigit() else value
    settings = GenerationSettings(**frames, switches=Switches(**switches))  # type: ignore[arg-type]  # plain numbers
    machine = AssumedMachine(gib * GIB)
    needs = [memory_need(ModelChoice(**choices[role]), role, settings, machine=machine) for role in choices]
    placed = place(needs, {need.device: gib * GIB for need in needs})
    return placed == BOTH or (not together and placed != REFUSED)


def test_the_cheapest_way_comes_first() -> None:
    """What leaves arithmetic alone before int8, int8 before four bits."""
    ways = [way["change"] for way in fit(25)["advice"]]
    assert ways == ["--draft-device cuda:1", "--draft-quant int8", "--draft-quant int4"]
    alone = describe_fit(FitQuestion(ModelChoice(DRAFT.name, device="cpu"), memory_bytes=15 * GIB))
    assert alone["advice"][0]["change"].startswith("--draft-device cuda:0")
    # A prompt of 2 136 positions in one pass is what is too much here.
    tight = memory_need(TARGET, "target", SETTINGS, machine=AssumedMachine(GIB)).total_bytes - (16 << 20)
    assert describe_fit(FitQuestion(TARGET, memory_bytes=tight))["advice"][0]["change"] == "--prefill-chunk 512"


@pytest.mark.parametrize("mode", [key for key, mode in MODES.items() if mode.is_paired])
def test_a_draft_that_keeps_few_visual_tokens_needs_room_for_these(mode: str) -> None:
    """In the modes that draft; elsewhere nobody prunes apart, and the setting counts for nothing."""
    pruned = replace(SETTINGS, speculation=SpeculationSettings(draft_keep=0.1))
    pair = {"draft": DRAFT, "target": TARGET}
    plan = PlannedModels(pair, {role: model_shape(choice) for role, choice in pair.items()}, SETTINGS, 16)
    whole = demand(plan.needs(AssumedMachine(GIB)))["cuda:0"]
    # Less by half of what the pruned positions' keys and values take.
    machine = AssumedMachine(whole - (128 << 20))
    request = RunRequest(mode, Sample("a", "b", "what is this?"), DRAFT, TARGET, pruned)
    roles = request.roles if MODES[mode].drafts else ("draft", "target")
    cell = SuiteConfiguration(mode, DRAFT, TARGET, pruned)
    question = FitQuestion(DRAFT, TARGET, pruned, machine.size_bytes, drafts=MODES[mode].drafts)
    fits = MODES[mode].drafts
    assert SuiteRoom(machine).fits([cell]) == fits
    assert (describe_fit(question)["placement"] == BOTH) == fits
    with nullcontext() if fits else pytest.raises(UserError):
        make_room(request, roles, WarmModels(load_model), machine=machine)


def test_batch_capacity_with_and_without_weights() -> None:
    need = MemoryNeed("m", "draft", "cuda:0", "bfloat16", 13 * GIB, GIB // 4, GIB + GIB // 2, GIB)
    found = batch_capacity(need, 24 * GIB)
    assert asdict(found) == {
        "naive": 96,
        "real": 13,  # (24 - 13 - 1) / (0.25 + 0.5)
        "kv_bytes_per_sample": GIB // 4,
        "activation_bytes_per_sample": GIB // 2,
    }
    assert batch_capacity(need, 12 * GIB).real == 0


@pytest.mark.parametrize(
    ("text", "size"),
    [("24GB", 24 * GIB), ("24 GiB", 24 * GIB), ("8192MB", 8 * GIB), ("0.5g", GIB // 2), ("1TB", 1024 * GIB)],
)
def test_sizes_of_memory(text: str, size: int) -> None:
    assert memory_size(text) == size


def test_a_gpu_of_this_machine_by_what_is_free_on_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine with two GPUs, of which the second is half taken."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda _: 3 * GIB)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda _: GIB)
    room = {0: 18 * GIB, 1: 12 * GIB}
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (room[device.index], 24 * GIB))
    first, second = ModelChoice(DRAFT.name, "cuda:0", "bfloat16"), ModelChoice(TARGET.name, "cuda:1", "bfloat16")
    found = describe_fit(FitQuestion(first, second))
    assert found["free_bytes"] == {"cuda:0": 20 * GIB, "cuda:1": 14 * GIB}
    assert found["placement"] == REFUSED
    assert found["sentence"].startswith("random:7b-video-llava needs 15.87 GiB on cuda:1")
    assert found["advice"][0]["change"] == "--target-device cuda:0"


@pytest.mark.parametrize("name", ["evprof-tiny-eventgpt", "evprof-tiny-video-llava"])
@pytest.mark.parametrize("cache", ["auto", "fp8", "hqq4"])
def test_the_longest_run_is_reckoned_as_the_need_is(name: str, cache: str) -> None:
    settings = GenerationSettings(switches=Switches(cache=cache))
    shape = model_shape(ModelChoice(name))
    need = memory_need(ModelChoice(name), "target", settings, shape=shape)
    model, bytes_ = planned(need, shape, settings), need.total_bytes
    assert model.needed_bytes(need.positions.total, model.frames) == bytes_
    assert model.positions(model.frames) == need.positions.total
    assert (model.most_positions(bytes_), model.most_frames(bytes_)) == (need.positions.total, model.frames)


def need(name: str, gib: int, *, device: str = "cpu", dtype: str = "float32") -> MemoryNeed:
    return MemoryNeed(name, "draft", device, dtype, gib * GIB - 2, 1, 1)


def test_both_one_or_none_fit() -> None:
    pair = [need("a", 4), need("b", 6)]
    assert place(pair, {"cpu": 10 * GIB}) == BOTH
    assert place(pair, {"cpu": 10 * GIB - 1}) == IN_TURN
    assert place(pair, {"cpu": 6 * GIB}) == IN_TURN
    assert place(pair, {"cpu": 6 * GIB - 1}) == REFUSED
    assert shortage(pair, {"cpu": 6 * GIB - 1}).startswith("b needs 6.00 GiB on cpu (weights 6.00 GiB, KV cache 1 B")
    assert shortage(pair, {"cpu": 9 * GIB}) == "a and b need 10.00 GiB together on cpu, but 9.00 GiB is free"


def test_needs_follow_the_published_figures() -> None:
    """EventGPT-7B: 13.19 GiB in bfloat16; LLaMA-7B's cache: 0.5 MiB a position in 16 bits."""
    choice = ModelChoice("random:7b-eventgpt", device="cpu", dtype="bfloat16")
    found = memory_need(
        choice, "draft", GenerationSettings(max_new_tokens=128, speculation=SpeculationSettings(gamma=5)), question=16
    )
    assert found.weight_bytes == 2 * 7_079_684_096
    assert found.kv_bytes == (582 + 80 + 128 + 5 + 1) * 512 * 1024
    assert 0 < found.activation_bytes < 2 * GIB
    more = memory_need(choice, "draft", GenerationSettings(max_new_tokens=128, event_frames=9))
    assert more.kv_bytes - found.kv_bytes == 4 * 512 * 1024
    llava = memory_need(ModelChoice("random:7b-llava", dtype="bfloat16", device="cpu"), "target", GenerationSettings())
    assert llava.kv_bytes == (8 * 576 + 80 + 134) * 512 * 1024
    assert llava.weight_bytes == 2 * 7_063_427_072


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("int8", 4096 * (1008 + 4)), ("int4", 4096 * 8 * (64 + 2)), ("nf4", 4096 * 500 + 64_000 * 4 + 64)],
)
def test_a_quantized_matrix(kind: str, expected: int) -> None:
    assert weight_bytes(kind, 4096, 1000, 2) == expected
    assert weight_bytes(None, 4096, 1000, 2) == 2 * 4096 * 1000


def test_only_the_projections_are_quantized() -> None:
    """Embeddings, head, tower and projector keep their dtype: LLaMA-7B has 6,476,005,376 weights in its projections."""
    shape = model_shape(ModelChoice("random:7b-eventgpt"))
    inside = sum(rows * columns for rows, columns in shape.matrices)
    assert inside == 32 * (4 * 4096 * 4096 + 3 * 4096 * 11008) == 6_476_005_376
    outside = 2 * (7_079_684_096 - inside)
    assert stored_weights(shape, None, 2) == outside + 2 * inside
    rows = sum(rows for rows, _ in shape.matrices)
    assert stored_weights(shape, "int8", 2) == outside + inside + 4 * rows
    assert stored_weights(shape, "int4", 2) == outside + inside // 2 + inside // 128 * 2


def test_a_7b_eventgpt_has_exactly_the_published_tensors() -> None:
    found = inspect_checkpoint("random:7b-eventgpt")
    assert found["tensors"] == 688
    assert found["parameters"] == 7_079_684_096
    assert found["family"] == "eventgpt"
    assert found["model_type"] == "EventChat_llama"
    assert found["visual_tokens_per_frame"] == 577
    assert found["context_limit"] == 4096
    assert found["missing"] == found["surplus"] == found["problems"] == []
    names = tensor_names(random_config("random:7b-eventgpt"))
    assert len(set(names)) == 688
    assert sum(name.startswith("model.visual_tower.visual_tower.vision_model.") for name in names) == 391
    assert sum(name.startswith(("model.layers.", "model.norm", "model.embed", "lm_head")) for name in names) == 291


@pytest.mark.parametrize(
    ("name", "parameters", "per_frame"),
    [("random:7b-llava", 7_063_427_072, 576), ("random:7b-video-llava", 7_366_279_168, 257)],
)
def test_the_other_7b_shapes(name: str, parameters: int, per_frame: int) -> None:
    found = inspect_checkpoint(name)
    assert found["parameters"] == parameters
    assert found["visual_tokens_per_frame"] == per_frame
    assert inspect_checkpoint(name)["bytes"] is None


def test_random_text_is_varied_and_the_same_every_time() -> None:
    never = threading.Event()
    told: list[tuple[int, int]] = []
    choice = ModelChoice("random:160m-eventgpt", device="cpu", dtype="float32")
    model = load_model(choice, "draft", lambda done, total: told.append((done, total)), never)
    assert told[-1][0] == told[-1][1] == model.facts.weight_bytes
    assert model.facts.layers == 12
    assert model.facts.kv_heads * model.facts.head_dim == 768
    with torch.inference_mode():
        given = torch.tensor([[model.vocabulary.bos_id, *model.vocabulary.encode("What is in the scene?")]])
        ids: list[int] = []
        decoder = model.language_model
        cache = DynamicKv(len(decoder.layers))
        for _ in range(40):
            given = decoder(decoder.embed(given), cache)[:, -1:].argmax(-1)
            ids.append(int(given))
    assert len(set(ids)) >= 30
    text = model.vocabulary.decode(ids)
    assert not set(ids) & {0, 1, 2}
    assert len(text.split()) >= 30
    again = build_random(random_config(choice.name), torch.device("cpu"), torch.float32, lambda *_: None, never)
    assert torch.equal(
        again.language_model.lm_head.weight,
        model.language_model.lm_head.weight,
    )


UNIT = 4 * 10**6
"""Bytes; next to it a cache and activations of the models here are nothing."""

SIZES = {"small": 10, "large": 80, "other": 60, "huge": 500}
"""Models by name, in units of float32 weights."""


def sized(choice: ModelChoice) -> ModelShape:
    """A small language model that claims so many parameters; half of them can be quantized."""
    config = EventGptConfig(
        CLIPVisionConfig(hidden_size=8, intermediate_size=8, image_size=28, patch_size=14, num_attention_heads=1),
        LlamaConfig(vocab_size=100, hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=1),
    )
    parameters = SIZES[choice.name] * UNIT // 4
    assert sum(rows * columns for rows, columns in projection_shapes(config)) < parameters
    return ModelShape(choice.name, config, parameters, ((parameters // 2000, 1000),))


class Weightless:
    """A loaded model that takes no memory."""

    device = torch.device("cpu")
    language_model = torch.nn.Identity()

    def release(self) -> None:
        """It keeps nothing."""


@pytest.fixture
def loaded() -> list[str]:
    """Names of models whose loading was begun."""
    return []


@pytest.fixture
def warm(monkeypatch: pytest.MonkeyPatch, loaded: list[str]) -> WarmModels:
    def load(choice: ModelChoice, *_: Any) -> Any:
        loaded.append(choice.name)
        return Weightless()

    held = WarmModels(load)
    free = lambda _: UNIT * (101 - sum(SIZES[choice.name] for choice, _ in held._held))  # noqa: E731 - short
    monkeypatch.setattr("engines.hardware.device.free_bytes", free)
    monkeypatch.setattr("engines.fit.verdict.model_shape", sized)
    return held


def load(warm: WarmModels, name: str, role: str) -> None:
    warm.get(ModelChoice(name, device="cpu"), role, lambda *_: None, threading.Event())


def request(mode: str, draft: str, target: str) -> RunRequest:
    models = ModelChoice(draft, device="cpu"), ModelChoice(target, device="cpu")
    return RunRequest(mode, Sample("a", "b", "?"), *models, GenerationSettings(max_new_tokens=1))


def room(warm: WarmModels, mode: str, draft: str, target: str, *roles: str) -> set[str]:
    make_room(request(mode, draft, target), roles, warm)
    return {choice.name for choice, _ in warm._held}


def test_what_fits_stays(warm: WarmModels) -> None:
    load(warm, "other", "target")
    assert room(warm, "side-by-side", "small", "small", "draft") == {"other"}


def test_models_of_earlier_requests_go_first(warm: WarmModels) -> None:
    load(warm, "other", "target")
    load(warm, "small", "draft")
    assert room(warm, "side-by-side", "small", "large", "target") == {"small"}


def test_side_by_side_goes_in_turn(warm: WarmModels) -> None:
    load(warm, "other", "draft")
    assert room(warm, "side-by-side", "other", "large", "target") == set()


def test_speculation_without_room_for_both_is_refused_with_what_helps(warm: WarmModels) -> None:
    with pytest.raises(UserError, match=r"other and large need .* together on cpu, but .* is free") as caught:
        room(warm, "speculative", "other", "large", "draft", "target")
    # 60 + 80 in float32: either one in bfloat16 frees 30 or 40, which is not enough for 140 of 101 with the first.
    assert "--target-dtype bfloat16 (" in caught.value.sentence
    assert "--draft-dtype bfloat16 (" not in caught.value.sentence


def test_one_that_never_fits_is_refused(warm: WarmModels) -> None:
    with pytest.raises(UserError, match=r"huge needs .* no dtype, quantization or cache makes it fit"):
        room(warm, "target", "small", "huge", "target")


@pytest.mark.parametrize("mode", ["speculative", "parallel-prefill"])
def test_a_refused_run_reads_no_weight(warm: WarmModels, loaded: list[str], sink: Any, mode: str) -> None:
    """The run ends as failed with the sentence, and the loader was never called."""

    def must_not_load(*_: Any) -> Any:
        raise AssertionError("weights were read")

    engine = LocalEngine(loader=must_not_load)
    engine.run(request(mode, "other", "large"), sink, threading.Event())
    ended = [message for message in sink.messages if isinstance(message, RunEnded)]
    assert [message.status for message in ended] == ["failed"]
    assert "other and large need" in str(ended[0].error)
    assert "what fits: --" in str(ended[0].error)
    assert loaded == []


PAIR = {"draft": "random:7b-eventgpt", "target": "random:7b-llava"}


def cells(**settings: object) -> tuple[SuiteConfiguration, ...]:
    return parse_suite({"settings": {"mode": "side-by-side", **settings}}, "grid").cells


def test_a_seven_billion_pair_stays_on_a_card_of_forty_and_not_of_twenty_four() -> None:
    asked = cells(**PAIR)
    assert SuiteRoom(AssumedMachine(40 << 30)).fits(asked)
    assert not SuiteRoom(AssumedMachine(24_000 * MIB)).fits(asked)


def test_the_same_weights_count_once_and_other_dtypes_again() -> None:
    room = SuiteRoom(AssumedMachine(20 << 30))
    one = parse_suite({"settings": {"mode": "draft", **PAIR}, "axes": {"event_frames": [1, 5]}}, "grid")
    two = parse_suite({"settings": {"mode": "draft", **PAIR}, "axes": {"dtype": ["bfloat16", "float16"]}}, "grid")
    assert room.fits(one.cells)
    assert not room.fits(two.cells)


def test_contexts_are_passed_by_frames() -> None:
    room = SuiteRoom(AssumedMachine(40 << 30))
    raw = {"settings": {"mode": "target", "target": "evprof-tiny-video-llava"}, "axes": {"frames": [8, 64]}}
    few, many = parse_suite(raw, "grid").cells
    assert room.past_context(few) is None
    sentence = room.past_context(many)
    assert sentence is not None
    assert "2,048 positions" in sentence


def test_a_model_that_is_not_there_is_left_to_its_rows() -> None:
    room = SuiteRoom(AssumedMachine(40 << 30))
    (cell,) = parse_suite({"settings": {"mode": "draft", "draft": "/nowhere/at/all"}}, "grid").cells
    assert room.fits([cell])
    assert room.past_context(cell) is None
    assert room.family_of("/nowhere/at/all") is None
    assert room.family_of("random:7b-eventgpt") == "eventgpt"


SHORT = GenerationSettings(max_new_tokens=6, frames=4)
VISION = small_vision(hidden_size=64, intermediate_size=256, num_hidden_layers=3, num_attention_heads=2, image_size=112)
TEXT = LlamaConfig(
    vocab_size=32_000, hidden_size=128, intermediate_size=344, num_hidden_layers=3, num_attention_heads=4
)


class Allocations(TorchDispatchMode):
    """Counts bytes of storages that are alive at once among those made inside."""

    def __init__(self) -> None:
        super().__init__()
        self.peak = 0
        self._alive: dict[int, int] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = {leaf.untyped_storage()._cdata for leaf in _tensors((args, kwargs))}
        result = func(*args, **(kwargs or {}))
        for leaf in _tensors(result):
            storage = leaf.untyped_storage()
            if storage._cdata not in given and storage._cdata not in self._alive:
                self._alive[storage._cdata] = storage.nbytes()
                _when_freed(storage, self._alive)
        self.peak = max(self.peak, sum(self._alive.values()))
        return result


def _tensors(value: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def _when_freed(storage: torch.UntypedStorage, alive: dict[int, int]) -> None:
    weakref.finalize(storage, alive.pop, storage._cdata, None)


@pytest.mark.parametrize("name", ["evprof-tiny-eventgpt", "evprof-tiny-video-llava"])
def test_weights_and_cache_are_exact(name: str, sample: Any) -> None:
    role = "draft" if "eventgpt" in name else "target"
    choice = ModelChoice(name, device="cpu")
    recording = RecordLog()
    engine = LocalEngine(loader=load_model)
    draft, target = (choice, None) if role == "draft" else (None, choice)
    engine.run(RunRequest(role, sample, draft, target, SHORT), recording, threading.Event())
    engine.close()
    (run,) = saved_runs(recording)
    assert run.info.status == "finished", run.info.error
    need = memory_need(choice, role, SHORT)
    assert need.weight_bytes == run.info.models[role].weight_bytes
    assert need.positions.visual == run.info.lengths[role].visual
    spare = need.positions.prompt - run.info.lengths[role].input
    assert 0 <= spare < 112
    position = need.kv_bytes // need.positions.total
    assert run.info.kv[role].reserved_bytes == need.kv_bytes - spare * position


def config_of(family: str) -> ModelConfig:
    return (
        EventGptConfig(VISION, TEXT)
        if family == "eventgpt"
        else LlavaConfig(VISION, TEXT, family="llava", slot_id=31_999)
    )


@pytest.mark.parametrize("family", ["eventgpt", "llava"])
@pytest.mark.parametrize("chunk", [0, 32])
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_activations_are_close(family: str, chunk: int, attention: str) -> None:
    """The largest moment of a vision pass and a prefill, counted tensor by tensor, is hardly above what was said."""
    config = config_of(family)
    network = build_random(config, torch.device("cpu"), torch.float32, lambda *_: None, threading.Event())
    decoder = LlamaDecoder.take_over(network.language_model)
    decoder.attention = attention
    settings = GenerationSettings(frames=4, event_frames=4, switches=Switches(attention=attention, prefill_chunk=chunk))
    shape = ModelShape("m", config, 1, ())
    choice = ModelChoice("m", device="cpu", dtype="float32")
    need = memory_need(choice, "draft", settings, machine=AssumedMachine(1), shape=shape)
    pixels = torch.zeros(4, 3, 112, 112)
    with torch.inference_mode():
        network.encode_frames(pixels)  # fuses weights
        with Allocations() as vision:
            network.encode_frames(pixels)
        embeddings = torch.zeros(1, need.positions.prompt, 128)
        cache = make_cache(
            "static",
            decoder.config,
            capacity=need.positions.total,
            device=torch.device("cpu"),
            dtype=torch.float32,
        )
        with Allocations() as prefill:
            for part in embeddings.split(chunk or embeddings.shape[1], dim=1):
                decoder(part, cache)
    counted = max(vision.peak, prefill.peak + embeddings.nbytes)
    assert 0.8 * need.activation_bytes <= counted <= 1.02 * need.activation_bytes
