"""Stage vision on a GPU: it computes what a CPU computes, captured or not, and nobody waits. Skipped where there is
none."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from engines.decoder import fused_check
from engines.decoder.fused_check import compare
from engines.families.clip_tower import CapturedTower, ClipTower
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
def exact(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Convolutions in full float32, so that a CPU can be compared with.

    The models of `make_model` are 32 wide: the largest errors of two right passes vary by a third in float32.
    """
    monkeypatch.setattr(fused_check, "MOST_RATIO", 2.0)
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
    for device, step in (("cpu", "auto"), ("cuda:0", "eager"), ("cuda:0", "auto")):
        model = make_model(family, device=device)
        model.make_ready(asked(**switches, step=step))
        visual = model.encode_vision(prepared(model, sample, asked(**switches)), CLOCK)
        assert visual.device.type == torch.device(device).type
        assert model.network.tower.problem is None
        assert model.vision_pass == ("graphs" if (device, step) == ("cuda:0", "auto") else "eager")
        found.append(visual.cpu())
    for each in found[1:]:
        assert torch.allclose(found[0], each, atol=1e-3 * float(found[0].abs().max()), rtol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_a_captured_tower_is_as_exact_as_the_eager_one(dtype: torch.dtype, make_model: Callable[..., Any]) -> None:
    """For pixels that it was not captured with; memory of other work lies where its own must not."""
    model = make_model("video_llava", device="cuda:0", dtype=dtype)
    exact: ClipTower = deepcopy(model.network).double().tower
    tower: CapturedTower = model.network.tower
    tower.capture_for({3, 8}, model.language_model)
    assert tower.problem is None
    for frames in (8, 3, 8):
        pixels = torch.randn(frames, 3, 56, 56, device="cuda:0", dtype=dtype)
        eager = ClipTower.__call__(tower, pixels).last
        beside = [torch.randn_like(eager) for _ in range(50)]
        found = tower(pixels).last
        assert tower.taken == "graphs"
        assert compare("the tower", exact(pixels.double()).last, eager=eager, candidate=found).problem == ""
        del beside


def test_a_captured_tower_is_one_launch(make_model: Callable[..., Any]) -> None:
    model = make_model("video_llava", device="cuda:0", dtype=torch.bfloat16)
    tower: CapturedTower = model.network.tower
    tower.capture_for({8}, model.language_model)
    pixels = torch.randn(8, 3, 56, 56, device="cuda:0", dtype=torch.bfloat16)
    counts = []
    for run in (tower, lambda given: ClipTower.__call__(tower, given)):
        run(pixels)
        torch.cuda.synchronize()
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], acc_events=True) as profiler:
            run(pixels)
            torch.cuda.synchronize()
        names = [event.name for event in profiler.events() or ()]
        counts.append(
            [sum(bool(re.match(kind, name)) for name in names) for kind in ("cu(da)?GraphLaunch", "cu(da)?Launch")]
        )
    assert counts[0] == [1, 0]
    assert counts[1][0] == 0
    assert counts[1][1] >= 10 * len(tower.layers)
