"""What each drafter can win at most, worked out by the formulas of the program; beside it what was measured."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from evprof.core.units import percent_text, times_text
from evprof.core.vocabulary.drafters import DRAFTERS, EAGLE, KINDS, KV, SELF
from evprof.metrics.speculation.outcome import acceptance_ceiling
from evprof.metrics.speculation.payoff import PRINTED_002, SLIP_002
from evprof.metrics.speculation.what_if import OUTPUT_LENGTHS, AnswerPace, free_tokens
from site_pages.formulas import (
    C_002,
    CARDS,
    DRAFT_002,
    PROMPTS,
    RATES,
    TARGET_002,
    Hope,
    best_rounds,
    draft_cost,
    hope,
    inside,
    inside_on,
    verify_cost,
)
from site_pages.markdown import code, table

_BENCHMARKS = Path(__file__).resolve().parents[2] / "docs" / "benchmarks.md"

_CARD = CARDS[-1]

_WIDTHS = (1, 5, 20, 80, 255)

_USED = 0.5
"""Share of the peak that a prefill is taken to reach."""

_INTRODUCTION = """# What speculation can win at most

Every number on this page but those under *measured* is worked out by the program's own formulas
(`packaging/site_pages/formulas.py`) when the page is made. They hold for what is assumed below, and for single chains
of drafts. Costs that are left out make gains too large; trees, and acceptances that come in runs, may gain more.

## The formula and what it assumes

A round drafts g tokens, each at c plain steps of the target, and checks them in one pass of v plain steps. If each
drafted token is accepted with chance a, a round gives τ = (1 − a^(g+1)) / (1 − a) tokens, and decoding is
τ / (g·c + v) times as fast.

- Acceptances are independent of each other. Measured ones come in runs, which long drafts gain from.
- Both models are 7B Llamas in 16 bit, as in the five documents. A step reads all weights and the cache once; how
  fast, the card says.
- Launching, choosing, the host and the drafter's first look at the prompt cost nothing; looking up text costs nothing
  at all.
- The draft's prompt is 640 positions. The target's is 640 (one picture) or 4,643 (eight).
"""


def page() -> str:
    return "\n".join((_INTRODUCTION, *_drafters(), *_cards(), *_inside(), *_hopes()))


def _drafters() -> Iterator[str]:
    yield "## Every drafter\n"
    yield _line(
        f"By the roofline of the {_CARD.name}, with the best g up to 12. *Pays above*: the acceptance above which a "
        "round of one token "
        "pays where a pass costs one step. Measured: the bundled pair on a CPU, from [what was "
        "measured](benchmarks.md); c and v there are "
        "those of tiny models on two cores, and say nothing of a GPU. "
        "c and v(k) of a 7B pair on a GPU are [there](benchmarks.md#on-a-gpu), too."
    )
    measured = _measured()
    heads = ("drafter", "target's prompt", "c", "pays above", *(f"at a = {rate:g}" for rate in RATES), "measured here")
    rows = [
        (
            code(key),
            f"{prompt:,}",
            f"{draft_cost(key, prompt):.2f}",
            _pays_above(draft_cost(key, prompt)),
            *(_speed(best_rounds(rate, draft_cost(key, prompt), _CARD, prompt)) for rate in RATES),
            measured.get(kind.contender, "not measured") if prompt == PROMPTS[0] else "",
        )
        for key, kind in DRAFTERS.items()
        for prompt in PROMPTS
    ]
    yield table(heads, rows)
    long, short = PROMPTS[1], PROMPTS[0]
    yield (
        f"- A draft of the target's size cannot win at {short:,} positions: c is 1. At {long:,} it reads "
        f"{percent_text(1 - draft_cost('model', long))} less than the target a step, and that is all there is to gain. "
        "Document 002 measured "
        f"c = {C_002:.3f}, which reading alone does not explain.\n"
        f"- `{SELF}` accepts everything and cannot win; it shows what a round costs.\n"
        f"- `{EAGLE}` reads one layer and the target's head. Its ceiling is the acceptance that training reaches.\n"
        "- What looks text up costs nothing to draft, and gains what answers repeat: themselves, the question, or "
        "earlier answers.\n"
        f"- `{KV}` ({KINDS[KV].sentence}) spares the target's own prompt instead: at most {times_text(_mapped())} of "
        "an answer of 100 tokens, by document 002's times.\n"
    )


def _line(*texts: str) -> str:
    return "".join(texts) + "\n"


def _pays_above(cost: float) -> str:
    if cost >= 1:
        return "never"
    return percent_text(cost)


def _speed(found: tuple[int, float]) -> str:
    gamma, speed = found
    return f"{times_text(speed)} (g {gamma})" if gamma else "no gain"


def _mapped() -> float:
    mapped = AnswerPace(DRAFT_002.prefix_ms, TARGET_002.step_ms)
    return TARGET_002.total_ms(100) / mapped.total_ms(100)


def _measured() -> dict[str, str]:
    """What `docs/benchmarks.md` tells of each contender, by its name."""
    found: dict[str, str] = {}
    heads: list[str] = []
    for line in _BENCHMARKS.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")] if line.startswith("|") else []
        if not cells:
            heads = []
        elif not heads:
            heads = cells
        elif "by the formula" in heads and len(cells) == len(heads) and not re.fullmatch(r"-+", cells[0]):
            row = dict(zip(heads, cells, strict=True))
            found.setdefault(
                row["drafter"],
                f"{row['accepted']} accepted, c {row['c']}, v {row['v']}: {row['decoding']} ({row['95 %']})",
            )
    return found


def _cards() -> Iterator[str]:
    yield "## What a GPU changes\n"
    yield (
        "A pass over few tokens reads what a step reads, so it costs about one step until multiplying takes longer "
        "than reading. By the "
        "published peaks (dense, 16 bit), in plain steps:\n"
    )
    rows = [
        (card.name, f"{prompt:,}", *(f"{verify_cost(card, prompt, drafted):.2f}" for drafted in _WIDTHS))
        for card in CARDS
        for prompt in PROMPTS
    ]
    yield table(("card", "target's prompt", *(f"v({drafted})" for drafted in _WIDTHS)), rows)
    yield (
        "On a CPU a pass over a few tokens costs more than that, as the measured v above says. By these peaks a tree "
        "of dozens of tokens costs a GPU no more than a step. On an H100 "
        "[blocks of up to 17 tokens](benchmarks.md#on-a-gpu) were measured, no larger ones.\n"
    )


def _inside() -> Iterator[str]:
    yield "## Inside the target's prefill\n"
    ceilings = ", ".join(f"{acceptance_ceiling(rate):.3g} at {rate:g}" for rate in RATES)
    window = free_tokens(TARGET_002.prefix_ms, DRAFT_002)
    yield (
        "One chain of drafts is checked once, so on average at most a / (1 − a) of them stand, however long the "
        "window: "
        f"{ceilings}. What stands spares a step each, less the pass, which is made in a of all cases. By document "
        "002's times (vision and "
        f"prefill {TARGET_002.prefix_ms:.0f} ms, then {TARGET_002.step_ms:.1f} ms a token; the draft "
        f"{DRAFT_002.prefix_ms:.0f} and "
        f"{DRAFT_002.step_ms:.1f} ms) {window} tokens fit. The draft has a device of its own:\n"
    )
    rows = [(str(tokens), *(times_text(inside(tokens, rate)) for rate in (*RATES, 1.0))) for tokens in OUTPUT_LENGTHS]
    yield table(("answer", *(f"a = {rate:g}" for rate in (*RATES, 1.0))), rows)
    yield (
        f"By the roofline, answers of 100 tokens, prefill at {percent_text(_USED)} of the card's peak, without vision. "
        f"At {PROMPTS[0]:,} positions "
        "the draft reads as long as the target, and nothing fits:\n"
    )
    rows = [
        (card.name, f"{prompt:,}", *(times_text(inside_on(card, prompt, 100, rate, used=_USED)) for rate in RATES))
        for card in CARDS
        for prompt in PROMPTS
    ]
    yield table(("card", "target's prompt", *(f"a = {rate:g}" for rate in RATES)), rows)


def _hopes() -> Iterator[str]:
    yield "## What document 002 hopes for\n"
    yield (
        f"{SLIP_002} Beside its ratios stands the most that is possible by its own times: every draft accepted, on a "
        "second device, a pass "
        "for one step; rounds after the block take as long as drafting takes (1 / c).\n"
    )
    hopes = [hope(tokens, printed) for tokens, printed in PRINTED_002.items()]
    rows = [
        (str(one.tokens), *(times_text(speed, 3) for speed in (one.printed, one.block, one.rounds)), _verdict(one))
        for one in hopes
    ]
    yield table(("answer", "002 expects", "block alone, at most", "with rounds, at most", "so"), rows)


def _verdict(one: Hope) -> str:
    if one.needed is None:
        return "cannot come true"
    return f"can, from an acceptance of {percent_text(one.needed, 1)} on"
