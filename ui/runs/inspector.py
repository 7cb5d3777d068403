"""The inspector: all about what is selected (a span, round, token or range), about the runs while nothing is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QLabel, QWidget

from evprof.core.protocols import monotonic_ns
from evprof.view.columns import columns_of
from evprof.view.lanes import Track
from ui.state.run_controller import RunController
from ui.state.selection import Chosen, RoundRef, Selection, SpanRef, TimeRange, TokenRef
from ui.style.theme import GRID, ThemeHolder
from ui.widgets.boxes import bring_into_sight, stacked
from ui.widgets.figure_table import FigureTable, TableRow
from ui.widgets.panel_parts import EmptyState, section_head, sentence

if TYPE_CHECKING:
    from ui.runs.run_details import DetailSection

COLUMN_PX = 10 * GRID


class Inspector(QWidget):
    """Shows what is selected: a span, a round, a token, or a range of time; else the runs in the columns."""

    def __init__(
        self, selection: Selection, controller: RunController, themes: ThemeHolder, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._selection = selection
        self._controller = controller
        self._themes = themes
        self._sections: list[DetailSection] = []
        self.tracks: Callable[[], Sequence[Track]] = self._own_tracks
        """The lanes' data of the runs in the columns; who draws them may hand its own over."""

        self._parts: list[tuple[QLabel, FigureTable, QLabel]] = []
        self._head = section_head("Selection")
        self._empty = EmptyState(
            "Nothing selected",
            "Click a stage, a part of one or a token to see its times, shapes and bytes here; drag over the time "
            "axis for a range.",
        )
        self._column = stacked(self._head, self._empty, on=self, spacing=GRID // 2)
        selection.chosen_changed.connect(self._show_chosen)
        selection.runs_changed.connect(self._fill)
        selection.offset_changed.connect(self._fill)

    @property
    def sections(self) -> list[DetailSection]:
        """What is shown."""
        return list(self._sections)

    def lines(self) -> list[Sequence[str]]:
        """The same as lines of a table: a head, then names with their figures; made anew, for the moment may have
        passed unseen."""
        self._fill()
        found: list[Sequence[str]] = []
        for section in self._sections:
            if section.details:
                found.append((section.head, *(section.heads or ("",))))
                found += [(one.name, f"{one.text} {one.unit}".strip(), one.beside or "") for one in section.details]
        return found

    def refresh(self) -> None:
        """Follows a run that goes on."""
        self._fill()

    def _show_chosen(self, chosen: Chosen | None) -> None:
        self._fill()
        if chosen is not None:
            # After the layout: in a low window it stands below everything else.
            QTimer.singleShot(0, self, partial(bring_into_sight, self))

    def _own_tracks(self) -> list[Track]:
        tracks = []
        for place, column in enumerate(columns_of(self._controller.runs, self._selection.runs)):
            if column is not None:
                track = Track(column)
                track.update()
                track.shift_ns = self._selection.offset_ns if place else 0
                tracks.append(track)
        return tracks

    def _found(self) -> list[DetailSection]:
        controller = self._controller
        if not controller.runs:
            return []
        from ui.runs.run_details import span_sections, summary_sections
        from ui.runs.token_details import drafted_sections, range_sections, round_sections, token_sections

        match self._selection.chosen:
            case SpanRef(run_id, span_id):
                run = controller.run(run_id)
                span = run.spans.get(span_id) if run else None
                return span_sections(run, span) if run and span else []
            case TokenRef(run_id, position):
                run = controller.run(run_id)
                return token_sections(run, position) if run else []
            case RoundRef(run_id, round_index, drafted):
                run = controller.run(run_id)
                told = drafted_sections(run, round_index, drafted) if run and drafted is not None else []
                return told + round_sections(run, round_index) if run else []
            case TimeRange(start_ns, end_ns):
                return range_sections(self.tracks(), start_ns, end_ns, monotonic_ns())
        return summary_sections(*columns_of(controller.runs, self._selection.runs))

    def _fill(self, *_: object) -> None:
        sections = self._found()
        if sections == self._sections and self._parts:
            return
        self._sections = sections
        self._empty.setVisible(not sections)
        self._head.setVisible(not sections)
        while len(self._parts) < len(sections):
            self._add_part()
        for index, (head, table, note) in enumerate(self._parts):
            section = sections[index] if index < len(sections) else None
            head.setVisible(section is not None and bool(section.head))
            table.setVisible(section is not None and bool(section.details))
            note.setVisible(section is not None and bool(section.note))
            if section is not None:
                _show(section, head, table, note)

    def _add_part(self) -> None:
        head, table, note = section_head(""), FigureTable(self._themes, least_px=COLUMN_PX), sentence()
        head.setWordWrap(True)
        if self._parts:
            head.setContentsMargins(0, GRID, 0, 0)
        for widget in (head, table, note):
            self._column.addWidget(widget)
        self._parts.append((head, table, note))


def _show(section: DetailSection, head: QLabel, table: FigureTable, note: QLabel) -> None:
    head.setText(section.head.upper())
    note.setText(section.note)
    note.setContentsMargins(0, 0 if section.head else GRID, 0, 0)
    table.reset_widths()
    table.show_rows(
        [
            TableRow(
                detail.name,
                (detail.text,) if detail.beside is None else (detail.text, detail.beside),
                unit=detail.unit,
                roles=detail.roles,
                tip=detail.tip,
                swatch=detail.swatch,
                bar=detail.bar,
            )
            for detail in section.details
        ],
        section.heads,
    )
