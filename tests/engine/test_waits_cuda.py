"""On a GPU: rounds and stage preprocess wait for it nowhere but where they read. Skipped where there is none."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch

import played_rounds
from engines.adapters.hidden_states import AdaptedDecoder, HiddenAdapter, HiddenSizes
from engines.adapters.ngram import NgramCounts
from engines.adapters.published import Eagle1Head, layer_like
from engines.decoder.decoding import CachedModel, Limits
from engines.decoder.llama import LlamaDecoder
from engines.decoder.sampling import distribution
from engines.drafters.eagle_drafter import EagleDrafter
from engines.drafters.lookup_drafter import LookupDrafter, NgramDrafter, RecyclingDrafter
from engines.drafters.model_drafter import HiddenDrafter, ModelDrafter, SelfDrafter
from engines.drafters.suffix_drafter import SuffixDrafter
from engines.measuring.device_timer import make_timers
from engines.measuring.timing import OpenSpan, StageClock
from engines.speculation.rounds import Verifier
from engines.tokens.vocabulary_alignment import Alignment, first_shared
from evprof.core.records import RoundRecord
from evprof.core.vocabulary.generation import GenerationSettings

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    pytest.mark.usefixtures("without_gradients"),
]

ROWS = 64
DEVICE = torch.device("cuda:0")
KINDS = (
    *("model", "model, drawn", "mapped", "hidden", "chain", "chain, drawn", "tree"),
    *("lookup", "suffix", "recycled", "recycled tree", "ngram", "self"),
)


class Strict(StageClock):
    """Whatever waits between a round's beginning and its read is an error."""

    def open(self, span: OpenSpan) -> None:
        super().open(span)
        if span.name in ("draft", "verify"):
            torch.cuda.set_sync_debug_mode("error")

    def close(self, span: OpenSpan) -> None:
        torch.cuda.set_sync_debug_mode("default")
        super().close(span)


def prefilled(decoder: LlamaDecoder, prompt: torch.Tensor) -> CachedModel:
    one = CachedModel.over(decoder, "draft")
    one.prefill(decoder.embed(prompt), threading.Event())
    return one


def drafting(kind: str, draft: LlamaDecoder, prompt: torch.Tensor, ids: list[int], drawn: dict[str, Any]) -> Any:
    none: frozenset[int] = frozenset()
    turned = Alignment([*range(1, ROWS), 0], [ROWS - 1, *range(ROWS - 1)], ROWS, is_prefix=False)

    def make(one: CachedModel) -> Any:
        assert isinstance(one.decoder, LlamaDecoder)
        without_a_model: dict[str, Callable[[], Any]] = {
            "lookup": lambda: LookupDrafter(DEVICE),
            "suffix": lambda: SuffixDrafter(DEVICE),
            "recycled": lambda: RecyclingDrafter(DEVICE, ROWS),
            "recycled tree": lambda: RecyclingDrafter(DEVICE, ROWS, widths=(4, 2, 1)),
            "ngram": lambda: NgramDrafter("counts", NgramCounts.of([ids, ids[5:]], order=3), DEVICE, least=0.1),
            "self": lambda: SelfDrafter(one),
        }
        if kind in without_a_model:
            return without_a_model[kind]()
        if kind in ("chain", "chain, drawn", "tree"):
            head = Eagle1Head(layer_like(one.decoder.config), bias=False, device=DEVICE).requires_grad_(False)
            return EagleDrafter("head", head, one, none, widths=(4, 2, 1) if kind == "tree" else (), **drawn)
        own = prefilled(draft, prompt)
        if kind == "hidden":
            adapter = HiddenAdapter(HiddenSizes(64, 64, 8)).requires_grad_(False)
            adapted = AdaptedDecoder(draft, one.decoder, adapter)
            return HiddenDrafter("draft", own, adapted, turned, none, target_rows=ROWS)
        alignment = turned if kind == "mapped" else first_shared(ROWS)
        return ModelDrafter("draft", own, alignment, none, target_rows=ROWS, **drawn)

    return make


@pytest.mark.parametrize("kind", KINDS)
def test_a_round_waits_at_its_read_alone(kind: str, make_llama: Any, sink: Any) -> None:
    target, draft = (LlamaDecoder.take_over(make_llama(seed, vocabulary=ROWS).cuda()) for seed in (1, 2))
    prompt = played_rounds.prompt_of(1, vocabulary=ROWS).cuda()
    expected = played_rounds.plain(target, prompt, Limits(24), sink)
    verifier, drawn = Verifier(), {}
    if "drawn" in kind:
        law = partial(distribution, settings=GenerationSettings(temperature=0.8, top_k=20, top_p=0.9))
        drawn = {"law": law, "generator": torch.Generator(DEVICE).manual_seed(3)}
        verifier = Verifier(law, torch.Generator(DEVICE).manual_seed(4))
    sink.records.clear()
    clock = Strict(sink, 1, timers=make_timers([DEVICE], {}))
    make = drafting(kind, draft, prompt, expected, drawn)
    try:
        played = played_rounds.play(
            CachedModel.over(target, "target"), make, prompt, Limits(24), sink, gamma=3, clock=clock, verifier=verifier
        )
    finally:
        torch.cuda.set_sync_debug_mode("default")
    clock.finish()
    assert max(record.drafted for record in sink.of(RoundRecord)) > 0
    if "drawn" not in kind:
        assert played.ids == expected


@pytest.mark.parametrize("home", ["cpu", "cuda:0"])
def test_what_the_target_sees_reaches_a_draft_wherever_it_is(make_llama: Callable[..., Any], home: str) -> None:
    target, draft = (LlamaDecoder.take_over(make_llama(seed)) for seed in (1, 2))
    visual, hidden = torch.randn(5, 64), torch.randn(1, 1, 64)
    adapter = HiddenAdapter(HiddenSizes(64, 64, 8, heads=2, head_dim=8)).requires_grad_(False)
    torch.nn.init.normal_(adapter.out.weight)
    alone = AdaptedDecoder(draft, target, adapter)
    alone.look(visual)
    expected = alone.head(hidden)
    decoder = AdaptedDecoder(draft.to(home), target.to(DEVICE), adapter)
    decoder.look(visual.to(DEVICE))
    found = decoder.head(hidden.to(home))
    assert found.device == torch.device(home)
    assert torch.allclose(found.cpu(), expected, atol=1e-4)
