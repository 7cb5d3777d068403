"""Stage vision on a GPU: it computes what a CPU computes, and nobody waits. Skipped where there is none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
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
        visual = model.encode_vision(prepared(model, sample, asked(**switches)), CLOCK)
        assert visual.device.type == torch.device(device).type
        found.append(visual.cpu())
    assert torch.allclose(found[0], found[1], atol=1e-3 * float(found[0].abs().max()), rtol=0)


@pytest.mark.parametrize(
    "switches",
    [{}, {"visual_keep": 0.5}, {"visual_keep": 0.5, "prune_by": "similarity"}, {"projector": "fused"}],
    ids=str,
)
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_nothing_waits_for_the_device(
    family: str, switches: dict[str, Any], dtype: torch.dtype, make_model: Callable[..., Any], sample: Any
) -> None:
    model = make_model(family, device="cuda:0", dtype=dtype)
    settings = asked(**switches, vision_cache="memory")
    model.make_ready(settings)
    inputs = prepared(model, sample, settings)
    torch.cuda.set_sync_debug_mode("error")
    try:
        fresh = model.encode_vision(inputs, CLOCK)
        kept = model.encode_vision(inputs, CLOCK)
        model.embed_prompt(inputs, kept)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert torch.equal(fresh, kept)


def test_a_disk_gives_back_what_the_device_made(
    make_model: Callable[..., Any], sample: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engines.stages.vision_cache.cache_folder", lambda: tmp_path)
    model = make_model("video_llava", device="cuda:0", dtype=torch.bfloat16)
    inputs = prepared(model, sample, asked(vision_cache="disk"))
    fresh = model.encode_vision(inputs, CLOCK)
    kept = model.encode_vision(inputs, CLOCK)
    assert kept.device == fresh.device
    assert torch.equal(fresh, kept)
