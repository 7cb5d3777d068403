"""A range of time in the inspector: how many spans, how long together, and what share."""

from __future__ import annotations

import pytest

from evprof.core.protocols import RunStarted
from evprof.core.recording import RecordLog
from evprof.core.records import BEGIN, END, SETTLED, STAGES, TARGET, RoundRecord, SpanRecord, TokenRecord
from evprof.core.run_info import RunInfo
from evprof.core.run_log import RunBook
from evprof.view.columns import ShownModel, columns_of
from evprof.view.lanes import Track
from fake_nvml import powered_recording
from ui.runs.inspector import Inspector
from ui.runs.run_details import Detail, summary_sections
from ui.runs.token_details import range_sections
from ui.state.selection import Selection, TimeRange

MS = 1_000_000


@pytest.fixture
def track() -> Track:
    """Prefill 0-10 ms, decode 10-100 ms in nine rounds of 10 ms: 4 ms draft, 5 ms verify, two tokens at their ends."""
    recording = RecordLog()
    recording.post(RunStarted(1, RunInfo(1, 1, 0, TARGET, "speculative", start_ns=0)))

    def span(number: int, parent: int, name: str, start_ms: float, end_ms: float) -> None:
        for phase in (BEGIN, END, SETTLED):
            end = -1 if phase == BEGIN else round(end_ms * MS)
            recording.append(SpanRecord(1, number, parent, phase, TARGET, name, round(start_ms * MS), end))

    span(0, -1, "prefill", 0, 10)
    span(1, -1, "decode", 10, 100)
    for place in range(9):
        begin = 10 + 10 * place
        span(2 + 2 * place, 1, "draft", begin, begin + 4)
        span(3 + 2 * place, 1, "verify", begin + 4, begin + 9)
        recording.append(RoundRecord(1, place, begin * MS, 4 * MS, 5 * MS, MS, 4, place % 3, place % 3 + 1, "", 0))
        for more, piece in enumerate((" a", " b")):
            t_ns = (begin + 8 + more) * MS
            recording.append(TokenRecord(1, TARGET, 2 * place + more, 7, "target", place, t_ns, piece))
    book = RunBook(recording)
    book.update()
    track = Track(ShownModel(book.runs[1], TARGET))
    track.update()
    return track


def _details(track: Track, start_ms: float, end_ms: float) -> dict[str, dict[str, Detail]]:
    sections = range_sections([track], round(start_ms * MS), round(end_ms * MS))
    return {section.head: {detail.name: detail for detail in section.details} for section in sections}


def test_sums_and_shares_are_of_the_time_inside(track: Track) -> None:
    found = _details(track, 5, 45)[TARGET]
    assert {name: (detail.text, detail.beside) for name, detail in found.items()} == {
        "prefill": ("5.00 ms", "12 %"),
        "decode": ("35.0 ms", "88 %"),
        "draft × 4": ("16.0 ms", "40 %"),
        "verify × 4": ("16.0 ms", "40 %"),
    }


def test_tokens_and_rounds_of_the_range_are_told(track: Track) -> None:
    found = _details(track, 5, 45)["Tokens and cache"]
    assert found["tokens"].text == "6"
    assert found["rounds that begin"].text == "4"
    assert found["accepted of drafted"].text == "3 of 16 · 19 %"


def test_a_range_beside_everything_says_so(track: Track) -> None:
    sections = range_sections([track], 500 * MS, 600 * MS)
    assert [section.note for section in sections if section.head == TARGET] == ["Nothing of this model in the range."]


def test_figures_follow_a_range_that_is_dragged(inspector: Inspector, selection: Selection, wait_until) -> None:
    selection.set_runs(1, 2)
    selection.select(TimeRange(0, 5 * MS))
    told = [section.details for section in inspector.sections]
    for end in range(6, 12):
        selection.select(TimeRange(0, end * MS))
    wait_until(lambda: [section.details for section in inspector.sections] != told)
    assert inspector.sections[0].details[2].text == "11.0 ms"


def test_the_details_of_a_run_have_energy_by_stage_and_what_slowed_it() -> None:
    book = RunBook(powered_recording())
    book.update()
    sections = {section.head: section for section in summary_sections(*columns_of(book.runs, (1, 2)))}
    texts = {detail.name: (detail.text, detail.beside) for detail in sections["Energy"].details}
    assert texts["total"] == ("1,187 J", "2,474 J")
    assert texts["throttled"] == ("–", "38 % of samples")
    assert [detail.swatch for detail in sections["Energy"].details][1:6] == list(STAGES)
    assert "Run 2: Slowed down: cuda:0 by thermal slowdown (software)" in sections["Warnings"].note
