"""Stage vision on a GPU: it computes what a CPU computes. Skipped where there is none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from engines.measuring.timing import NullClock
from evprof.core.vocabulary.generation import GenerationSettings
from evprof.core.vocabulary.switches import Switches

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    pytest.mark.usefixtures("without_gradients"),
]

FAMILIES = ("eventgpt", "llava", "video_llava", "llava_next_video")
CLOCK = NullClock()


@pytest.fixture(autouse=True)
def exact() -> Iterator[None]:
    """Convolutions in full float32, so that a CPU can be compared with."""
    before = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = False
    yield
    torch.backends.cudnn.allow_tf32 = before


def asked(**switches: Any) -> GenerationSettings:
    return GenerationSettings(max_new_tokens=4, frames=3, event_frames=3, switches=Switches(**switches))


def prepared(model: Any, sample: Any, settings: GenerationSettings) -> Any:
    return model.preprocess(model.load(sample, settings, CLOCK), "What?", settings, CLOCK)


@pytest.mark.parametrize("switches", [{}, {"visual_keep": 0.5}, {"projector": "fused"}], ids=str)
@pytest.mark.parametrize("family", FAMILIES)
def test_equal_to_the_cpu(family: str, switches: dict[str, Any], make_model: Callable[..., Any], sample: Any) -> None:
    found = []
    for device in ("cpu", "cuda:0"):
        model = make_model(family, device=device)
        model.make_ready(asked(**switches))
        visual = model.encode_vision(prepared(model, sample, asked(**switches)), CLOCK)
        assert visual.device.type == torch.device(device).type
        found.append(visual.cpu())
    for each in found[1:]:
        assert torch.allclose(found[0], each, atol=1e-3 * float(found[0].abs().max()), rtol=0)
