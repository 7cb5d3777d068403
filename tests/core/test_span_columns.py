"""Spans put together column by column are those that their records tell one after the other."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from evprof.core.protocols import RunStarted
from evprof.core.recording import RecordLog
from evprof.core.records import BEGIN, END, SETTLED, SpanRecord
from evprof.core.rows.spans import IntTable, Span
from evprof.core.run_info import RunInfo
from evprof.core.run_log import RunBook, RunLog

NAMES = ["load", "vision", "vision+prefill", "step", "tower"]
RECORDS = st.builds(
    SpanRecord,
    st.just(1),
    st.sampled_from([-1, 0, 1, 2, 5, 4, 3, 1 << 60]),
    st.integers(-1, 5),
    st.sampled_from([BEGIN, END, SETTLED]),
    st.sampled_from(["draft", "target"]),
    st.sampled_from(NAMES),
    st.integers(0, 50),
    st.integers(-1, 99),
)


def told(records: list[SpanRecord]) -> dict[int, Span]:
    """What the records say, one after the other."""
    spans: dict[int, Span] = {}
    for row in records:
        known = spans.get(row.span_id)
        if known is None:
            known = spans[row.span_id] = Span(row.span_id, row.parent_id, row.role, row.name, row.start_ns)
            known.host_start_ns = row.start_ns if row.phase == BEGIN else 0
        if row.phase == BEGIN:
            continue
        if row.phase == END:
            known.host_start_ns, known.host_end_ns = row.start_ns, row.end_ns
        if row.phase == SETTLED or not known.is_settled:
            known.start_ns, known.end_ns = row.start_ns, row.end_ns
        known.is_settled = known.is_settled or row.phase == SETTLED
    return spans


@given(st.lists(RECORDS, max_size=60), st.sets(st.integers(0, 60)), st.sets(st.integers(0, 60)))
def test_they_say_what_their_records_say(records: list[SpanRecord], cuts: set[int], looks: set[int]) -> None:
    recording = RecordLog()
    recording.post(RunStarted(1, RunInfo(1, 1, 0, "target", "target")))
    book = RunBook(recording)
    book.update()
    for place, record in enumerate(records):
        if place in cuts:
            book.update()
        if place in looks:
            # What was looked at follows the run.
            list(book.runs[1].spans.values())
        recording.append(record)
    book.update()
    run, expected = book.runs[1], told(records)
    _compare(run, expected)
    alone = RunLog(run.info)
    for record in records:
        alone.absorb(record)
    _compare(alone, expected)


def _compare(run: RunLog, expected: dict[int, Span]) -> None:
    assert [run.span(span_id) for span_id in expected] == list(expected.values())
    stages = [span for span in expected.values() if span.is_stage]
    assert sorted(map(repr, run.stages())) == sorted(map(repr, stages))
    assert run.spans == expected
    assert list(run.spans) == list(expected)
    assert run.span(77) is None
    for span_id in (0, 1, 5):
        parts = [span for span in expected.values() if span.parent_id == span_id]
        assert run.children(span_id) == sorted(parts, key=lambda span: span.start_ns)


def test_views_of_a_table_stay_as_they_were() -> None:
    table = IntTable(2)
    table.append((np.arange(3), np.arange(3) * 2))
    view = table.column(1)
    table.append((np.arange(3, 900), np.arange(3, 900) * 2))
    assert view.tolist() == [0, 2, 4]
