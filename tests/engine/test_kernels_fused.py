"""The fused step and layers over many positions, in Triton's interpreter."""

from __future__ import annotations

import pytest

import interpreter


@pytest.mark.whole
@pytest.mark.parametrize("name", ["attention_kernel", "fused_layers", "fused_step"])
def test_in_the_interpreter(name: str) -> None:
    pytest.importorskip("triton")
    print(interpreter.passes(name))
