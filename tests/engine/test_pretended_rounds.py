"""On a GPU that is not there: between drafting and the round's one read nothing makes the host wait for it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

import pytest
import torch

from engines.adapters.eagle import EagleHead, EagleShape
from engines.adapters.hidden_states import AdaptedDecoder, HiddenAdapter, HiddenSizes
from engines.adapters.ngram import NgramCounts
from engines.decoder.decoding import CachedModel, Limits
from engines.decoder.llama import LlamaDecoder
from engines.decoder.sampling import distribution
from engines.drafters.drafter import Drafter
from engines.drafters.eagle_drafter import EagleDrafter
from engines.drafters.lookup_drafter import LookupDrafter, NgramDrafter, RecyclingDrafter
from engines.drafters.model_drafter import HiddenDrafter, ModelDrafter, SelfDrafter
from engines.drafters.suffix_drafter import SuffixDrafter
from engines.measuring.timing import StageClock
from engines.speculation.verification import Verifier
from engines.tokens.vocabulary_alignment import Alignment, first_shared
from evprof.core.records import RoundRecord
from evprof.core.vocabulary.generation import GenerationSettings
from pretended_cuda import GPU, PretendedCuda

pytestmark = pytest.mark.usefixtures("without_gradients")

ROWS = 64
NEVER = threading.Event()
Make = Callable[[CachedModel], Drafter]
KINDS = (
    *("model", "model, drawn", "mapped", "hidden", "hidden, mapped"),
    *("chain", "chain, drawn", "tree", "lookup", "ngram", "suffix", "recycled", "recycled tree", "self"),
)


class Rounds(StageClock):
    """Notes what was waited for before the first round."""

    def __init__(self, sink: Any, pretended: PretendedCuda) -> None:
        super().__init__(sink, 1)
        self._pretended = pretended
        self.before: int | None = None

    def begin_step(self, kind: str = "token") -> None:
        if self.before is None:
            self.before = len(self._pretended.waits)


@pytest.fixture(scope="module")
def decoders(make_llama: Any) -> tuple[LlamaDecoder, LlamaDecoder]:
    target, draft = (LlamaDecoder.take_over(make_llama(seed, vocabulary=ROWS)) for seed in (1, 2))
    return target, draft


def prefilled(decoder: LlamaDecoder, prompt: torch.Tensor) -> CachedModel:
    one = CachedModel.over(decoder, "draft")
    one.prefill(decoder.embed(prompt), NEVER)
    return one


def makers(draft: LlamaDecoder, prompt: torch.Tensor, expected: list[int], drawn: dict[str, Any]) -> dict[str, Make]:
    def model(one: CachedModel, alignment: Alignment, **more: Any) -> ModelDrafter:
        return ModelDrafter("draft", prefilled(draft, prompt), alignment, frozenset(), target_rows=ROWS, **more)

    def eagle(one: CachedModel, **more: Any) -> EagleDrafter:
        assert isinstance(one.decoder, LlamaDecoder)
        head = EagleHead(EagleShape.like(one.decoder.config, window=4)).requires_grad_(False)
        return EagleDrafter("head", head, one, frozenset(), **more)

    def hidden(one: CachedModel, alignment: Alignment) -> HiddenDrafter:
        assert isinstance(one.decoder, LlamaDecoder)
        adapted = AdaptedDecoder(draft, one.decoder, HiddenAdapter(HiddenSizes(64, 64, 8)).requires_grad_(False))
        return HiddenDrafter("d", prefilled(draft, prompt), adapted, alignment, frozenset(), target_rows=ROWS)

    turned = Alignment([*range(1, ROWS), 0], [ROWS - 1, *range(ROWS - 1)], ROWS, is_prefix=False)
    counts = NgramCounts.of([expected, expected[5:]], order=3)
    return {
        "model": partial(model, alignment=first_shared(ROWS)),
        "model, drawn": partial(model, alignment=first_shared(ROWS), **drawn),
        "mapped": partial(model, alignment=turned),
        "hidden": partial(hidden, alignment=first_shared(ROWS)),
        "hidden, mapped": partial(hidden, alignment=turned),
        "chain": eagle,
        "chain, drawn": partial(eagle, **drawn),
        "tree": partial(eagle, widths=(4, 2, 1)),
        "lookup": lambda one: LookupDrafter(one.device),
        "suffix": lambda one: SuffixDrafter(one.device),
        "recycled": lambda one: RecyclingDrafter(one.device, ROWS),
        "recycled tree": lambda one: RecyclingDrafter(one.device, ROWS, widths=(4, 2, 1)),
        "ngram": lambda one: NgramDrafter("counts", counts, one.device, least=0.1),
        "self": SelfDrafter,
    }


@pytest.mark.parametrize("kind", KINDS)
def test_a_round_waits_once(kind: str, decoders: Any, sink: Any, played_rounds: ModuleType) -> None:
    target, draft = decoders
    prompt = played_rounds.prompt_of(1, vocabulary=ROWS)
    expected = played_rounds.plain(target, prompt, Limits(24), sink)
    verifier, drawn = Verifier(), {}
    if "drawn" in kind:
        law = partial(distribution, settings=GenerationSettings(temperature=0.8))
        drawn = {"law": law, "generator": torch.Generator().manual_seed(3)}
        verifier = Verifier(law, torch.Generator().manual_seed(4))
    with PretendedCuda() as pretended:
        clock = Rounds(sink, pretended)
        make = makers(draft, prompt, expected, drawn)[kind]
        sink.records.clear()
        one = CachedModel.over(target, "target")
        assert one.device == GPU
        played = played_rounds.play(one, make, prompt, Limits(24), sink, gamma=3, clock=clock, verifier=verifier)
        assert pretended.waits[clock.before :] == ["tolist"] * len(sink.of(RoundRecord))
    assert len(sink.of(RoundRecord)) > 1
    assert max(record.drafted for record in sink.of(RoundRecord)) > 0
    if "drawn" not in kind:
        assert played.ids == expected
