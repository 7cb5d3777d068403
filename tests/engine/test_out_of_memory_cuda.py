"""On a GPU whose memory is taken: a failed run in a sentence, and the next one works. Skipped where there is none."""

from __future__ import annotations

import pytest
import torch

from engines.engine import LocalEngine
from evprof.core.request import RunRequest
from evprof.core.run_log import RunLog
from evprof.core.vocabulary.generation import GenerationSettings, ModelChoice
from evprof.core.vocabulary.speculation import SpeculationSettings
from evprof.core.vocabulary.switches import Switches
from run_logs import runs_of

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")

_LEAST = 512
"""Bytes of the allocator's smallest block."""


def take_everything() -> list[torch.Tensor]:
    """All of the GPU's memory that PyTorch can get."""
    torch.cuda.empty_cache()
    held: list[torch.Tensor] = []
    size = 1 << (torch.cuda.mem_get_info()[0].bit_length() - 1)
    while size >= _LEAST:
        try:
            held.append(torch.empty(size, dtype=torch.uint8, device="cuda:0"))
        except torch.OutOfMemoryError:
            size //= 2
    return held


@pytest.mark.parametrize("step", ["eager", "graphs"])
@pytest.mark.parametrize("mode", ["target", "speculative", "parallel-prefill"])
def test_a_full_gpu_fails_the_run_and_not_the_next_one(make_model, sample, mode: str, step: str) -> None:
    models = {
        role: make_model(family, device="cuda:0") for role, family in (("draft", "eventgpt"), ("target", "video_llava"))
    }
    engine = LocalEngine(loader=lambda choice, role, *_: models[role], make_room=lambda *_: None)
    settings = GenerationSettings(
        max_new_tokens=12, switches=Switches(step=step), speculation=SpeculationSettings(hidden=4)
    )
    choices = (ModelChoice("tiny-draft", device="cuda:0"), ModelChoice("tiny-target", device="cuda:0"))

    def carry_out() -> RunLog:
        return runs_of(engine, RunRequest(mode, sample, *choices, settings))[-1]

    # Twice: kernels are loaded, and what a run leaves behind is left behind.
    carry_out()
    expected = carry_out()
    assert (expected.info.status, expected.info.error) == ("finished", None)
    held = take_everything()
    try:
        failed = carry_out().info
    finally:
        del held
        torch.cuda.empty_cache()
    assert failed.status == "failed"
    assert failed.error.startswith("Memory ran out on cuda:0 ")
    assert "; choose " in failed.error
    again = carry_out()
    assert (again.info.status, again.info.error) == ("finished", None)
    assert [token.token_id for token in again.tokens] == [token.token_id for token in expected.tokens]
    engine.close()
