"""Pixel values on a GPU: looked up there, number for number those of the CPU, sent without anybody waiting."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from engines.measuring.timing import NullClock
from engines.stages.pixel_values import ClipTransform, PixelValues, level_table, looked_up
from pretended_cuda import GPU, PretendedCuda

CPU = torch.device("cpu")


def every_level(edge: int = 28) -> list[np.ndarray[Any, np.dtype[np.uint8]]]:
    """Pictures in which each channel has all of its levels."""
    pixels = np.arange(3 * edge * edge).reshape(edge, edge, 3) // 3
    return [((pixels + shift) % 256).astype(np.uint8) for shift in (0, 77)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("more", [{}, {"mean": (0.5, 0.4, 0.3), "std": (0.1, 0.2, 0.3), "rescale_factor": 1 / 127.5}])
def test_looked_up_numbers_are_the_cpus(dtype: torch.dtype, more: dict[str, Any]) -> None:
    transform, cuts = ClipTransform(28, (28, 28), **more), every_level()
    expected = torch.from_numpy(transform.stacked(cuts)).to(dtype)
    found = looked_up(torch.from_numpy(np.stack(cuts)), level_table(transform, dtype))
    assert found.is_contiguous()
    assert torch.equal(found, expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_pictures_are_sent_as_bytes_and_nobody_waits(dtype: torch.dtype) -> None:
    transform, cuts, noted = ClipTransform.square(28), every_level(), []

    span: Any = type("Span", (), {"output": lambda self, name, value: noted.append((name, value.dtype))})()
    with PretendedCuda() as pretended:
        values = PixelValues(transform, cuts, GPU, dtype)
        values.begin(NullClock())
        values.send(span)
        found = values.finish(NullClock())
        assert found.device == GPU
        assert pretended.waits == []
    assert noted == [("pictures", torch.uint8)]
    on_cpu = PixelValues(transform, cuts, CPU, dtype)
    on_cpu.begin(NullClock())
    on_cpu.send(span)
    assert torch.equal(found, on_cpu.finish(NullClock()))
