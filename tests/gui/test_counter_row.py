"""A row of counters: names keep whole where the gap to the next counter has the room."""

from __future__ import annotations

import pytest
from PySide6.QtGui import QFontMetricsF

from ui.style.theme import SMALL_PX, ThemeHolder
from ui.widgets.counter_row import CounterRow


@pytest.mark.parametrize("figure", ["98.3 ms", "1.27 s"])
def test_a_name_may_reach_into_the_gap_before_the_next_counter(themes: ThemeHolder, figure: str) -> None:
    row = CounterRow(themes)
    row.set_entries([("TTFT", figure)] * 4)
    figures, names = QFontMetricsF(themes.theme.font(weight=500)), QFontMetricsF(themes.theme.font(SMALL_PX))
    whole = figures.horizontalAdvance(figure) + 5 + names.horizontalAdvance("TTFT")
    row.resize(round(4 * (whole + 4)), 20)
    assert row.names() == ["TTFT"] * 4
    row.resize(round(4 * (whole - 4)), 20)
    assert row.names() != ["TTFT"] * 4
    row.deleteLater()
