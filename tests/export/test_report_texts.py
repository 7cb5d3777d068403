"""The section on generated texts: who said what, how long, how alike, with n and the settings beside."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cell_runs import Cell
from evprof.core.sample import Sample
from evprof.export.report.data import ReportData, Source, gather
from evprof.export.report.parts import Badge
from evprof.export.report.sections.answers import generated_texts
from report_blocks import tables, texts

Answer = tuple[str, str, str, str | None]
"""Cell, sample, text, reference."""

Gather = Callable[..., ReportData]


@pytest.fixture
def data_of() -> Gather:
    """Data of a session in which cells answered samples, greedily."""

    def build(answers: list[Answer]) -> ReportData:
        runs = []
        for number, (cell, sample, text, reference) in enumerate(answers, 1):
            pieces = [f" {piece}" for piece in text.split()]
            ids = [sum(map(ord, piece)) for piece in pieces]
            settings = {"temperature": 0.0, "max_new_tokens": 64}
            made = Cell(cell, samples=1, tokens=ids, pieces=pieces, text=text, settings=settings, is_imported=False)
            (run,) = made.runs(number)
            run.info.sample = Sample(name=sample, prompt="What?", reference=reference)
            runs.append(run)
        return gather([Source(Path("s.evprof"), runs)])

    return build


def test_lengths_stand_beside_the_settings(data_of: Gather) -> None:
    data = data_of(
        [
            ("short", "one", "a bus", None),
            ("long", "one", "a bus on the road", None),
            ("short", "two", "a red bus", None),
            ("long", "two", "a red bus on the road here now", None),
        ]
    )
    lengths = tables(generated_texts(data))[0]
    rows = texts(lengths)
    assert rows[0][:3] == ["short", "greedy, at most 64 tokens", "2"]
    assert rows[0][4].startswith("2.5")
    assert rows[0][5] == "baseline"
    # 13 words against 5.
    assert rows[1][5].startswith("2.60×")
    assert lengths.rows[1][4].badge is Badge.MEASURED
    assert lengths.rows[1][5].badge is Badge.DERIVED


def test_what_answers_share_is_over_pairs_of_samples(data_of: Gather) -> None:
    data = data_of([("a", "one", "A bus here", None), ("b", "two", "nothing", None), ("b", "one", "a bus", None)])
    (row,) = texts(tables(generated_texts(data))[1])
    assert row[:3] == ["a", "b", "1"]
    # Of {a, bus, here} two; of {a, bus, here} and {a, bus} two of three.
    assert row[3] == "66.7 %"
    assert row[4] == "66.7 %"
    assert row[5] == "50.0 % (1 of 2)"


def test_answers_stand_side_by_side_as_they_are(data_of: Gather) -> None:
    text = "<script>|*x*\n一" + "long " * 400
    data = data_of([("a", "one", text, None), ("b", "one", "", None), ("b", "two", "alone", None)])
    shown = tables(generated_texts(data))[-2]
    assert shown.caption == "one: “What?”"
    rows = texts(shown)
    assert rows[0][1].startswith("<script>|*x*\n一")
    assert rows[0][1].endswith("…")
    assert shown.rows[0][1].note == f"the first 1,200 of {len(text):,} characters"
    assert rows[1][1:] == ["(empty)", "n/a (n = 0)", "0"]
