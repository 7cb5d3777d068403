"""Where tokens came from: which round a span worked for, and which span a token came out of."""

from __future__ import annotations

from evprof.core.records import BEGIN, END, SETTLED, RoundRecord, SpanRecord, TokenRecord
from evprof.core.run_info import RunInfo
from evprof.core.run_log import RunLog
from evprof.view.alignment import round_of_span, step_of

DECODE, DRAFT_0, VERIFY_0, DRAFT_1, VERIFY_1, FINISH, PREFILL = range(7)


def span(run: RunLog, span_id: int, name: str, start: int, end: int, *, parent: int = -1, role: str = "target") -> None:
    for phase in (BEGIN, END, SETTLED):
        run.absorb(SpanRecord(1, span_id, parent, phase, role, name, start, -1 if phase == BEGIN else end))


def played() -> RunLog:
    """Prefill, two rounds, and a drafter that catches up after the last one."""
    run = RunLog(RunInfo(1, 1, 0, "target", "speculative", start_ns=0))
    span(run, PREFILL, "prefill", 0, 100)
    span(run, DECODE, "decode", 100, 400)
    span(run, DRAFT_0, "draft", 110, 150, parent=DECODE, role="draft")
    span(run, VERIFY_0, "verify", 150, 200, parent=DECODE)
    span(run, DRAFT_1, "draft", 220, 260, parent=DECODE, role="draft")
    span(run, VERIFY_1, "verify", 260, 300, parent=DECODE)
    span(run, FINISH, "draft", 350, 390, parent=DECODE, role="draft")
    run.absorb(RoundRecord(1, 0, 110, 40, 50, 5, 3, 1, 2, "1,2,3", 0))
    run.absorb(RoundRecord(1, 1, 220, 40, 40, 5, 3, 0, 1, "4,5,6", 0))
    return run


def token(position: int, origin: str, round_index: int, t_ns: int) -> TokenRecord:
    return TokenRecord(1, "draft" if origin == "rejected" else "target", position, 5, origin, round_index, t_ns, " x")


def test_what_drafts_and_verifies_belongs_to_its_round() -> None:
    run = played()
    found = {span_id: round_of_span(run, entry) for span_id, entry in run.spans.items()}
    assert found == {
        PREFILL: None,
        DECODE: None,
        DRAFT_0: 0,
        VERIFY_0: 0,
        DRAFT_1: 1,
        VERIFY_1: 1,
        FINISH: None,  # nothing is proposed there
    }


def test_tokens_come_out_of_what_made_them_known() -> None:
    run = played()
    assert step_of(run, token(0, "target", -1, 99)).span_id == PREFILL
    assert step_of(run, token(1, "accepted", 0, 201)).span_id == VERIFY_0
    assert step_of(run, token(2, "rejected", 0, 201)).span_id == DRAFT_0
    assert step_of(run, token(3, "bonus", 1, 301)).span_id == VERIFY_1
    assert step_of(run, token(4, "target", -1, 350)).span_id == DECODE


def test_what_is_drafted_inside_a_prefill_belongs_to_the_hidden_round() -> None:
    run = RunLog(RunInfo(1, 1, 0, "target", "parallel-prefill", start_ns=0))
    span(run, 0, "prefill", 0, 200)
    span(run, 1, "decode", 50, 180, role="draft")
    span(run, 2, "decode", 200, 300)
    span(run, 3, "verify", 210, 230, parent=2)
    run.absorb(RoundRecord(1, 0, 50, 130, 20, 0, 4, 2, 3, "1,2,3,4", 1))
    assert [round_of_span(run, run.spans[span_id]) for span_id in (0, 1, 2, 3)] == [None, 0, None, 0]
    assert step_of(run, token(2, "accepted", 0, 231)).span_id == 3
    assert step_of(run, token(3, "rejected", 0, 231)).span_id == 1
