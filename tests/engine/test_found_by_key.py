"""A family, a drafter, a trained kind and a mode are found by their key alone: a record and a file are all it takes."""

from __future__ import annotations

import sys
from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest
import torch

from engines.drafters.choice import make_drafter
from engines.drafters.drafter import DraftSide
from engines.drafters.lookup_drafter import LookupDrafter
from engines.families.family import engine_family, read_config
from engines.families.llava import VideoLlavaFamily
from engines.loading.shapes import random_config
from engines.modes.plain_run import PlainRun
from engines.modes.strategy import strategy_of
from engines.training.trainee import TraineeSide, make_trainee
from evprof.core.vocabulary.drafters import DRAFTERS, KINDS
from evprof.core.vocabulary.families import FAMILIES
from evprof.core.vocabulary.generation import GenerationSettings
from evprof.core.vocabulary.modes import MODES


def module(monkeypatch: pytest.MonkeyPatch, name: str, **holds: Any) -> None:
    made = ModuleType(name)
    vars(made).update(holds)
    monkeypatch.setitem(sys.modules, name, made)


def test_a_family_is_a_record_and_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    record = replace(FAMILIES["video_llava"], key="dummy", model_type="dummy_llava", image_size=28)
    monkeypatch.setitem(FAMILIES, "dummy", record)
    module(monkeypatch, "engines.families.dummy", FAMILY=VideoLlavaFamily("dummy"))
    (tmp_path / "config.json").write_text('{"model_type": "dummy_llava"}')
    config = read_config(tmp_path)
    assert (config.family, config.model_type, config.vision.image_size) == ("dummy", "dummy_llava", 28)
    assert engine_family("dummy").visual_counts(config, 3, GenerationSettings()).total == 3 * (2 * 2 + 1)


def test_a_drafter_is_a_record_and_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(DRAFTERS, "dummy", replace(DRAFTERS["lookup"], key="dummy"))
    module(
        monkeypatch,
        "engines.drafters.dummy_drafter",
        make=lambda side: LookupDrafter(torch.device("cpu"), side.eos_ids),
    )
    settings = GenerationSettings()
    asked = replace(settings, speculation=replace(settings.speculation, drafter="dummy"))
    nothing: Any = None
    drafter, facts = make_drafter(asked, DraftSide(nothing, nothing, frozenset({2})))
    assert isinstance(drafter, LookupDrafter)
    assert (facts.kind, facts.adapter, facts.shared_ids) == ("dummy", None, None)


def test_a_trained_kind_is_found_with_its_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KINDS, "dummy", replace(KINDS["lora"], key="dummy", sizes={"depth": (1, 3)}))
    monkeypatch.setattr("engines.training.trainee.TAUGHT_KINDS", ("dummy",))
    module(monkeypatch, "engines.training.dummy_trainee", make=lambda side: side.size("depth", 1))
    nothing: Any = None
    made: Any = make_trainee("dummy", TraineeSide(nothing, sizes={"depth": 3}))
    assert made == 3


def test_a_mode_is_a_record_and_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    class DummyRun(PlainRun):
        """Another strategy."""

    monkeypatch.setitem(MODES, "dummy-mode", replace(MODES["speculative"], key="dummy-mode", strategy="dummy"))
    module(monkeypatch, "engines.modes.dummy_run", DummyRun=DummyRun)
    assert strategy_of("dummy-mode") is DummyRun
    assert {strategy_of(mode).__name__ for mode in MODES} == {
        "DummyRun",
        "PlainRun",
        "SpeculativeRun",
        "ParallelRun",
        "KvAdaptedRun",
    }


def test_every_family_has_its_half_here() -> None:
    for key in FAMILIES:
        config = random_config(f"random:160m-{FAMILIES[key].word}")
        assert config.family == engine_family(key).key == key
