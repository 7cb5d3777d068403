"""Every record of the vocabulary has its half in the engine."""

from __future__ import annotations

from engines.families.networks import ENGINE_FAMILIES, engine_family
from engines.loading.shapes import random_config
from engines.modes.measured_run import STRATEGIES
from engines.modes.strategies import DRAFTER_MAKERS
from engines.training.trainees import TRAINEE_MAKERS
from evprof.core.vocabulary.drafters import DRAFTERS, TAUGHT_KINDS
from evprof.core.vocabulary.families import FAMILIES
from evprof.core.vocabulary.modes import MODES


def test_every_record_is_carried_out() -> None:
    assert set(DRAFTER_MAKERS) == set(DRAFTERS)
    assert set(TRAINEE_MAKERS) == set(TAUGHT_KINDS)
    assert set(STRATEGIES) == {mode.strategy for mode in MODES.values()}
    assert set(ENGINE_FAMILIES) == set(FAMILIES)


def test_every_family_describes_its_own_random_model() -> None:
    for key in FAMILIES:
        config = random_config(f"random:160m-{FAMILIES[key].word}")
        assert config.family == engine_family(key).key == key
