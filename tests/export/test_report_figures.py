"""Figures of a report: rounded to what they are worth, never 0 for what was not measured."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from evprof.export.report.figures import (
    bytes_cell,
    count_cell,
    interval_text,
    ms_cell,
    number_text,
    ratio_cell,
    share_text,
    spread_text,
    verdict_cell,
)
from evprof.export.report.parts import Badge, Table
from evprof.metrics.arithmetic.statistics import summarize
from evprof.metrics.estimates.estimates import Verdict


@pytest.mark.parametrize(
    ("mean", "std", "text"),
    [
        (66.1588, 1.1214, "66.2 ± 1.1"),
        (568.1312, 0.7243, "568.13 ± 0.72"),
        (943.2, 512.3, "943 ± 512"),
        (0.0412, 0.00031, "0.041 ± <0.001"),
        (18.5361, 0.0684, "18.536 ± 0.068"),
        (12.0, 0.0, "12.00 ± 0"),
        (12.0, None, "12.00"),
    ],
)
def test_a_mean_is_told_to_the_second_digit_of_its_spread(mean: float, std: float | None, text: str) -> None:
    assert spread_text(mean, std) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(66.1588, "66.16"), (568.13, "568.1"), (0.0123, "0.012"), (0.0, "0"), (1e-9, "1.0e-09"), (27398.7, "27,399")],
)
def test_a_number_has_four_digits_and_is_never_rounded_to_nothing(value: float, text: str) -> None:
    assert number_text(value) == text


@given(st.one_of(st.floats(min_value=1e-12, max_value=1e15), st.floats(min_value=1e-4, max_value=2e-3)))
@example(0.0005)
@example(0.0006)
def test_no_number_but_zero_reads_as_zero(value: float) -> None:
    shown = float(number_text(value).replace(",", ""))
    assert shown > 0
    assert shown == pytest.approx(value, abs=0.00051 if value >= 0.001 else 0, rel=0.06 if value < 0.1 else 0.001)


@given(st.lists(st.floats(0.001, 1e5), min_size=1, max_size=30))
def test_a_cell_of_several_values_holds_their_mean(values: list[float]) -> None:
    summary = summarize(values)
    cell = ms_cell(summary)
    shown = float(cell.text.split(" ")[0].replace(",", ""))
    half = 0.5 if summary.std and summary.std >= 10 else max(0.0005, 0.06 * (summary.std or 0), 0.0005 * summary.mean)
    assert shown == pytest.approx(summary.mean, abs=half * 1.001)
    assert cell.badge is Badge.MEASURED
    assert cell.text.endswith(" ms")


def test_nothing_measured_is_not_available_with_its_count() -> None:
    for cell in (ms_cell(None), count_cell(None), bytes_cell(None)):
        assert cell.text == "n/a (n = 0)"
        assert cell.badge is None


@pytest.mark.parametrize(("lower_is_better", "tones"), [(True, ["good", ""]), (False, ["bad", ""]), (None, ["", ""])])
def test_a_ratio_is_better_or_worse_by_holms_correction_over_the_table(
    lower_is_better: bool | None, tones: list[str]
) -> None:
    found = Verdict(0.5, (0.4, 0.6), -1, (-1.2, -0.8), (2, 1), ((1,), (2,)), 1, p=0.01)
    cells = [verdict_cell(replace(found, p=p), lower_is_better=lower_is_better) for p in (0.01, 0.04, 0.5)]
    assert [row[0].tone for row in Table(("ratio",), tuple((cell,) for cell in cells[:2])).rows] == [tones[0]] * 2
    table = Table(("ratio",), tuple((cell,) for cell in cells))
    assert [row[0].tone for row in table.rows] == [*tones, ""]


def test_ratios_shares_and_intervals_read_as_people_write_them() -> None:
    assert ratio_cell(8.587, (8.511, 8.662)).text == "8.59× [8.51, 8.66]"
    assert ratio_cell(0.0123).text == "0.012×"
    assert ratio_cell(None).text == "n/a"
    assert [share_text(value) for value in (0.842, 0.0043, 0.0, 1.0, 0.99987)] == [
        "84.2 %",
        "0.43 %",
        "0 %",
        "100 %",
        "100.0 %",
    ]
    assert interval_text((66.116, 66.155), "ms") == "[66.116, 66.155] ms"
    assert interval_text((74.58, 102.72), "ms") == "[75, 103] ms"
    assert interval_text((1.0, 1.5)) == "[1.00, 1.50]"
    assert interval_text((0.04, 46.2), "ms") == "[0.04, 46.20] ms"
    assert interval_text((-0.3, 46.2), "ms") == "[-0.3, 46.2] ms"
    assert interval_text((0.0, 46.2), "ms") == "[0, 46] ms"
    assert interval_text(None) == ""
