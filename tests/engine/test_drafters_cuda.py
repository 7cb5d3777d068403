"""On a GPU: drafters without a model, mapped ids and drafts through text. Skipped where there is none."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch

import played_rounds as kit
from engines.adapters.ngram import NgramCounts
from engines.decoder.decoding import Limits
from engines.drafters.drafter import Drafter
from engines.drafters.lookup_drafter import LookupDrafter, NgramDrafter
from engines.drafters.model_drafter import ModelDrafter, ReencodingDrafter
from engines.measuring.device_timer import make_timers
from engines.measuring.timing import StageClock
from engines.tokens.tokenization import SyntheticVocabulary
from engines.tokens.vocabulary_alignment import Alignment

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    pytest.mark.usefixtures("without_gradients"),
]

ROWS = 300


def drafter_of(kind: str, draft: Any, expected: list[int], prompt: torch.Tensor) -> Drafter:
    device = torch.device("cuda:0")
    if kind == "lookup":
        return LookupDrafter(device)
    if kind == "ngram":
        return NgramDrafter("counts", NgramCounts.of([expected, expected[9:]], order=3), device, least=0.2)
    one = kit.cached(draft, "draft")
    one.prefill(one.decoder.embed(prompt), threading.Event())
    if kind == "text":
        return ReencodingDrafter("draft", one, SyntheticVocabulary(), SyntheticVocabulary())
    order = [*range(1, ROWS), 0]
    back = [ROWS - 1, *range(ROWS - 1)]
    return ModelDrafter("draft", one, Alignment(order, back, ROWS, is_prefix=False), frozenset(), target_rows=ROWS)


@pytest.mark.parametrize("kind", ["lookup", "ngram", "text", "mapped"])
def test_drafts_are_lossless_and_judged_on_the_targets_device(make_llama, sink, kind: str) -> None:
    target, draft = (make_llama(seed, vocabulary=ROWS).cuda() for seed in (1, 2))
    prompt = kit.prompt_of(1).cuda()
    expected = kit.plain(target, prompt, Limits(40), sink)
    drafter = drafter_of(kind, draft, expected, prompt)
    clock = StageClock(sink, 1, timers=make_timers([torch.device("cuda:0")], {}))
    played = kit.play(target, drafter, prompt, Limits(40), sink, clock=clock)
    clock.finish()
    assert played.ids == expected
