"""Two runs on one axis: what is aligned lies over each other, whatever the runs' clocks say."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from evprof.core.records import DRAFT, END, ORIGIN_TARGET, TARGET, SpanRecord, TokenRecord
from evprof.core.run_info import RunInfo
from evprof.core.run_log import RunLog
from evprof.view.alignment import (
    FIRST_TOKEN,
    LANDMARK,
    RunAlignment,
    landmark_of,
    moment_of,
    offset_of,
    span_at,
)
from evprof.view.columns import ShownModel
from evprof.view.lanes import Track

moments = st.integers(0, 10**12)
verifications = st.lists(st.integers(1, 10**9), min_size=1, max_size=6)


def _run(run_id: int, zero: int, prefill: int, verifies: list[int], *, drafts: bool) -> RunLog:
    """A target's run: prefill, then decode with verifications in it; with `drafts` a draft's prefill before."""
    run = RunLog(RunInfo(run_id, run_id, 0, TARGET, "speculative" if drafts else "target", start_ns=zero))
    spans = [(-1, DRAFT, "prefill", zero + prefill // 2, zero + prefill)] if drafts else []
    spans += [(-1, TARGET, "prefill", zero + prefill, zero + prefill + 5)]
    decode = len(spans)
    spans += [(-1, TARGET, "decode", zero + prefill + 5, zero + prefill + 6 + sum(verifies))]
    at = zero + prefill + 5
    for length in verifies:
        spans.append((decode, TARGET, "verify", at, at + length))
        at += length
    for span_id, (parent, role, name, start, end) in enumerate(spans):
        run.absorb(SpanRecord(run_id, span_id, parent, END, role, name, start, end))
    run.absorb(TokenRecord(run_id, TARGET, 0, 1, ORIGIN_TARGET, -1, zero + prefill + 5, "a"))
    return run


plans = st.tuples(moments, moments, verifications, st.booleans())


@given(plans, plans)
def test_what_is_aligned_lies_at_one_place(
    plan_a: tuple[int, int, list[int], bool], plan_b: tuple[int, int, list[int], bool]
) -> None:
    a, b = (_run(number, *plan[:3], drafts=plan[3]) for number, plan in enumerate((plan_a, plan_b), start=1))
    zero_a, zero_b = plan_a[0], plan_b[0]
    both = (a, zero_a), (b, zero_b)
    for run, other in ((a, b), (b, a)):
        for span in run.spans.values():
            alignment = RunAlignment(LANDMARK, landmark_of(run, span))
            assert alignment.landmark is not None
            assert span_at(run, alignment.landmark) is span
            found, offset = span_at(other, alignment.landmark), offset_of(*both, alignment)
            assert (found is None) == (offset is None)
            if found is None or offset is None:
                assert span.name == "verify"
                continue
            assert found.name == span.name
            in_axis_a, in_axis_b = (span, found) if run is a else (found, span)
            assert in_axis_a.start_ns - zero_a == in_axis_b.start_ns - zero_b + offset
    shift = offset_of(*both, RunAlignment(FIRST_TOKEN))
    assert shift is not None
    tracks = [Track(ShownModel(run, TARGET)) for run in (a, b)]
    tracks[1].shift_ns = shift
    for track in tracks:
        track.update()
    assert tracks[0].token_times()[0] == tracks[1].token_times()[0]


def test_what_has_not_happened_has_no_moment() -> None:
    run = RunLog(RunInfo(1, 1, 0, TARGET, "target", start_ns=0))
    assert moment_of(run, 0, RunAlignment(FIRST_TOKEN)) is None
    assert offset_of((run, 0), (_run(2, 0, 1, [1], drafts=False), 0), RunAlignment(FIRST_TOKEN)) is None
