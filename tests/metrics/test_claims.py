"""Every claim: data that confirm it, data that refute it, and the sentence when nothing measures it."""

from __future__ import annotations

from typing import Any

import pytest

from cell_runs import DRAFT_002, TARGET_002, Cell
from evprof.core.run_info import SpeculationFacts
from evprof.metrics.claims import speculation
from evprof.metrics.claims.evidence import CONFIRMED, NOT_MEASURED, REFUTED, Evidence, Finding, judge
from evprof.metrics.claims.models import CACHE_HIT, CLAIMS, answer_claims
from evprof.metrics.limits.sizes import DeviceCeiling

GPU = {"device": "cuda:0"}
HERE: dict[str, Any] = {"is_imported": False, "model": GPU}
PIECES = [" a", " road", " with", " a1", " car", "."]
GENERATION: dict[str, Any] = {"steps": None, "settings": {}}


def evidence_of(*cells: Cell, pairs: tuple[tuple[int, int], ...] = (), **more: Any) -> Evidence:
    """Evidence of these cells; a draft and a target next to each other are a pair."""
    columns = [cell.column(1 + 100 * place) for place, cell in enumerate(cells)]
    joined = [(columns[one], columns[other]) for one, other in pairs]
    if not pairs and len(cells) == 2 and {cell.role for cell in cells} == {"draft", "target"}:
        joined = [(columns[0], columns[1])]
    if any(cell.mode == "speculative" for cell in cells):
        joined.append((columns[0], columns[-1]))
    return Evidence(columns, joined, **more)


def judged(key: str, evidence: Evidence) -> Finding:
    return judge(next(claim for claim in CLAIMS if claim.key == key), evidence)


def staged(cell: Cell, **stages: float) -> Cell:
    """The cell with other times of these stages."""
    return cell.with_(stages=cell.stages | stages)


def formats(weights: int, decode: float) -> tuple[Cell, Cell]:
    """The same in float16 and bfloat16; bytes of the weights, and ms of decoding, of the latter."""
    fp16 = Cell(name="fp16", **HERE | {"model": GPU | {"dtype": "float16"}}, weights=1000, stages={"decode": 100.0})
    bf16 = fp16.with_(
        name="bf16", model=GPU | {"dtype": "bfloat16"}, weights=weights, stages=fp16.stages | {"decode": decode}
    )
    return fp16, bf16


def cached(computed: float) -> tuple[Cell, Cell]:
    """Vision computed in so many ms, and out of a cache."""
    miss = TARGET_002.with_(name="off", **HERE, stages={"vision": computed, "decode": 9.0})
    settings = miss.settings | {"switches": {"vision_cache": "memory"}}
    return miss, staged(miss, vision=0.5).with_(name="on", vision_parts=[CACHE_HIT], settings=settings)


def decoding(cache: str, decode: float) -> tuple[Cell, Cell]:
    here = {"is_imported": False, "model": GPU | {"cache": cache}, "tokens": (1, 2, 3, 4, 5, 6)}
    stages = {"vision": 29.5, "prefill": 568.1, "decode": decode}
    return DRAFT_002.with_(**here), TARGET_002.with_(**here, stages=stages)


def generated(target_ms: float, **changes: Any) -> tuple[Cell, Cell]:
    """45.5 against 102.4 tokens of document 003."""
    draft = DRAFT_002.with_(stages={"vision+prefill+decode": 977.0}, output=91, **GENERATION)
    target = TARGET_002.with_(stages={"vision+prefill+decode": target_ms}, output=205, **GENERATION | changes)
    return draft, target


PLAIN = TARGET_002.with_(mode="target", is_imported=False, stages={"vision": 29.5, "prefill": 568.1, "decode": 600.0})


def drafted(total: float, *rounds: tuple[int, int, int], **changes: Any) -> Cell:
    """Speculation of the target, decoding alone timed."""
    changes = {"name": "spec", "mode": "speculative", "stages": {"decode": total}} | changes
    return PLAIN.with_(**changes, rounds=rounds or ((5, 1, 0),))


def by(kind: str, adapter: str | None = None, **facts: Any) -> SpeculationFacts:
    return SpeculationFacts(kind, kind, adapter=adapter, **facts)


def noisy(stage: str, factors: tuple[float, ...], **stages: float) -> tuple[Cell, Cell]:
    """Document 002's pair over as many samples as there are factors of one stage of the target."""
    draft = DRAFT_002.with_(samples=len(factors))
    return draft, staged(TARGET_002, **stages).with_(samples=len(factors), scatter={stage: factors})


def through(total: float, accepted: float) -> tuple[Cell, Cell]:
    """A file's adapter, and its target alone."""
    plain = TARGET_002.with_(mode="target", stages={"vision+prefill": 327.0, "decode": 710.0})
    figures = {"drafted_tokens": 5.0, "accepted_tokens": accepted, "published_total_ms": total}
    return plain, plain.with_(name="L4", mode="speculative", figures=figures)


def pruned(share: float) -> tuple[Cell, Cell]:
    stages = {name: share * duration for name, duration in PLAIN.stages.items()}
    settings = PLAIN.settings | {"switches": {"visual_keep": 0.5}}
    return PLAIN, PLAIN.with_(name="kept", stages=stages, settings=settings)


def packed(decode: float) -> tuple[Cell, Cell]:
    whole = PLAIN.with_(tokens=(1, 2, 3))
    return whole, whole.with_(name="int8", stages={"decode": decode}, model={"quantization": "int8"})


PAIR = (DRAFT_002, TARGET_002)
UNEVEN = TARGET_002.with_(scatter={"decode": (1.01, 0.99)})
TREE = drafted(102.4, (14, 3, 0), name="tree", speculation=by("eagle", "a", tree="2,2,2"))
CHAIN = drafted(102.4, (10, 9, 0), name="map", speculation=by("hidden", "m"))
MAPPED = drafted(600.0, (4, 3, 0), speculation=by("hidden", "a"))
ADAPTED = PLAIN.with_(
    name="kv", mode="kv-adapted", stages={"decode": 400.0}, speculation=by("kv", "m", is_lossless=False)
)
OWN = drafted(500.0, name="self", speculation=by("self"))
NAIVE = drafted(1500.0, name="naive", speculation=by("model"))

CASES: list[tuple[str, tuple[Cell, ...], str, tuple[str, ...]]] = [
    ("feature_caching", PAIR, REFUTED, ("at most 30.1 ms", "(6 and 6 runs of 6 samples)")),
    ("feature_caching", tuple(staged(cell, vision=180.0) for cell in PAIR), NOT_MEASURED, ("184 ms",)),
    # The mean is 77 ms, and one sample took 150.
    ("feature_caching", noisy("vision", (1.4, 0.6, 1.95, 0.6, 0.45), vision=76.7), NOT_MEASURED, ("at most 150 ms",)),
    ("feature_caching", tuple(cell.with_(samples=3) for cell in PAIR), NOT_MEASURED, ("fewer than 5 scenes",)),
    ("feature_caching", cached(150.0), CONFIRMED, ("saves",)),
    ("feature_caching", cached(30.0)[::-1], REFUTED, ("saves",)),
    ("bfloat16", formats(1000, 100.0), REFUTED, ("1.000 times the bytes",)),
    ("bfloat16", formats(1000, 80.0), REFUTED, ()),
    ("bfloat16", formats(600, 80.0), CONFIRMED, ()),
    ("bfloat16", formats(600, 120.0), REFUTED, ()),
    ("bfloat16", (formats(600, 80.0)[0], formats(600, 80.0)[1].with_(settings={"frames": 3})), NOT_MEASURED, ()),
    (
        "tokenizers",
        (
            DRAFT_002.with_(tokens=range(5, 11), pieces=PIECES),
            TARGET_002.with_(tokens=range(10, 4, -1), pieces=PIECES[::-1]),
        ),
        REFUTED,
        ("Of 6 ids",),
    ),
    (
        "tokenizers",
        (DRAFT_002.with_(tokens=range(5, 11), pieces=PIECES), TARGET_002.with_(tokens=range(10, 4, -1), pieces=PIECES)),
        CONFIRMED,
        ("0 stand for the same",),
    ),
    ("eventgpt_context", (DRAFT_002.with_(prompt=641, frame_tokens=200),), REFUTED, ("641",)),
    ("eventgpt_context", (DRAFT_002.with_(prompt=310, frame_tokens=200),), CONFIRMED, ("310",)),
    *(
        ("smaller_cache", noisy("decode", factors), NOT_MEASURED, ("A step takes 1.5", f"{len(factors)} and "))
        for factors in ((0.6, 1.0, 1.4), (0.5, 1.0, 1.5, 0.7, 1.3))
    ),
    # Bytes grow 1.16 times against 1.55: a third of it; copying the cache to grow would be five sixths.
    ("smaller_cache", PAIR, NOT_MEASURED, ("1.55 times", "1.16 times", "explains 33 %", "explain 83 %")),
    ("smaller_cache", decoding("static", 107.3), CONFIRMED, ()),  # 1.157 times the time for 1.155 times the bytes
    ("smaller_cache", decoding("static", 143.9), REFUTED, ()),
    ("smaller_cache", decoding("dynamic", 143.9), CONFIRMED, ()),
    ("smaller_cache", decoding("dynamic", 250.0), REFUTED, ()),
    ("smaller_cache", decoding("static", 92.7), NOT_MEASURED, ("cannot be told apart",)),
    # 002: decode read 544 GB/s, so the prefill's bytes are 5 % of its time.
    ("memory_bound_prefill", (UNEVEN,), REFUTED, ("544 GB/s", "take 5 %")),
    ("memory_bound_prefill", (staged(UNEVEN, decode=2000.0),), CONFIRMED, ()),
    ("memory_bound_prefill", (UNEVEN.with_(prompt=700, frames=1),), NOT_MEASURED, ("does not have 4,643 positions",)),
    # 45.5 against 102.4 tokens in 977 and 2533 ms: 2.25 x 1.15 = 2.59, 85 % of it the count.
    ("fewer_tokens", generated(2533.0), REFUTED, ("2.25 times the tokens x 1.15 times the time", "85 %")),
    ("fewer_tokens", generated(977.0 * 205 / 91), CONFIRMED, ("100 %",)),
    ("fewer_tokens", generated(2533.0, settings={"max_new_tokens": 205}), NOT_MEASURED, ("as long as allowed",)),
    ("fewer_tokens", generated(2533.0, settings={"ignore_eos": True}), NOT_MEASURED, ("own choice",)),
    ("fewer_tokens", tuple(cell.with_(samples=2) for cell in generated(2533.0)), NOT_MEASURED, ("not called",)),
    ("vision_share", (DRAFT_002, staged(TARGET_002, vision=29.5)), REFUTED, ("of difference",)),
    ("vision_share", (DRAFT_002, staged(TARGET_002, vision=110.0)), CONFIRMED, ()),
    ("vision_share", (DRAFT_002, staged(TARGET_002, vision=400.0)), REFUTED, ()),
    ("vision_share", noisy("vision", (0.2, 0.76, 2.04), vision=76.7), NOT_MEASURED, ("3 and 3 runs of 3 samples",)),
    ("vision_per_frame", (staged(DRAFT_002, vision=5.9), TARGET_002), REFUTED, ("A frame takes",)),
    ("vision_per_frame", (staged(DRAFT_002, vision=2.0), TARGET_002), CONFIRMED, ()),
    ("vision_per_frame", (staged(DRAFT_002, vision=29.5 / 8), TARGET_002), NOT_MEASURED, ()),
    (
        "naive_speed",
        (PLAIN, drafted(1500.0)),
        CONFIRMED,
        ("the target alone: spec (drafter model, chain) against runs 1, 2", "(6 and 6 runs of 6 samples)"),
    ),
    ("naive_speed", (PLAIN, drafted(1000.0)), REFUTED, ()),
    ("naive_speed", (PLAIN, PLAIN.with_(name="spec", mode="speculative", rounds=((1, 0, 0),))), NOT_MEASURED, ()),
    ("naive_speed", (PLAIN, MAPPED), NOT_MEASURED, ()),
    ("draft_speed", (PLAIN, drafted(520.1)), CONFIRMED, ()),
    ("draft_speed", (PLAIN, OWN, NAIVE), REFUTED, ("0.80×", "naive (drafter model, chain)")),
    ("draft_speed", (PLAIN, OWN), NOT_MEASURED, ("not run on the same samples",)),
    ("tokenizers", (DRAFT_002.with_(tokens=(1, 2, 3, 4, 5)), TARGET_002.with_(tokens=(1, 2))), NOT_MEASURED, ()),
    ("parallel_prefill_speed", (PLAIN, drafted(1100.0, (5, 1, 1))), REFUTED, ("1.09×",)),
    ("parallel_prefill_speed", (PLAIN, drafted(500.0, (5, 1, 1))), CONFIRMED, ("2.40×",)),
    # The paces of both models alone say nothing of how many drafts are accepted.
    ("parallel_prefill_speed", PAIR, NOT_MEASURED, ("Nothing was drafted inside a prefill",)),
    ("adapter_acceptance", through(1680.0, 0.0), REFUTED, ("0 of 30 drafted",)),
    ("adapter_acceptance", through(1680.0, 4.5), CONFIRMED, ("27 of 30 drafted",)),
    ("adapter_acceptance", tuple(cell.with_(samples=2) for cell in through(1680.0, 4.5)), NOT_MEASURED, ("2 samples",)),
    # Of a tree of 14 nodes at most 3 can stand; the chain of another adapter has 9 of 10 right.
    ("adapter_acceptance", (PLAIN, TREE), NOT_MEASURED, ("heads and trees",)),
    ("adapter_acceptance", (PLAIN, TREE, CHAIN), CONFIRMED, ("90.0 %", "54 of 60 drafted tokens of map")),
    ("adapter_acceptance", (PLAIN, MAPPED), REFUTED, ("18 of 24 drafted", "75.0 %")),
    ("adapter_speed", (PLAIN, MAPPED, ADAPTED), CONFIRMED, ("2.99×", "kv (", "not the target's")),
    ("length_ratio", (DRAFT_002, TARGET_002.with_(rounds=((1000, 137, 0),))), CONFIRMED, ("13.7 %",)),
    ("length_ratio", (DRAFT_002, TARGET_002.with_(rounds=((5, 2, 0),))), REFUTED, ()),
    ("length_ratio", PAIR, NOT_MEASURED, ("13.7 %", "no token was drafted")),
    # A plain and a speculative configuration are no two models.
    *((key, (PLAIN, NAIVE), NOT_MEASURED, ("No ",)) for key in ("length_ratio", "tokenizers", "vision_per_frame")),
    ("pruned_time", pruned(0.85), CONFIRMED, ("Keeping 50 %", "0.85 times")),
    ("pruned_time", pruned(0.6)[::-1], REFUTED, ()),
    ("quantized_speed", packed(350.0), CONFIRMED, ("With int8 weights",)),
    ("quantized_speed", packed(580.0), REFUTED, ()),
]


@pytest.mark.parametrize(("key", "cells", "verdict", "words"), CASES)
def test_a_claim_is_judged(key: str, cells: tuple[Cell, ...], verdict: str, words: tuple[str, ...]) -> None:
    finding = judged(key, evidence_of(*cells))
    assert (finding.verdict, finding.measured_on) == (verdict, ""), finding
    assert finding.sentence.endswith(".")
    assert all(word in finding.sentence for word in words), finding


@pytest.mark.parametrize(
    ("key", "cells", "measured_on"),
    [
        ("feature_caching", tuple(cell.with_(model={"device": "cpu"}) for cell in cached(150.0)), "on cpu"),
        (
            "tokenizers",
            (
                DRAFT_002.with_(tokens=range(5, 11), pieces=PIECES),
                TARGET_002.with_(tokens=range(5, 11), pieces=PIECES, model={"name": "random:7b-llava"}),
            ),
            "random",
        ),
        ("eventgpt_context", (DRAFT_002.with_(prompt=310, model={"layers": 4}),), "eventgpt-7b"),
        ("adapter_speed", through(360.0, 0), "an adapter that drafts"),
        ("adapter_speed", (PLAIN, MAPPED), "an adapter that drafts"),
        *(
            ("naive_speed", tuple(cell.with_(model=model) for cell in (PLAIN, drafted(3000.0))), "llava")
            for model in ({"family": "video_llava"}, {"quantization": "nf4"}, {"dtype": "float32"})
        ),
    ],
)
def test_other_models_judge_nothing(key: str, cells: tuple[Cell, ...], measured_on: str) -> None:
    finding = judged(key, evidence_of(*cells))
    assert finding.verdict == NOT_MEASURED
    assert measured_on in finding.measured_on.lower()
    assert "which the claim is not about" in finding.sentence


def test_nothing_measures_nothing() -> None:
    answers = answer_claims(evidence_of())
    assert len(answers) == len(CLAIMS) == 21
    assert {answer.verdict for answer in answers} == {NOT_MEASURED}
    assert all(answer.claim.wanted and answer.sentence for answer in answers)


def test_document_002_against_its_own_rows() -> None:
    """All verdicts of the file of 002."""
    found = {answer.claim.text: answer.verdict for answer in answer_claims(evidence_of(DRAFT_002, UNEVEN))}
    assert {text[:24]: verdict for text, verdict in found.items() if verdict != NOT_MEASURED} == {
        "Feature caching saves 10": REFUTED,
        "EventGPT's context is ~3": REFUTED,
        "The prefill ratio (8.59×": REFUTED,
        "Vision makes up ~15 % of": REFUTED,
        "EventGPT's vision is fas": REFUTED,
        "EventGPT's prefill of ~6": CONFIRMED,
    }


@pytest.mark.parametrize(("bandwidth", "verdict"), [(1e12, REFUTED), (1e10, CONFIRMED)])
def test_prefill_against_measured_ceilings(bandwidth: float, verdict: str) -> None:
    target = TARGET_002.with_(**HERE, stages={"prefill": 568.1})
    ceiling = DeviceCeiling("cuda:0", "float16", 1, bandwidth, 1.6e14)
    finding = judged("memory_bound_prefill", evidence_of(target, ceilings=[ceiling]))
    assert finding.verdict == verdict
    assert f"At the measured bandwidth, {bandwidth / 1e9:,.0f} GB/s" in finding.sentence


@pytest.mark.parametrize(("prefill", "of_000", "of_002"), [(66.1, REFUTED, CONFIRMED), (100.0, CONFIRMED, REFUTED)])
def test_two_figures_for_one_prefill(prefill: float, of_000: str, of_002: str) -> None:
    draft = DRAFT_002.with_(stages={"prefill": prefill})
    cold = DRAFT_002.with_(stages={"prefill": 114.4}, samples=1, is_warmup=True).runs(500)
    found = judged("warm_prefill_000", evidence_of(draft, warmups=cold))
    assert found.verdict == of_000
    assert "cold pass took 114.4 ms" in found.sentence
    assert judged("warm_prefill_002", evidence_of(draft.with_(**HERE))).verdict == of_002
    for factors in ((0.6, 1.0, 1.42), (0.6, 1.0, 1.42, 0.8, 1.1)):
        few = evidence_of(draft.with_(samples=len(factors), scatter={"prefill": factors}))
        assert {judged(f"warm_prefill_{key}", few).verdict for key in ("000", "002")} == {NOT_MEASURED}
    for change in ({"model": {"quantization": "nf4"}}, {"model": {"dtype": "float32"}}, {"prompt": 900}):
        assert judged("warm_prefill_002", evidence_of(draft.with_(**change))).verdict == NOT_MEASURED


@pytest.mark.parametrize(
    ("prefill", "verdict"), [(81.0, CONFIRMED), (100.0, REFUTED), (75.0, NOT_MEASURED), (70.0, REFUTED)]
)
def test_seven_percent_more_tokens(prefill: float, verdict: str) -> None:
    """641 against 597 positions are 7.4 % more and 7.4 % more operations; 000's 100 against 75 ms are a third more."""
    draft = DRAFT_002.with_(prompt=641, frame_tokens=582, stages={"prefill": prefill})
    found = judged(
        "seven_percent", evidence_of(draft, TARGET_002.with_(prompt=597, frames=1, stages={"prefill": 75.0}))
    )
    assert found.verdict == verdict
    assert "7.4 % more tokens (visual 582 and 576)" in found.sentence
    assert judged("seven_percent", evidence_of(*PAIR)).verdict == NOT_MEASURED


def test_a_pair_that_cannot_judge_does_not_keep_another_from_it() -> None:
    capped, free = generated(2533.0, settings={"max_new_tokens": 205}), generated(2533.0)
    assert judged("fewer_tokens", evidence_of(*capped, *free, pairs=((0, 1), (2, 3)))).verdict == REFUTED


def test_the_baseline_of_a_speed_has_the_same_frames() -> None:
    """A plain run over one frame, which comes first, is another question than eight frames."""
    one = PLAIN.with_(name="1 frame", settings={"frames": 1}, stages={"decode": 800.0})
    asked = evidence_of(one, PLAIN, drafted(1600.0, speculation=by("model")))
    (speed_of,) = speculation.speeds(asked)
    assert speed_of.ratio == pytest.approx(1197.6 / 1600, rel=1e-6)
    assert [run.run_id for run in speed_of.base.runs] == [run.run_id for run in asked.columns[1].runs]
    assert speculation.speeds(evidence_of(one, drafted(1600.0, speculation=by("model")))) == []
