"""The fused step's attention and the whole step, in Triton's interpreter and in its compiler."""

from __future__ import annotations

import pytest

import interpreter


@pytest.mark.whole
@pytest.mark.parametrize("name", ["attention_kernel", "fused_step"])
def test_in_the_interpreter(name: str) -> None:
    pytest.importorskip("triton")
    print(interpreter.passes(name))
