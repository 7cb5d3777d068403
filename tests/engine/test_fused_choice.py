"""When the fused step is taken, without its kernels: what is refused, what follows it."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from engines.decoder import step_choice
from engines.decoder.llama import BlockShape, LlamaDecoder
from engines.decoder.step_choice import DecodeSteps, StepPlan
from evprof.core.vocabulary.switches import Switches

CPU = torch.device("cpu")
PLAN = StepPlan((1,), 20, 64)


class Made:
    """A step that is ready, or fails as `says`."""

    def __init__(self, kind: str, says: str = "") -> None:
        self.kind, self.says = kind, says
        self.problem: str | None = None
        self.prefill_problem = ""

    def compile_for(self, blocks: Any, *, batch: int = 1) -> float:
        if self.says:
            raise RuntimeError(self.says)
        return 5.0


class Graphs(Made):
    """What is taken where nothing is fused."""

    def __init__(self, _: Any) -> None:
        super().__init__("graphs")

    def release(self) -> None:
        """Nothing."""


@pytest.fixture
def on_cuda(make_llama: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Steps of a model that says it is on a GPU; the fused one fails as told."""
    decoder = LlamaDecoder.take_over(make_llama(1))

    def steps(*, says: str = "", problem: str = "") -> DecodeSteps:
        monkeypatch.setattr(LlamaDecoder, "device", torch.device("cuda:0"))
        monkeypatch.setattr(step_choice, "FusedGraphs", lambda _: Made("fused", says))
        monkeypatch.setattr(step_choice, "GraphStep", Graphs)
        monkeypatch.setattr(step_choice, "_prepare", lambda step, plan: step.compile_for(plan.blocks))
        monkeypatch.setattr(step_choice, "fusing_problem", lambda _: problem)
        return DecodeSteps(decoder)

    return steps


@pytest.mark.parametrize(
    ("asked", "how", "taken", "sentence"),
    [
        ("fused", {}, "fused", None),
        ("auto", {}, "fused", None),
        ("auto", {"problem": "it has no Triton"}, "graphs", "it has no Triton"),
        ("fused", {"problem": "it has no Triton"}, "graphs", "it has no Triton"),
        ("fused", {"says": "its logits are wrong."}, "graphs", "its logits are wrong"),
        ("auto", {"says": "its logits are wrong."}, "graphs", "its logits are wrong"),
        ("graphs", {}, "graphs", None),
        ("eager", {}, "eager", None),
    ],
)
def test_fused_is_taken_by_default(on_cuda: Any, asked: str, how: Any, taken: str, sentence: str | None) -> None:
    chosen = on_cuda(**how).choose(Switches(step=asked), PLAN)
    assert chosen.kind == taken
    because = f"The decode step is not fused but captured as a CUDA graph: {sentence}."
    assert chosen.sentence == (because if sentence else None)


def test_attention_asked_for_is_not_overruled(on_cuda: Any) -> None:
    for asked in ("fused", "auto"):
        chosen = on_cuda().choose(Switches(step=asked, attention="sdpa"), PLAN)
        assert chosen.kind == "graphs"
        assert "attention sdpa was asked for" in chosen.sentence


def test_cudnn_attends_in_a_prefill_of_a_fused_step(on_cuda: Any) -> None:
    assert on_cuda().choose(Switches(attention="cudnn"), PLAN).kind == "fused"


def test_a_prefill_that_fails_its_check_is_told(on_cuda: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    steps, made = on_cuda(), Made("fused")
    made.prefill_problem = "layer 1 of a prefill is wrong"
    monkeypatch.setattr(step_choice, "FusedGraphs", lambda _: made)
    chosen = steps.choose(Switches(), PLAN)
    assert (chosen.step, chosen.kind) == (made, "fused")
    assert chosen.sentence == "The prefill is not fused but runs eagerly: layer 1 of a prefill is wrong."


def test_bits_of_a_tree_say_what_its_mask_says() -> None:
    shape = BlockShape((-1, 0, 0, 1, 2, 4), CPU)
    assert shape.bits.tolist() == [0b1, 0b11, 0b101, 0b1011, 0b10101, 0b110101]
    told = (shape.bits[:, None] >> torch.arange(6)) & 1
    assert torch.equal(told.bool(), shape.mask(0)[0, 0])
