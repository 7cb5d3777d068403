"""Every claim: data that confirm it, data that refute it, and what is said when nothing measures it."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from evprof.core.run_info import SpeculationFacts
from evprof.metrics.claims import speculation
from evprof.metrics.claims.evidence import CONFIRMED, NOT_MEASURED, REFUTED, Evidence, Finding, judge
from evprof.metrics.claims.models import CACHE_HIT
from evprof.metrics.claims.table import CLAIMS, answer_claims
from evprof.metrics.limits.sizes import DeviceCeiling

GPU = {"device": "cuda:0"}


@pytest.fixture
def evidence(cell_runs: ModuleType) -> Callable[..., Evidence]:
    """Evidence of these cells; a draft and a target next to each other are a pair."""

    def make(*cells: Any, pairs: tuple[tuple[int, int], ...] = (), **more: Any) -> Evidence:
        columns = [cell.column(1 + 100 * place) for place, cell in enumerate(cells)]
        joined = [(columns[one], columns[other]) for one, other in pairs]
        if not pairs and len(cells) == 2 and {cell.role for cell in cells} == {"draft", "target"}:
            joined = [(columns[0], columns[1])]
        return Evidence(columns, joined, **more)

    return make


@pytest.fixture
def pair(cell_runs: ModuleType) -> tuple[Any, Any]:
    """Document 002's two configurations."""
    return cell_runs.DRAFT_002, cell_runs.TARGET_002


def judged(key: str, asked: Evidence) -> Finding:
    return judge(next(claim for claim in CLAIMS if claim.key == key), asked)


def _verdict(finding: Finding, verdict: str, *words: str, measured_on: str = "") -> None:
    assert finding.verdict == verdict, finding
    for word in words:
        assert word in finding.sentence
    assert measured_on in finding.measured_on
    assert bool(measured_on) == bool(finding.measured_on)


def test_nothing_measures_nothing(evidence: Callable[..., Evidence]) -> None:
    answers = answer_claims(evidence())
    assert len(answers) == len(CLAIMS) == 21
    assert {answer.finding.verdict for answer in answers} == {NOT_MEASURED}
    assert all(answer.claim.wanted and answer.finding.sentence for answer in answers)


def test_document_002_against_its_own_rows(evidence: Callable[..., Evidence], pair: tuple[Any, Any]) -> None:
    """What the file of 002 says of the claims, all at once."""
    found = {answer.claim.text: answer.finding.verdict for answer in answer_claims(evidence(*pair))}
    assert {text[:24]: verdict for text, verdict in found.items() if verdict != NOT_MEASURED} == {
        "Feature caching saves 10": REFUTED,
        "EventGPT's context is ~3": REFUTED,
        "The prefill ratio (8.59×": REFUTED,
        '"13.7 % acceptance equiv': REFUTED,
        "Parallel prefill makes i": REFUTED,
        "Vision makes up ~15 % of": REFUTED,
        "EventGPT's vision is fas": REFUTED,
        "EventGPT's prefill of ~6": CONFIRMED,
    }


def test_a_cache_saves_no_more_than_vision_costs(evidence: Callable[..., Evidence], pair: tuple[Any, Any]) -> None:
    _verdict(judged("feature_caching", evidence(*pair)), REFUTED, "29.5 ms")
    slow = [cell.with_(stages=cell.stages | {"vision": 180.0}) for cell in pair]
    _verdict(judged("feature_caching", evidence(*slow)), NOT_MEASURED, "180 ms")


@pytest.mark.parametrize(("computed", "verdict"), [(150.0, CONFIRMED), (30.0, REFUTED)])
def test_a_cache_hit_against_a_miss(
    evidence: Callable[..., Evidence], pair: tuple[Any, Any], computed: float, verdict: str
) -> None:
    miss = pair[1].with_(name="off", is_imported=False, model=GPU, stages={"vision": computed, "decode": 9.0})
    hit = miss.with_(
        name="on",
        stages={"vision": 0.5, "decode": 9.0},
        vision_parts=[CACHE_HIT],
        settings=miss.settings | {"switches": {"vision_cache": "memory"}},
    )
    _verdict(judged("feature_caching", evidence(miss, hit)), verdict, "saves")
    _verdict(judged("feature_caching", evidence(hit, miss)), verdict, "saves")
    on_cpu = [cell.with_(model={"device": "cpu"}) for cell in (miss, hit)]
    _verdict(judged("feature_caching", evidence(*on_cpu)), NOT_MEASURED, "saves", measured_on="on cpu")


def _formats(cell: Any, bf16_weights: int, bf16_decode: float) -> tuple[Any, Any]:
    plain = cell.with_(is_imported=False, weights=1000, stages={"decode": 100.0})
    fp16 = plain.with_(name="fp16", model=GPU | {"dtype": "float16"})
    bf16 = plain.with_(
        name="bf16", model=GPU | {"dtype": "bfloat16"}, weights=bf16_weights, stages={"decode": bf16_decode}
    )
    return fp16, bf16


@pytest.mark.parametrize(
    ("weights", "decode", "verdict"),
    [(1000, 100.0, REFUTED), (1000, 80.0, REFUTED), (600, 80.0, CONFIRMED), (600, 120.0, REFUTED)],
)
def test_bfloat16_against_float16(
    evidence: Callable[..., Evidence], cell_runs: ModuleType, weights: int, decode: float, verdict: str
) -> None:
    cells = _formats(cell_runs.Cell(), weights, decode)
    _verdict(judged("bfloat16", evidence(*cells)), verdict, "bfloat16")


def test_vocabularies_by_the_texts_of_ids(evidence: Callable[..., Evidence], pair: tuple[Any, Any]) -> None:
    words = [" a", " road", " with", " a1", " car", "."]
    draft = pair[0].with_(tokens=(5, 6, 7, 8, 9, 10), pieces=words)
    same = pair[1].with_(tokens=(10, 9, 8, 7, 6, 5), pieces=words[::-1])
    other = pair[1].with_(tokens=(10, 9, 8, 7, 6, 5), pieces=words)
    _verdict(judged("tokenizers", evidence(draft, same)), REFUTED, "Of 6 ids")
    _verdict(judged("tokenizers", evidence(draft, other)), CONFIRMED, "0 stand for the same")
    random = same.with_(model={"name": "random:7b-llava"})
    assert judged("tokenizers", evidence(draft, random)).measured_on


def test_vocabularies_by_runs_of_common_words(evidence: Callable[..., Evidence], pair: tuple[Any, Any]) -> None:
    draft = pair[0].with_(tokens=(1, 2, 3, 4, 5), text="there is a road ahead")
    same = pair[1].with_(tokens=(9, 1, 2, 3, 4, 8), text="surely there is a road here")
    other = pair[1].with_(tokens=(9, 11, 12, 13, 14, 8), text="surely there is a road here")
    _verdict(judged("tokenizers", evidence(draft, same)), REFUTED, "same 4 words", "over 4 in a row")
    _verdict(judged("tokenizers", evidence(draft, other)), CONFIRMED, "over 0 in a row")
    short = pair[1].with_(tokens=(9, 1), text="a road")
    _verdict(judged("tokenizers", evidence(draft, short)), NOT_MEASURED)


@pytest.mark.parametrize(("prompt", "verdict"), [(641, REFUTED), (310, CONFIRMED)])
def test_eventgpts_context(evidence: Callable[..., Evidence], pair: tuple[Any, Any], prompt: int, verdict: str) -> None:
    draft = pair[0].with_(prompt=prompt, frame_tokens=200)
    _verdict(judged("eventgpt_context", evidence(draft)), verdict, str(prompt))
    tiny = draft.with_(model={"layers": 4})
    _verdict(judged("eventgpt_context", evidence(tiny)), NOT_MEASURED, str(prompt), "another layout")


@pytest.mark.parametrize(
    ("cache", "decode", "verdict"),
    [
        ("static", 107.3, CONFIRMED),  # 1.157 times the time for 1.155 times the bytes
        ("static", 143.9, REFUTED),
        ("dynamic", 143.9, CONFIRMED),
        ("dynamic", 250.0, REFUTED),
        ("static", 92.7, REFUTED),  # no slower at all
    ],
)
def test_the_smaller_cache_by_how_it_grows(
    evidence: Callable[..., Evidence], pair: tuple[Any, Any], cache: str, decode: float, verdict: str
) -> None:
    here = {"is_imported": False, "model": GPU | {"cache": cache}, "tokens": (1, 2, 3, 4, 5, 6)}
    draft = pair[0].with_(**here)
    target = pair[1].with_(**here, stages={"vision": 29.5, "prefill": 568.1, "decode": decode})
    _verdict(judged("smaller_cache", evidence(draft, target)), verdict, "positions")


def test_prefill_against_measured_ceilings(evidence: Callable[..., Evidence], pair: tuple[Any, Any]) -> None:
    target = pair[1].with_(is_imported=False, model=GPU, stages={"prefill": 568.1})
    fast = DeviceCeiling("cuda:0", "float16", 1, 1e12, 1.6e14)
    _verdict(judged("memory_bound_prefill", evidence(target, ceilings=[fast])), REFUTED, "above 160.0", "91 %")
    starved = DeviceCeiling("cuda:0", "float16", 1, 1e10, 1.6e14)
    _verdict(judged("memory_bound_prefill", evidence(target, ceilings=[starved])), CONFIRMED, "above 16,000.0")


def test_prefill_against_its_own_decode_steps(evidence: Callable[..., Evidence], pair: tuple[Any, Any]) -> None:
    """002: decode read 544 GB/s, so the prefill's bytes are 5 % of its time."""
    _verdict(judged("memory_bound_prefill", evidence(*pair)), REFUTED, "544 GB/s", "take 5 %")
    slow = pair[1].with_(stages=pair[1].stages | {"decode": 5 * 400.0})
    _verdict(judged("memory_bound_prefill", evidence(slow)), CONFIRMED)
    short = pair[1].with_(prompt=700, frames=1)
    _verdict(judged("memory_bound_prefill", evidence(short)), NOT_MEASURED, "700 positions, not 4,643")


@pytest.mark.parametrize(("prefill", "of_000", "of_002"), [(66.1, REFUTED, CONFIRMED), (100.0, CONFIRMED, REFUTED)])
def test_two_figures_for_one_prefill(
    evidence: Callable[..., Evidence], pair: tuple[Any, Any], prefill: float, of_000: str, of_002: str
) -> None:
    draft = pair[0].with_(stages={"prefill": prefill})
    cold = pair[0].with_(stages={"prefill": 114.4}, samples=1, is_warmup=True).runs(500)
    asked = evidence(draft, warmups=cold)
    _verdict(
        judged("warm_prefill_000", asked),
        of_000,
        "cold pass took 114.4 ms, as 000 says",
        "clocks are not known",
    )
    _verdict(judged("warm_prefill_002", asked), of_002)
    clocked = draft.with_(is_imported=False, model=GPU, environment={"gpu": {"clocks_mhz": 1410}})
    _verdict(judged("warm_prefill_002", evidence(clocked)), of_002, "GPU clocks 1,410 MHz")
    for change in ({"quantization": "nf4"}, {"dtype": "float32"}):
        assert judged("warm_prefill_002", evidence(draft.with_(model=change))).verdict == NOT_MEASURED
    assert judged("warm_prefill_002", evidence(draft.with_(prompt=900))).verdict == NOT_MEASURED


@pytest.mark.parametrize(("prefill", "verdict"), [(81.0, CONFIRMED), (100.0, REFUTED), (75.0, REFUTED)])
def test_seven_percent_more_tokens(
    evidence: Callable[..., Evidence], pair: tuple[Any, Any], prefill: float, verdict: str
) -> None:
    """641 against 597 positions are 7.4 % more and 7.4 % more operations; 000's 100 against 75 ms are a third more."""
    draft = pair[0].with_(prompt=641, frame_tokens=582, stages={"prefill": prefill})
    target = pair[1].with_(prompt=597, frames=1, stages={"prefill": 75.0})
    _verdict(judged("seven_percent", evidence(draft, target)), verdict, "7.4 % more tokens", "visual 582 and 576")
    assert judged("seven_percent", evidence(*pair)).verdict == NOT_MEASURED


def test_fewer_tokens_of_003(evidence: Callable[..., Evidence], pair: tuple[Any, Any]) -> None:
    """45.5 against 102.4 tokens in 977 and 2533 ms: 2.25 x 1.15 = 2.59, 85 % of it the count."""
    draft = pair[0].with_(stages={"vision+prefill+decode": 977.0}, output=91, steps=None, settings={})
    target = pair[1].with_(stages={"vision+prefill+decode": 2533.0}, output=205, steps=None, settings={})
    words = ("2.25 times the tokens x 1.15 times the time per token = 2.59", "85 %")
    _verdict(judged("fewer_tokens", evidence(draft, target)), REFUTED, *words)
    as_fast = target.with_(stages={"vision+prefill+decode": 977.0 * 205 / 91})
    _verdict(judged("fewer_tokens", evidence(draft, as_fast)), CONFIRMED, "100 %")
    capped = target.with_(settings={"max_new_tokens": 205})
    _verdict(judged("fewer_tokens", evidence(draft, capped)), NOT_MEASURED, "as long as allowed")
    forced = target.with_(settings={"ignore_eos": True})
    _verdict(judged("fewer_tokens", evidence(draft, forced)), NOT_MEASURED, "own choice")
    few = [cell.with_(samples=2) for cell in (draft, target)]
    _verdict(judged("fewer_tokens", evidence(*few)), NOT_MEASURED, "cannot be told apart")
    # A pair that cannot judge does not keep another from it.
    both = evidence(draft, capped, draft, target, pairs=((0, 1), (2, 3)))
    _verdict(judged("fewer_tokens", both), REFUTED, *words)


@pytest.mark.parametrize(("vision", "verdict"), [(29.5, REFUTED), (110.0, CONFIRMED), (400.0, REFUTED)])
def test_visions_share_of_the_difference(
    evidence: Callable[..., Evidence], pair: tuple[Any, Any], vision: float, verdict: str
) -> None:
    target = pair[1].with_(stages=pair[1].stages | {"vision": vision})
    _verdict(judged("vision_share", evidence(pair[0], target)), verdict, "of difference")


@pytest.mark.parametrize(("vision", "verdict"), [(5.9, REFUTED), (2.0, CONFIRMED), (29.5 / 8, NOT_MEASURED)])
def test_vision_of_one_frame(
    evidence: Callable[..., Evidence], pair: tuple[Any, Any], vision: float, verdict: str
) -> None:
    draft = pair[0].with_(stages=pair[0].stages | {"vision": vision})
    _verdict(judged("vision_per_frame", evidence(draft, pair[1])), verdict, "A frame takes")


def _speculative(cell: Any, total: float, *rounds: tuple[int, int, int], **more: Any) -> Any:
    stages = {"vision": 29.5, "prefill": 568.1, "decode": total - 597.6}
    changes = {"name": "spec", "mode": "speculative", "stages": stages, "is_imported": False}
    return cell.with_(**changes, rounds=rounds or ((5, 1, 0),), **more)


def _plain(cell: Any) -> Any:
    return cell.with_(mode="target", is_imported=False, stages={"vision": 29.5, "prefill": 568.1, "decode": 600.0})


@pytest.mark.parametrize(
    ("total", "naive", "doubles"),
    [(1500.0, CONFIRMED, REFUTED), (1000.0, REFUTED, REFUTED), (520.0 + 0.1, REFUTED, CONFIRMED)],
)
def test_speculation_against_the_target_alone(
    evidence: Callable[..., Evidence], pair: tuple[Any, Any], total: float, naive: str, doubles: str
) -> None:
    cells = _plain(pair[1]), _speculative(pair[1], 597.7).with_(stages={"decode": total})
    _verdict(
        judged("naive_speed", evidence(*cells)),
        naive,
        "speed of the target alone: spec (drafter model, chain), 6 runs, against runs 1, 2",
    )
    _verdict(judged("draft_speed", evidence(*cells)), doubles)
    same = _plain(pair[1]), _plain(pair[1]).with_(name="spec", mode="speculative", rounds=((1, 0, 0),))
    assert judged("naive_speed", evidence(*same)).verdict == NOT_MEASURED


def test_drafting_inside_the_prefill_as_measured(evidence: Callable[..., Evidence], pair: tuple[Any, Any]) -> None:
    plain = _plain(pair[1])
    slow = _speculative(pair[1], 1100.0, (5, 1, 1))
    fast = slow.with_(stages={"prefill": 400.0, "decode": 100.0})
    _verdict(judged("parallel_prefill_speed", evidence(plain, slow)), REFUTED, "1.09×")
    _verdict(judged("parallel_prefill_speed", evidence(plain, fast)), CONFIRMED, "2.40×")


def test_parallel_prefill_as_bounded_by_the_paces(evidence: Callable[..., Evidence], pair: tuple[Any, Any]) -> None:
    """002: 28 tokens fit the window, four are accepted, and 50 tokens come 1.05 times as fast."""
    finding = judged("parallel_prefill_speed", evidence(*pair))
    _verdict(finding, REFUTED, "28 tokens fit", "of which 4.0", "1.05 and 1.03")
    # A target whose steps are nearly all of its time and few: nothing excludes it, and nothing measured it.
    quick = pair[1].with_(stages={"vision+prefill": 100.0, "decode": 5.0}), pair[0].with_(stages={"decode": 1.0})
    assert judged("parallel_prefill_speed", evidence(*quick)).verdict == NOT_MEASURED


@pytest.mark.parametrize(("accepted", "verdict"), [(0.0, REFUTED), (2.0, REFUTED), (4.5, CONFIRMED)])
def test_the_acceptance_through_adapters(
    evidence: Callable[..., Evidence], pair: tuple[Any, Any], accepted: float, verdict: str
) -> None:
    cells = _adapter(pair[1], 1680.0, accepted)
    _verdict(judged("adapter_acceptance", evidence(*cells)), verdict, f"{6 * accepted:.0f} of 30 drafted")
    few = [cell.with_(samples=2) for cell in cells]
    _verdict(judged("adapter_acceptance", evidence(*few)), NOT_MEASURED, "2 samples", "Too few")


def test_nodes_of_a_tree_are_no_acceptance_of_an_adapter(
    evidence: Callable[..., Evidence], pair: tuple[Any, Any]
) -> None:
    """Of a tree of 14 nodes at most 3 can stand; the chain of another adapter has 9 of 10 right."""
    plain = _plain(pair[1])
    tree = _speculative(pair[1], 700.0, (14, 3, 0)).with_(
        name="tree", speculation=SpeculationFacts("head", "eagle", adapter="a", tree="2,2,2")
    )
    chain = _speculative(pair[1], 700.0, (10, 9, 0)).with_(
        name="map", speculation=SpeculationFacts("map", "hidden", adapter="m")
    )
    _verdict(judged("adapter_acceptance", evidence(plain, tree)), NOT_MEASURED, "heads and trees")
    _verdict(
        judged("adapter_acceptance", evidence(plain, tree, chain)),
        CONFIRMED,
        "90.0 %",
        "54 of 60 drafted tokens of map",
    )


def test_adapters_measured_here_are_weighed(evidence: Callable[..., Evidence], pair: tuple[Any, Any]) -> None:
    """A map drafts 3 of 4 right at 1.7 times the speed; an adapted cache answers three times as fast."""
    plain = _plain(pair[1])
    drafts = _speculative(pair[1], 597.7, (4, 3, 0), speculation=SpeculationFacts("map", "hidden", adapter="a")).with_(
        stages={"decode": 600.0}
    )
    _verdict(
        judged("adapter_speed", evidence(plain, drafts)),
        NOT_MEASURED,
        "drafter hidden, chain",
        measured_on="an adapter that drafts",
    )
    _verdict(judged("adapter_acceptance", evidence(plain, drafts)), REFUTED, "18 of 24 drafted", "75.0 %")
    assert judged("naive_speed", evidence(plain, drafts)).verdict == NOT_MEASURED
    kv_facts = SpeculationFacts("map", "kv", adapter="m", is_lossless=False)
    adapted = plain.with_(name="kv", mode="kv-adapted", stages={"decode": 400.0}, speculation=kv_facts)
    _verdict(judged("adapter_speed", evidence(plain, drafts, adapted)), CONFIRMED, "2.99×", "kv (", "not the target's")


def test_twice_as_fast_is_said_of_the_draft_model_and_others_are_told_apart(
    evidence: Callable[..., Evidence], pair: tuple[Any, Any]
) -> None:
    """The target over a second cache accepts everything: how fast it comes says nothing of EventGPT."""
    plain = _plain(pair[1])
    own = _speculative(pair[1], 597.7, speculation=SpeculationFacts("target", "self")).with_(
        name="self", stages={"decode": 500.0}
    )
    naive = _speculative(pair[1], 597.7, speculation=SpeculationFacts("EventGPT", "model")).with_(
        name="naive", stages={"decode": 1500.0}
    )
    finding = judged("draft_speed", evidence(plain, own, naive))
    _verdict(finding, REFUTED, "0.80×", "naive (drafter model, chain)", "drafter self, chain 2.40×")
    alone = judged("draft_speed", evidence(plain, own))
    _verdict(alone, NOT_MEASURED, "not run on the same samples", "drafter self, chain 2.40×")


def test_the_baseline_of_a_speed_has_the_same_frames(evidence: Callable[..., Evidence], pair: tuple[Any, Any]) -> None:
    """A plain run over one frame, which comes first, is another question than eight frames."""
    eight = _plain(pair[1])
    one = eight.with_(name="1 frame", settings={"frames": 1}, stages={"decode": 800.0})
    drafted = _speculative(pair[1], 597.7, speculation=SpeculationFacts("EventGPT", "model")).with_(
        stages={"decode": 1600.0}
    )
    asked = evidence(one, eight, drafted)
    (speed_of,) = speculation.speeds(asked)
    assert speed_of.ratio == pytest.approx(1197.6 / 1600, rel=1e-6)
    assert [run.run_id for run in speed_of.base.runs] == [run.run_id for run in asked.columns[1].runs]
    _verdict(judged("naive_speed", asked), CONFIRMED, "0.75×", "against runs 101, 102")
    assert speculation.speeds(evidence(one, drafted)) == []


@pytest.mark.parametrize(
    "other",
    [
        {"family": "video_llava", "name": "Video-LLaVA-7B-hf", "quantization": "4bit"},
        {"family": "video_llava"},
        {"quantization": "nf4"},
        {"dtype": "float32"},
        {"name": "random:7b-llava"},
    ],
)
def test_claims_are_judged_on_their_own_models_alone(
    evidence: Callable[..., Evidence], pair: tuple[Any, Any], other: dict[str, Any]
) -> None:
    cells = [_plain(pair[1]), _speculative(pair[1], 597.7).with_(stages={"decode": 3000.0})]
    assert judged("naive_speed", evidence(*cells)).verdict == CONFIRMED
    theirs = [cell.with_(model=other) for cell in cells]
    name = other.get("name", "llava-1.5-7b")
    _verdict(judged("naive_speed", evidence(*theirs)), NOT_MEASURED, "0.40×", "is not about", measured_on=name)


def _adapter(cell: Any, total: float, accepted: float) -> tuple[Any, Any]:
    plain = cell.with_(mode="target", stages={"vision+prefill": 327.0, "decode": 710.0})
    figures = {"drafted_tokens": 5.0, "accepted_tokens": accepted, "published_total_ms": total}
    return plain, plain.with_(name="L4", mode="speculative", figures=figures)


@pytest.mark.parametrize(
    ("rounds", "verdict"), [(((1000, 137, 0),), CONFIRMED), (((5, 2, 0),), REFUTED), ((), REFUTED)]
)
def test_a_ratio_of_lengths_is_no_acceptance(
    evidence: Callable[..., Evidence],
    pair: tuple[Any, Any],
    rounds: tuple[tuple[int, int, int], ...],
    verdict: str,
) -> None:
    target = pair[1].with_(rounds=rounds)
    _verdict(judged("length_ratio", evidence(pair[0], target)), verdict, "13.7 %")
    longer = target.with_(prompt=6000)
    if not rounds:
        assert judged("length_ratio", evidence(pair[0], longer)).verdict == NOT_MEASURED


@pytest.mark.parametrize(("share", "verdict"), [(0.85, CONFIRMED), (0.6, REFUTED), (1.2, REFUTED)])
def test_pruning(evidence: Callable[..., Evidence], pair: tuple[Any, Any], share: float, verdict: str) -> None:
    whole = _plain(pair[1])
    stages = {name: share * duration for name, duration in whole.stages.items()}
    pruned = whole.with_(name="kept", stages=stages, settings=whole.settings | {"switches": {"visual_keep": 0.5}})
    for cells in ((whole, pruned), (pruned, whole)):
        _verdict(judged("pruned_time", evidence(*cells)), verdict, "Keeping 50 %", f"{share:.2f} times")


@pytest.mark.parametrize(("decode", "verdict"), [(350.0, CONFIRMED), (580.0, REFUTED), (200.0, REFUTED)])
def test_quantization(evidence: Callable[..., Evidence], pair: tuple[Any, Any], decode: float, verdict: str) -> None:
    whole = _plain(pair[1]).with_(tokens=(1, 2, 3))
    packed = whole.with_(name="int8", stages={"decode": decode}, model={"quantization": "int8"})
    _verdict(judged("quantized_speed", evidence(whole, packed)), verdict, "With int8 weights")
