"""What each drafter can win at best, by arithmetic: costs by the roofline, document 002's own times, and its hopes.

Nothing here was measured by this program. Costs are those of two 7B models in 16 bit: a step reads its weights and its
cache once, a pass over more tokens also multiplies more. Launches, samplers and hosts cost nothing, which makes gains
too large; chains alone are drafted, and acceptances are independent of each other, which may make them too small.
"""

from __future__ import annotations

from dataclasses import dataclass

from evprof.core.vocabulary.drafters import DRAFTERS, EAGLE, MEDUSA, SELF
from evprof.metrics.limits.roofline import decode_flops, kv_bytes_per_position, prefill_flops, weight_bytes_per_token
from evprof.metrics.limits.sizes import VICUNA_7B
from evprof.metrics.speculation.outcome import expected_tokens_per_round, predicted_speedup
from evprof.metrics.speculation.what_if import LONGEST_GAMMA, AnswerPace, parallel_prefill

PROMPTS = (640, 4643)
"""Positions of the target's prompt: as short as the draft's, and document 002's eight pictures."""

DRAFT_PROMPT = 640
"""Positions of the draft's."""

RATES = (0.5, 0.8, 0.95)
"""Acceptances that gains are told for."""

_HALF = 2.0
"""Bytes of a number in 16 bit."""

_LONGEST, _STEPS = 500, 40
"""Drafted tokens a round that are tried for document 002, and bisections."""

TARGET_002 = AnswerPace(29.48 + 568.13, 143.94 / 5)
DRAFT_002 = AnswerPace(5.93 + 66.16, 92.68 / 5)
"""Document 002's times in ms: vision and prefill, and a fifth of five decode steps."""

C_002 = DRAFT_002.step_ms / TARGET_002.step_ms
"""A drafted token in document 002's target steps."""


@dataclass(frozen=True)
class CardPeaks:
    """A GPU by its published peaks in 16 bit: bytes and operations a second."""

    name: str
    bandwidth_bytes_s: float
    peak_flops_s: float


CARDS = (CardPeaks("RTX 4090", 1008e9, 165e12), CardPeaks("A100-80", 2039e9, 312e12), CardPeaks("H100", 3350e9, 989e12))


def step_bytes(prompt: int) -> float:
    """What a step of a 7B model reads behind so many positions."""
    return weight_bytes_per_token(VICUNA_7B, _HALF) + prompt * kv_bytes_per_position(VICUNA_7B, _HALF)


def head_bytes() -> float:
    """What a step of an EAGLE-style head reads: one layer, the map of state and token into it, the target's head."""
    layer = VICUNA_7B.layer_weights / VICUNA_7B.layers
    return _HALF * (layer + 2 * VICUNA_7B.hidden**2 + VICUNA_7B.head_weights)


def medusa_bytes() -> float:
    """What one of Medusa's heads reads for its token: a square map of the hidden state, and a head of its own (Cai et
    al., arXiv 2401.10774)."""
    return _HALF * (VICUNA_7B.hidden**2 + VICUNA_7B.head_weights)


def draft_cost(drafter: str, prompt: int) -> float:
    """c of a drafter by its key: a drafted token in target steps, where reading is all there is."""
    if drafter == EAGLE:
        return head_bytes() / step_bytes(prompt)
    if drafter == MEDUSA:
        return medusa_bytes() / step_bytes(prompt)
    if drafter == SELF:
        return 1.0
    return step_bytes(DRAFT_PROMPT) / step_bytes(prompt) if DRAFTERS[drafter].takes_draft else 0.0


def verify_cost(card: CardPeaks, prompt: int, drafted: int) -> float:
    """v(k): a pass over k drafted tokens and the last one, in plain steps; above 1 where arithmetic takes longer."""
    reading_s = step_bytes(prompt) / card.bandwidth_bytes_s
    multiplying_s = (drafted + 1) * decode_flops(VICUNA_7B, prompt) / card.peak_flops_s
    return max(reading_s, multiplying_s) / max(reading_s, decode_flops(VICUNA_7B, prompt) / card.peak_flops_s)


def best_rounds(rate: float, cost: float, card: CardPeaks, prompt: int) -> tuple[int, float]:
    """(gamma, speed) of the gamma up to LONGEST_GAMMA that decodes fastest; (0, 1.0): better not at all."""
    found = [
        (
            gamma,
            predicted_speedup(expected_tokens_per_round(rate, gamma), gamma, cost, verify_cost(card, prompt, gamma))
            or 0.0,
        )
        for gamma in range(1, LONGEST_GAMMA + 1)
    ]
    best = max(found, key=lambda pair: pair[1])
    return best if best[1] > 1 else (0, 1.0)


@dataclass(frozen=True)
class Hope:
    """One of document 002's expectations: parallel prefill at an output length.

    `printed` is the ratio of its two printed totals; `block` the most that the block inside the prefill gives, `rounds`
    the most with rounds after it, both with every draft accepted and by the document's own times. `needed` is the
    acceptance at which block and rounds give what is printed; None where none does.
    """

    tokens: int
    printed: float
    block: float
    rounds: float
    needed: float | None


def hope(tokens: int, printed_ms: tuple[int, int]) -> Hope:
    """An expectation of document 002: the plain total that it prints, and the one with parallel prefill."""
    printed = printed_ms[0] / printed_ms[1]
    most = inside(tokens, 1.0, later_speedup=later_speedup(1.0))
    return Hope(tokens, printed, inside(tokens, 1.0), most, None if most < printed else _rate_for(tokens, printed))


def later_speedup(rate: float) -> float:
    """The most that rounds with document 002's draft give where a pass costs one step: at a = 1 the longer they are
    the more, up to 1 / c, which no way of drafting and verifying at once exceeds either."""
    if rate >= 1:
        return max(1.0, 1 / C_002)
    return max(1.0, *(expected_tokens_per_round(rate, gamma) / (gamma * C_002 + 1) for gamma in range(1, _LONGEST)))


def _rate_for(tokens: int, speed: float) -> float:
    """The acceptance at which block and rounds give a speed, which the highest does; by bisection."""
    low, high = 0.0, 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        reaches = inside(tokens, middle, later_speedup=later_speedup(middle)) >= speed
        low, high = (low, middle) if reaches else (middle, high)
    return high


def inside(tokens: int, rate: float, *, later_speedup: float = 1.0) -> float:
    """The speed of an answer whose first block is drafted on a device of its own while document 002's target prefills:
    vision to last token, against the target alone."""
    return parallel_prefill(TARGET_002, DRAFT_002, tokens, rate, later_speedup=later_speedup).speedup


def inside_on(card: CardPeaks, prompt: int, tokens: int, rate: float, *, used: float) -> float:
    """The same by the roofline: the target's prefill is multiplying at a share `used` of the peak, steps are reading.

    The draft's own prompt is multiplied as well; vision is left out on both sides.
    """
    paces = [
        AnswerPace(
            1e3 * prefill_s(card, positions, used),
            1e3 * step_bytes(positions) / card.bandwidth_bytes_s,
        )
        for positions in (prompt, DRAFT_PROMPT)
    ]
    return parallel_prefill(paces[0], paces[1], tokens, rate).speedup


def prefill_s(card: CardPeaks, positions: int, used: float) -> float:
    """A prefill at a share `used` of the card's peak."""
    return prefill_flops(VICUNA_7B, positions) / (used * card.peak_flops_s)
