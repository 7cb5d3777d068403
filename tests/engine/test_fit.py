"""Whether a pair fits, what helps when it does not, and how many samples a device holds."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import asdict, replace
from typing import Any

import pytest
import torch

from engines.fit.advice import BOTH, IN_TURN, REFUSED, PlannedModels, demand, place
from engines.fit.requirements import MemoryNeed, batch_capacity, context_capacity, memory_need, model_shape
from engines.fit.suite_check import SuiteRoom
from engines.fit.verdict import FitQuestion, describe_fit, make_room, memory_size
from engines.hardware.device import AssumedMachine
from engines.loading.warm_models import WarmModels
from engines.loading.weights import load_model
from evprof.core.errors import UserError
from evprof.core.request import RunRequest
from evprof.core.sample import Sample
from evprof.core.vocabulary.generation import GenerationSettings, ModelChoice
from evprof.core.vocabulary.modes import MODES
from evprof.core.vocabulary.speculation import SpeculationSettings
from evprof.core.vocabulary.switches import Switches
from evprof.run.suites.cell import SuiteConfiguration

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


def test_the_published_claim_of_75_samples() -> None:
    """318 MiB of cache for 636 positions give 77 samples in 24 GiB by cache alone; weights leave room for far fewer."""
    found = fit(24, other=None, settings=GenerationSettings(max_new_tokens=1, speculation=SpeculationSettings(gamma=1)))
    model = found["models"][0]
    assert model["batch_capacity"]["kv_bytes_per_sample"] == (582 + 80 + 3) * (1 << 19)
    assert model["batch_capacity"]["naive"] == 73
    assert 0 < model["batch_capacity"]["real"] < 30
    assert model["most_positions"] > 582 + 80
    # Each further frame of EventGPT's is one position, but pictures pass the tower all at once.
    assert model["most_frames"] > model["frames"]


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
    longest = context_capacity(need, shape, settings, 1 << 30)
    assert longest.needed_bytes == need.total_bytes
    assert longest.model.positions(longest.model.frames) == need.positions.total
    exact = context_capacity(need, shape, settings, longest.needed_bytes)
    assert (exact.most_positions, exact.most_frames) == (need.positions.total, longest.model.frames)
