"""The window a draft can decode in while the target prefills: measured, or counted live."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from evprof.core.records import DRAFT, END, TARGET, KvRecord, RoundRecord, SpanRecord
from evprof.core.run_info import RunInfo
from evprof.core.run_log import RunLog
from evprof.core.sample import Sample
from evprof.view.overlap import overlap_of

MS = 1_000_000
SAMPLE = Sample("/gone/scene.npy", "/gone/scene.mp4", name="scene")


@given(st.integers(0, 40), st.integers(0, 40))
def test_hidden_tokens_are_counted_as_they_appear_and_then_as_they_were_judged(drafted: int, accepted: int) -> None:
    run = RunLog(RunInfo(1, 1, 0, TARGET, "parallel-prefill", start_ns=0, sample=SAMPLE))
    run.absorb(SpanRecord(1, 0, -1, END, DRAFT, "prefill", 0, 10 * MS))
    run.absorb(KvRecord(1, DRAFT, 10 * MS, 600, 600))
    run.absorb(SpanRecord(1, 1, -1, 0, DRAFT, "decode", 11 * MS, -1))
    for count in range(1, drafted + 1):
        run.absorb(KvRecord(1, DRAFT, (11 + count) * MS, 600 + count, 600 + count))
        found = overlap_of(run, (11 + count) * MS)
        assert (found.drafted, found.accepted, found.is_open) == (count, None, True)
    run.absorb(SpanRecord(1, 2, -1, END, TARGET, "prefill", 0, 60 * MS))
    run.absorb(RoundRecord(1, 0, 11 * MS, 1, 1, 0, drafted, min(accepted, drafted), 1, "", 1))
    found = overlap_of(run, 70 * MS)
    assert (found.drafted, found.accepted, found.is_open) == (drafted, min(accepted, drafted), False)


def test_without_speculation_there_is_no_window() -> None:
    run = RunLog(RunInfo(1, 1, 0, TARGET, "side-by-side", start_ns=0, sample=SAMPLE))
    for span_id, role, end_ms in ((0, DRAFT, 10), (1, TARGET, 60)):
        run.absorb(SpanRecord(1, span_id, -1, END, role, "prefill", 0, end_ms * MS))
    assert overlap_of(run, 70 * MS) is None
