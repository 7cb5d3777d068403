"""The window a draft can decode in while the target prefills: measured, counted live, or thought of two runs."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from evprof.core.records import DRAFT, END, ORIGIN_TARGET, TARGET, KvRecord, RoundRecord, SpanRecord, TokenRecord
from evprof.core.run_info import FINISHED, RunInfo
from evprof.core.run_log import RunLog
from evprof.core.sample import Sample
from evprof.view.overlap import overlap_of, race_of

MS = 1_000_000
SAMPLE = Sample("/gone/scene.npy", "/gone/scene.mp4", name="scene")

moments = st.integers(0, 10**6)


def _run(run_id: int, role: str, zero: int, prefill_end: int, tokens: list[int]) -> RunLog:
    """A run of its own; `tokens` are ns after the end of its prefill."""
    mode = "draft" if role == DRAFT else "target"
    run = RunLog(RunInfo(run_id, 1, 0, role, mode, status=FINISHED, start_ns=zero, sample=SAMPLE))
    run.absorb(SpanRecord(run_id, 0, -1, END, role, "prefill", zero, zero + prefill_end))
    for place, after in enumerate(sorted(tokens)):
        t_ns = zero + prefill_end + after
        run.absorb(TokenRecord(run_id, role, place, place, ORIGIN_TARGET, -1, t_ns, "a"))
    return run


@given(moments, moments, st.integers(1, 10**5), st.integers(1, 10**5), st.lists(st.integers(0, 10**5), max_size=20))
def test_a_race_counts_what_the_draft_had_said_when_the_target_was_ready(
    zero_a: int, zero_b: int, ready: int, target_ready: int, tokens: list[int]
) -> None:
    draft, target = _run(1, DRAFT, zero_a, ready, tokens), _run(2, TARGET, zero_b, target_ready, [0, 5])
    found = race_of(draft, target, 0)
    assert (found is None) == (target_ready <= ready)
    assert race_of(target, draft, 0) is None
    if found is not None:
        assert (found.start_ns, found.end_ns) == (zero_b + ready, zero_b + target_ready)
        assert found.is_thought
        assert found.drafted == sum(ready + after <= target_ready for after in tokens)


def test_different_scenes_do_not_race() -> None:
    draft, target = _run(1, DRAFT, 0, 10, [1]), _run(2, TARGET, 0, 100, [1])
    assert race_of(draft, target, 0) is not None
    target.info.sample = Sample("/gone/other.npy", "/gone/other.mp4", name="other")
    assert race_of(draft, target, 0) is None


@given(st.integers(0, 40), st.integers(0, 40))
def test_hidden_tokens_are_counted_as_they_appear_and_then_as_they_were_judged(drafted: int, accepted: int) -> None:
    run = RunLog(RunInfo(1, 1, 0, TARGET, "parallel-prefill", start_ns=0, sample=SAMPLE))
    run.absorb(SpanRecord(1, 0, -1, END, DRAFT, "prefill", 0, 10 * MS))
    run.absorb(KvRecord(1, DRAFT, 10 * MS, 600, 600))
    run.absorb(SpanRecord(1, 1, -1, 0, DRAFT, "decode", 11 * MS, -1))
    for count in range(1, drafted + 1):
        run.absorb(KvRecord(1, DRAFT, (11 + count) * MS, 600 + count, 600 + count))
        found = overlap_of(run, (11 + count) * MS)
        assert found is not None
        assert (found.drafted, found.accepted, found.is_open) == (count, None, True)
    run.absorb(SpanRecord(1, 2, -1, END, TARGET, "prefill", 0, 60 * MS))
    run.absorb(RoundRecord(1, 0, 11 * MS, 1, 1, 0, drafted, min(accepted, drafted), 1, "", 1))
    found = overlap_of(run, 70 * MS)
    assert found is not None
    assert (found.drafted, found.accepted, found.is_open) == (drafted, min(accepted, drafted), False)
