"""The theory page's figures: by hand where a person can, bounds where not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evprof.core.vocabulary.drafters import DRAFTERS
from evprof.metrics.speculation.outcome import acceptance_ceiling
from evprof.metrics.speculation.payoff import PRINTED_002
from evprof.metrics.speculation.what_if import free_tokens
from site_pages.formulas import (
    C_002,
    CARDS,
    DRAFT_002,
    PROMPTS,
    TARGET_002,
    CardPeaks,
    best_rounds,
    draft_cost,
    hope,
    inside,
    inside_on,
    later_speedup,
    step_bytes,
    verify_cost,
)


def test_a_second_device_brings_little_to_a_hundred_tokens() -> None:
    """By hand: 4 of 28 tokens stand at 0.8 for 0.8 of a pass, of 597.6 + 99 · 28.8 = 3447.7 ms."""
    plain_ms = 597.61 + 99 * 28.788
    assert inside(100, 0.8) == pytest.approx(plain_ms / (plain_ms - (4 - 0.8) * 28.788), rel=1e-3)
    assert (round(inside(100, 0.8), 2), round(inside(100, 0.95), 2)) == (1.03, 1.13)
    assert round(C_002, 3) == 0.644
    assert free_tokens(TARGET_002.prefix_ms, DRAFT_002) == 29


def test_what_document_002_hopes_for() -> None:
    hopes = {tokens: hope(tokens, printed) for tokens, printed in PRINTED_002.items()}
    longest = hopes[100]
    assert round(longest.printed, 2) == 1.94
    assert longest.needed is None
    assert longest.block < 1.31 < longest.rounds < 1.8
    assert [one.tokens for one in hopes.values() if one.needed is not None] == [20, 50]
    for one in hopes.values():
        if one.needed is not None:
            assert inside(one.tokens, one.needed, later_speedup=later_speedup(one.needed)) >= one.printed
            less = one.needed - 1e-6
            assert inside(one.tokens, less, later_speedup=later_speedup(less)) < one.printed


def test_costs_by_the_roofline() -> None:
    assert step_bytes(0) == pytest.approx(13.215e9, rel=1e-3)
    assert draft_cost("model", 640) == draft_cost("self", 4643) == 1
    assert draft_cost("lora", 4643) == draft_cost("hidden", 4643) == pytest.approx(0.866, abs=1e-3)
    assert 0.04 < draft_cost("eagle", 4643) < draft_cost("eagle", 640) < 0.06
    # By hand: 2 (4096² + 32000 · 4096) of 13.55e9 bytes.
    assert draft_cost("medusa", 640) == pytest.approx(0.0218, abs=2e-4)
    assert {draft_cost(key, 640) for key in ("lookup", "suffix", "recycling", "ngram")} == {0}


@given(
    st.sampled_from(CARDS),
    st.sampled_from(PROMPTS),
    st.sampled_from(sorted(DRAFTERS)),
    st.floats(0, 1),
    st.integers(1, 300),
)
def test_no_gain_exceeds_its_bound(card: CardPeaks, prompt: int, drafter: str, rate: float, drafted: int) -> None:
    assert 1 <= verify_cost(card, prompt, drafted) <= verify_cost(card, prompt, drafted + 1) <= drafted + 2
    cost = draft_cost(drafter, prompt)
    gamma, speed = best_rounds(rate, cost, card, prompt)
    assert 1 <= speed <= gamma + 1
    assert cost == 0 or speed <= max(1.0, 1 / cost) + 1e-9
    assert cost < 1 or (gamma, speed) == (0, 1.0)
    ceiling = acceptance_ceiling(rate)
    plain_ms = TARGET_002.total_ms(100)
    saved = (plain_ms - plain_ms / inside(100, rate)) / TARGET_002.step_ms
    assert -1e-6 <= saved <= (29 if ceiling is None else ceiling + 1e-6)
    assert inside_on(card, prompt, 100, rate, used=0.5) >= 1 - 1e-9
