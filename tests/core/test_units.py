"""Numbers as people read them."""

from __future__ import annotations

import pytest

from evprof.core.units import bytes_text, bytes_texts, ms_from_ns, ms_text, number_text, percent_text, times_text


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (None, "n/a"),
        (0, "0 B"),
        (1023, "1,023 B"),
        (1024, "1.00 KiB"),
        (150 * 1024, "150.0 KiB"),
        (64 << 20, "64.00 MiB"),
        (2_434_269_184, "2,321.5 MiB"),
        (10 << 30, "10.00 GiB"),
        (-2048, "-2.00 KiB"),
    ],
)
def test_bytes(count, text):
    assert bytes_text(count) == text


@pytest.mark.parametrize(
    ("counts", "texts"),
    [
        ([280 << 10, 3_030_000], ["0.27 MiB", "2.89 MiB"]),
        ([0, 0], ["0 B", "0 B"]),
        ([None, 2 << 30, 0], ["n/a", "2,048.0 MiB", "0 B"]),
        ([12, -(3 << 20)], ["12 B", "-3.00 MiB"]),
        ([float("inf"), 1 << 30], ["inf GiB", "1.00 GiB"]),
        ([], []),
    ],
)
def test_counts_beside_each_other_have_one_unit(counts: list[int | None], texts: list[str]) -> None:
    assert bytes_texts(counts) == texts


@pytest.mark.parametrize(
    ("duration_ms", "text"),
    [
        (None, "n/a"),
        (0.0, "0 µs"),
        (0.64, "640 µs"),
        (1.0, "1.00 ms"),
        (66.2, "66.2 ms"),
        (640.4, "640 ms"),
        (1270.0, "1.27 s"),
        (12_345.0, "12.3 s"),
        (-5.0, "-5.00 ms"),
    ],
)
def test_durations(duration_ms, text):
    assert ms_text(duration_ms) == text


def test_ratios():
    assert times_text(0.674) == "0.67×"
    assert times_text(0.6744, 3) == "0.674×"


def test_shares():
    assert percent_text(0.124) == "12 %"
    assert percent_text(-0.003) == "0 %"
    assert percent_text(-0.124) == "-12 %"
    assert percent_text(0.8424, 1) == "84.2 %"
    assert percent_text(None) == "n/a"


def test_nanoseconds():
    assert ms_from_ns(1_500_000) == 1.5


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (16812.4, "16,812"),
        (1680.0, "1,680"),
        (999.96, "1,000"),
        (842.14, "842.1"),
        (9.9996, "10"),
        (1.5, "1.5"),
        (0.84213, "0.8421"),
        (0.00012, "0.00012"),
        (-16812.4, "-16,812"),
        (0.0, "0"),
        (1e20, "1e+20"),
        (float("inf"), "inf"),
    ],
)
def test_numbers_for_people_have_no_exponent(value, text) -> None:
    assert number_text(value) == text
