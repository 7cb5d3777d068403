"""In bfloat16 a speculative answer may differ from the plain one, but only where two tokens are nearly as likely."""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any

import pytest
import torch

from engines.decoder.decoding import Limits
from engines.decoder.llama import LlamaDecoder
from engines.speculation.near_ties import NEAR_TIE_ULPS, Divergence, divergence, gap_ulps, ulp
from evprof.core.records import RoundRecord

pytestmark = pytest.mark.usefixtures("without_gradients")

ROWS = 2000


def in_half(model: Any) -> Any:
    return model.to(torch.bfloat16)


def test_every_divergence_in_bfloat16_is_a_near_tie(
    make_llama: Any, sink: Any, played_rounds: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    kit, found = played_rounds, []
    accepted = drafted = 0
    for seed in range(60):
        if seed % 10 == 0:
            full = make_llama(seed // 10, vocabulary=ROWS)
            draft = in_half(kit.noisy(full, 0.02, seed))
            target = LlamaDecoder.take_over(in_half(full))
        prompt = kit.prompt_of(seed)
        plain = kit.plain(target, prompt, Limits(48), sink)
        assert len(set(plain)) > 25
        sink.records.clear()
        played = kit.play(kit.cached(target), kit.drafting(draft, prompt, ROWS), prompt, Limits(48), sink)
        accepted += sum(record.accepted for record in sink.of(RoundRecord))
        drafted += sum(record.drafted for record in sink.of(RoundRecord))
        found.append(divergence(target, target.embed(prompt), plain, played.ids))
    flips = [one for one in found if one is not None]
    with capsys.disabled():
        print(f"\n  bf16: {len(flips)} of {len(found)} answers of 48 tokens flip, ", end="")
        widest = max((one.gap_ulps for one in flips), default=None)
        print(f"widest gap {widest} ulp, {accepted / drafted:.0%} of drafts accepted")
    assert len(found) == 60
    assert 0 < accepted < drafted
    assert [one for one in flips if one.gap_ulps > NEAR_TIE_ULPS / 4] == []


def test_in_float32_nothing_diverges(make_llama: Any, sink: Any, played_rounds: ModuleType) -> None:
    kit = played_rounds
    model = make_llama(1)
    target, prompt = LlamaDecoder.take_over(model), kit.prompt_of(1)
    plain = kit.plain(target, prompt, Limits(40), sink)
    played = kit.play(kit.cached(target), kit.drafting(kit.noisy(model, 0.03), prompt, 257), prompt, Limits(40), sink)
    assert divergence(target, target.embed(prompt), plain, played.ids) is None


def test_a_wrong_answer_is_no_near_tie(make_llama: Any, sink: Any, played_rounds: ModuleType) -> None:
    """What a verifier that lets drafts pass would give: found at its place, and far away."""
    kit = played_rounds
    target, prompt = LlamaDecoder.take_over(in_half(make_llama(1))), kit.prompt_of(1)
    plain = kit.plain(target, prompt, Limits(24), sink)
    wide = 0
    for place in range(24):
        other = [*plain[:place], (plain[place] + 1) % 257, *plain[place + 1 :]]
        found = divergence(target, target.embed(prompt), plain, other)
        assert found is not None
        assert (found.position, found.plain_id, found.other_id) == (place, plain[place], other[place])
        wide += found.gap_ulps > NEAR_TIE_ULPS
    assert wide >= 22


def test_the_plain_prefix_is_forced(make_llama: Any, sink: Any, played_rounds: ModuleType) -> None:
    """At any place the plain answer's own token has no gap at all, in chunks of the prompt as well."""
    kit = played_rounds
    target, prompt = LlamaDecoder.take_over(in_half(make_llama(2))), kit.prompt_of(2)
    for chunk in (0, 4):
        plain = kit.plain(target, prompt, Limits(16), sink, chunk=chunk)
        for place in (0, 1, 15):
            swapped = [*plain[:place], (plain[place] + 5) % 257, *plain[place + 1 :]]
            found = divergence(target, target.embed(prompt), swapped, plain, prefill_chunk=chunk)
            assert found is not None
            assert found.gap_ulps == 0.0


def test_an_answer_that_stops_early_is_never_explained(make_llama: Any) -> None:
    target = LlamaDecoder.take_over(make_llama(1))
    prompt = target.embed(torch.tensor([[1, 2, 3]]))
    assert divergence(target, prompt, [1, 2, 3], [1, 2]) == Divergence(2, 3, None, math.inf)
    assert divergence(target, prompt, [1, 2], [1, 2, 3]) == Divergence(2, None, 3, math.inf)
    assert divergence(target, prompt, [1, 2], [1, 2]) is None


@pytest.mark.parametrize("value", [1.0, 1.5, 1.9921875, 2.0, 3.5, 0.75, 100.0, -6.0, 1e-3])
def test_a_unit_in_the_last_place_is_the_step_to_the_next_number(value: float) -> None:
    held = torch.tensor(abs(value), dtype=torch.bfloat16)
    after = (held.view(torch.int16) + 1).view(torch.bfloat16)
    assert ulp(value, torch.bfloat16) == float(after) - float(held)


def test_gaps_are_counted_in_units() -> None:
    logits = torch.tensor([4.0, 4.0625, 3.0], dtype=torch.bfloat16)
    assert [gap_ulps(logits, token) for token in range(3)] == [2.0, 0.0, 34.0]
