"""What-if arithmetic against the documents' figures and against bounds that no draft can beat."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evprof.metrics.speculation.break_even import (
    AnswerPace,
    accepted_of,
    free_tokens,
    with_hidden_drafts,
)

TARGET = AnswerPace(741.56 - 143.94, 143.94 / 5, first_tokens=0)
"""Document 002's eight frames: everything before decoding, then 28.8 ms a step; it counts steps as tokens."""

DRAFT = AnswerPace(5.93 + 66.16, 92.68 / 5, first_tokens=0)
RATES = st.floats(0, 0.99)


def test_the_baselines_at_the_measured_pace() -> None:
    """002 takes 34.7 tok/s for 35 ms a token and prints 1268/2318/4068; at 28.8 ms they are 1173/2037/3476."""
    assert [round(TARGET.total_ms(tokens)) for tokens in (20, 50, 100)] == [1173, 2037, 3476]
    assert TARGET.total_ms(5) == pytest.approx(741.56)
    # An answer of ours has its first token from the prefill.
    assert AnswerPace(100, 10).total_ms(1) == 100
    assert AnswerPace(100, 10).total_ms(5) == 140
    assert AnswerPace(100, 10).total_ms(0) == 100


def test_free_tokens_of_the_published_window() -> None:
    """597.6 ms less the draft's 72.1 leave 525.5 ms: 28 steps of 18.5 ms."""
    assert free_tokens(TARGET.prefix_ms, DRAFT) == 28
    assert free_tokens(70, DRAFT) == 0
    assert free_tokens(100, AnswerPace(100, 5)) == 1
    assert free_tokens(111, AnswerPace(100, 5)) == 3


def test_a_block_at_80_percent_saves_four_tokens() -> None:
    """Document 002 expects 2100 ms for 100 tokens; one block at 80 % gives 4 tokens."""
    total_ms, accepted = with_hidden_drafts(TARGET, DRAFT, 100, 0.8)
    assert accepted == pytest.approx(4.0, abs=0.01)
    # In four of five answers the first draft stands and a pass is made.
    assert total_ms == pytest.approx(3476.4 - 28.788 * (accepted_of(0.8, 28) - 0.8), abs=0.5)


@given(RATES, st.integers(1, 200), st.floats(1, 1000), st.floats(0.5, 50))
def test_hidden_drafts_are_never_slower_and_never_beat_their_ceiling(
    rate: float, tokens: int, draft_prefix: float, draft_step: float
) -> None:
    target, draft = AnswerPace(500, 20), AnswerPace(draft_prefix, draft_step)
    total_ms, accepted = with_hidden_drafts(target, draft, tokens, rate)
    plain_ms, ceiling = target.total_ms(tokens), rate / (1 - rate)
    assert target.prefix_ms <= total_ms <= plain_ms * (1 + 1e-12)
    assert accepted <= ceiling + 1e-9
    assert plain_ms - total_ms <= ceiling * target.step_ms + 1e-6


def test_the_first_accepted_token_is_the_prefills_own() -> None:
    """Every draft stands: ten accepted and the pass's own, of which plain decoding has one already."""
    target = AnswerPace(100, 10)
    total_ms, accepted = with_hidden_drafts(target, AnswerPace(50, 5.5), 41, 1.0)
    assert accepted == 10
    assert target.total_ms(41) - total_ms == pytest.approx((10 - 1) * 10)
    one = with_hidden_drafts(target, AnswerPace(95, 6), 41, 1.0)
    assert one == (target.total_ms(41), 0)  # one accepted token spares a step, and the pass is one
