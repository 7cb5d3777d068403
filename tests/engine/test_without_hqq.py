"""What the engine leaves alone when it starts."""

from __future__ import annotations

import importlib.util

import pytest

from apart import run_apart


@pytest.mark.parametrize("first", ["engines.engine", "transformers.cache_utils"])
def test_hqq_is_imported_only_when_a_cache_asks_for_it(first: str) -> None:
    if importlib.util.find_spec("hqq") is None:
        pytest.skip("hqq is not installed")
    told = run_apart(
        f"""
import sys, engines, {first}, transformers.utils
print('hqq' in sys.modules, transformers.utils.is_hqq_available())
from engines.decoder import quantized_kv
quantized_kv.check_cache('hqq4', speculates=False)
print('hqq.core.quantize' in sys.modules, [finder for finder in sys.meta_path if 'engines' in type(finder).__module__])
"""
    )
    assert told.splitlines() == ["False True", "True []"]


def test_transformers_that_were_there_before_stay_as_they_are() -> None:
    told = run_apart(
        "import sys, transformers.cache_utils as before\n"
        "import engines\n"
        "print(before.is_hqq_available is sys.modules['transformers.utils'].is_hqq_available)"
    )
    assert told == "True"
