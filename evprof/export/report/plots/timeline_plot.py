"""The timeline of a few runs as a still picture: stages where they lay in time, rounds and tokens below, one axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree.ElementTree import Element

from evprof.core.records import STAGES
from evprof.core.rows.span import Span
from evprof.core.run_log import RunLog
from evprof.core.units import NS_PER_MS, ms_text
from evprof.export.report.parts import PlotSeries
from evprof.export.report.plots.axes import Axis
from evprof.export.report.plots.canvas import Canvas, shortened, text_width
from evprof.export.report.plots.palette import named_colors
from evprof.export.report.plots.plot_words import draw_legend, scale_below
from evprof.metrics.figures import stages

MOST_RUNS = 12
"""That one picture shows."""

_BAR, _THIN, _GAP = 20.0, 6.0, 10.0
_MOST_LABEL = 0.3
_MOST_TICKS = 2000


@dataclass(frozen=True)
class _Piece:
    """Something of a lane: what it is called, the colour's name, and its ends in ms since the run's zero."""

    name: str
    color: str
    start_ms: float
    end_ms: float


@dataclass(frozen=True)
class _Lane:
    """One model of one run: its stages, and, of the model that answers, the rounds and the moments of its tokens."""

    label: str
    stages: tuple[_Piece, ...]
    rounds: tuple[_Piece, ...]
    tokens_ms: tuple[float, ...]


def timeline_svg(runs: Sequence[RunLog], width: float, key: str) -> Element:
    """The first MOST_RUNS of some runs, each from its own zero. `key` must differ from that of every other picture.

    Device times where they are known, the host's elsewhere; what is still going on is left out.
    """
    lanes = [lane for run in runs[:MOST_RUNS] for lane in _lanes(run)]
    canvas = Canvas(width, "Timeline", _description(lanes), key)
    pieces = [piece for lane in lanes for piece in (*lane.stages, *lane.rounds)]
    names = [name for name in (*STAGES, "draft", "verify") if any(piece.color == name for piece in pieces)]
    y = draw_legend(canvas, [PlotSeries(name, (), (), color=name) for name in names], 12) + 4
    left = min(max((text_width(lane.label) for lane in lanes), default=0.0) + 16, _MOST_LABEL * width)
    axis = Axis(0.0, max((piece.end_ms for piece in pieces), default=0.0) or 1.0, left, width - 4)
    for lane in lanes:
        y = _draw(canvas, axis, lane, y) + _GAP
    return canvas.finish(scale_below(canvas, axis, y, "ms"))


def _lanes(run: RunLog) -> list[_Lane]:
    answering = run.info.role
    roles = list(dict.fromkeys(span.role for span in run.stages()))
    return [
        _Lane(
            f"run {run.run_id} {role}",
            tuple(piece for span in run.stages(role) if (piece := _stage(run, span)) is not None),
            _rounds(run) if role == answering else (),
            _moments(run) if role == answering else (),
        )
        for role in roles
    ]


def _stage(run: RunLog, span: Span) -> _Piece | None:
    start = stages.start_ms(run, span.start_ns)
    if start is None or span.duration_ns is None:
        return None
    return _Piece(span.name, span.name, start, start + span.duration_ns / NS_PER_MS)


def _rounds(run: RunLog) -> tuple[_Piece, ...]:
    found = []
    for entry in run.rounds:
        at = stages.start_ms(run, entry.start_ns)
        for name, duration_ns in (("draft", entry.draft_ns), ("verify", entry.verify_ns)):
            if at is not None and duration_ns > 0:
                words = f"round {entry.round_index}: {name}, {entry.accepted} of {entry.drafted} accepted"
                found.append(_Piece(words, name, at, at + duration_ns / NS_PER_MS))
                at += duration_ns / NS_PER_MS
    return tuple(found)


def _moments(run: RunLog) -> tuple[float, ...]:
    if run.info.imported is not None:
        return ()
    times = (stages.start_ms(run, token.t_ns) for token in run.tokens[:_MOST_TICKS])
    return tuple(at for at in times if at is not None)


def _draw(canvas: Canvas, axis: Axis, lane: _Lane, y: float) -> float:
    """Draws a lane from y on; returns where it ends."""
    canvas.text(0, y + _BAR / 2 + 4.2, shortened(lane.label, axis.start - 12))
    for piece in lane.stages:
        _bar(canvas, axis, piece, (y, _BAR))
    y += _BAR
    if lane.rounds:
        for piece in lane.rounds:
            _bar(canvas, axis, piece, (y + 2, _THIN))
        y += 2 + _THIN
    if lane.tokens_ms:
        for at in lane.tokens_ms:
            canvas.line(axis.at(at), y + 2, axis.at(at), y + 2 + _THIN, "axis")
        y += 2 + _THIN
    return y


def _bar(canvas: Canvas, axis: Axis, piece: _Piece, at: tuple[float, float]) -> None:
    (y, high), x = at, axis.at(piece.start_ms)
    wide = max(axis.at(piece.end_ms) - x, 0.5)
    duration = ms_text(piece.end_ms - piece.start_ms)
    colors = named_colors(piece.color)
    # A hair of ground between neighbours, where they are wide enough to spare it.
    canvas.bar(x, y, wide - (1.0 if wide > 3 else 0.0), high, colors, f"{piece.name}: {duration}")
    words = next((text for text in (f"{piece.name} {duration}", duration) if text_width(text) <= wide - 12), "")
    if words and high == _BAR:
        is_plain = len(colors) == 1
        ink = f"var(--on-{colors[0]})" if is_plain else ""
        canvas.text(x + 6, y + high / 2 + 4.2, words, "on" if is_plain else "halo", fill=ink)


def _description(lanes: Sequence[_Lane]) -> str:
    """The stages in words, for who does not see the picture."""
    said = []
    for lane in lanes:
        told = ", ".join(f"{piece.name} {ms_text(piece.end_ms - piece.start_ms)}" for piece in lane.stages)
        said.append(f"{lane.label}: {told or 'nothing measured'}")
    return "; ".join(said) or "nothing measured"
