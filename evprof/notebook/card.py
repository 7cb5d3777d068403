"""What a notebook shows of runs and tables: HTML with pictures in SVG, no scripts, every text escaped.

A card brings its own ground, so that it can be read on any page; it turns dark where JupyterLab, VS Code or the system
does. Its style sheet touches nothing outside it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any
from xml.etree.ElementTree import Element, SubElement, tostring

from evprof.cli.sessions.comparison_text import figure_text
from evprof.core.records import STAGES
from evprof.core.run_info import FINISHED
from evprof.core.run_log import RunLog
from evprof.core.safe_text import one_line, plain
from evprof.core.units import count_text
from evprof.core.vocabulary.figures import FIGURES, SPECULATION, Figure
from evprof.export.report.plots.palette import variables
from evprof.export.report.plots.svg import WIDE
from evprof.export.report.plots.timeline_plot import MOST_RUNS, timeline_svg
from evprof.metrics.comparison.figures import READERS
from evprof.metrics.figures.decoding import answer_text
from evprof.metrics.figures.stages import END_TO_END

_MAIN: tuple[Figure, ...] = tuple(
    figure
    for figure in FIGURES.values()
    if (figure.place or figure.head == SPECULATION) and figure.key.removesuffix("_ms") not in STAGES
)
"""Those that stand in the table of two runs beside each other, less the stages, which the picture tells."""

_LONGEST_ANSWER, _LONGEST_CELL = 1200, 80

_NUMBERS = count()
"""Tells the pictures of one page apart."""


def runs_card(title: str, runs: Sequence[RunLog]) -> str:
    """Runs as one card: the timeline, the answers, and the main figures with a column for each run."""
    card = _card(f"{title}: {count_text(len(runs), 'run')}")
    shown = runs[:MOST_RUNS]
    if any(run.stages() for run in shown):
        picture = timeline_svg(shown, WIDE, f"evprof-{next(_NUMBERS)}")
        card.append(picture)
    for run in shown:
        _answer(card, run)
    rows = [
        (figure.title, ["" if value is None else figure_text(value, figure.unit) for value in values])
        for figure in _MAIN
        for values in [[READERS[figure.key](run, run.info.role, END_TO_END) for run in shown]]
        if any(value is not None for value in values)
    ]
    if rows:
        numbers = [False, *(True for _ in shown)]
        _table(card, ["", *map(_named, shown)], [[name, *cells] for name, cells in rows], numbers)
    if len(runs) > len(shown):
        _add(card, "p", f"and {count_text(len(runs) - len(shown), 'more run')}; see .tables['runs']", "dim")
    return tostring(card, encoding="unicode", method="html")


def table_card(name: str, columns: Mapping[str, Sequence[Any]], rows: int) -> str:
    """The first rows of a table, without the columns in which these hold nothing."""
    card = _card(f"{name}: {count_text(rows, 'row')}")
    told = {key: values for key, values in columns.items() if any(value not in (None, "") for value in values)}
    shown = list(zip(*told.values(), strict=True))
    numbers = [all(isinstance(value, (int, float, type(None))) for value in values) for values in told.values()]
    _table(card, list(told), [[_cell(value) for value in row] for row in shown], numbers)
    if rows > len(shown):
        _add(card, "p", f"and {count_text(rows - len(shown), 'more row')}", "dim")
    return tostring(card, encoding="unicode", method="html")


def _card(title: str) -> Element:
    card = Element("div", {"class": "evprof-card"})
    SubElement(card, "style").text = _sheet()
    _add(card, "div", title, "title")
    return card


def _named(run: RunLog) -> str:
    info = run.info
    words = [info.mode, *([info.role] if info.role != info.mode else []), *info.marks]
    return f"run {run.run_id}: {', '.join(words)}"


def _answer(card: Element, run: RunLog) -> None:
    place = SubElement(card, "div", {"class": "answer"})
    model = run.info.models.get(run.info.role)
    _add(place, "span", _named(run) + (f", {model.name}" if model else ""), "dim")
    if run.info.status != FINISHED:
        _add(place, "span", f" {run.info.status}{f': {run.info.error}' if run.info.error else ''}", "bad")
    text = SubElement(place, "div", {"dir": "auto"})
    text.text = plain(answer_text(run) or "", _LONGEST_ANSWER)


def _table(card: Element, heads: Sequence[str], rows: Sequence[Sequence[str]], are_numbers: Sequence[bool]) -> None:
    kinds = ["n" if is_number else "" for is_number in are_numbers]
    table = SubElement(SubElement(card, "div", {"class": "wide"}), "table")
    line = SubElement(SubElement(table, "thead"), "tr")
    for head, kind in zip(heads, kinds, strict=True):
        _add(line, "th", head, kind)
    body = SubElement(table, "tbody")
    for row in rows:
        line = SubElement(body, "tr")
        for cell, kind in zip(row, kinds, strict=True):
            _add(line, "td", cell, kind)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bytes):
        return f"{len(value):,} bytes"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _add(place: Element, tag: str, text: str, kind: str = "") -> None:
    element = SubElement(place, tag, {"class": kind} if kind else {})
    element.text = one_line(text, 400 if tag != "td" else _LONGEST_CELL)


def _sheet() -> str:
    light, dark = (
        "".join(f"{name}:{color};" for name, color in variables(is_dark).items()) for is_dark in (False, True)
    )
    is_dark = ('[data-jp-theme-light="false"]', ".vscode-dark", ".vscode-high-contrast", '[theme="dark"]')
    rules = "\n".join(map(_within, _RULES.strip().splitlines()))
    return (
        f".evprof-card{{{light}{_GROUND}}}\n"
        f"@media (prefers-color-scheme:dark){{:root:not(:has([data-jp-theme-light])) .evprof-card{{{dark}}}}}\n"
        f"{','.join(f'{place} .evprof-card' for place in is_dark)}{{{dark}}}\n{rules}\n"
    )


def _within(rule: str) -> str:
    """A rule that counts in a card only."""
    places, _, said = rule.partition("{")
    return ",".join(f".evprof-card {place}" for place in places.split(",")) + "{" + said


_GROUND = (
    "background:var(--panel);color:var(--text);border:1px solid var(--line);border-radius:6px;padding:14px 16px;"
    'max-width:860px;font:13px/1.5 Inter,system-ui,"Segoe UI",Roboto,"Noto Sans","DejaVu Sans",sans-serif;'
    'font-feature-settings:"tnum" 1'
)

_RULES = """
.title{font-weight:600;margin:0 0 10px}
.dim{color:var(--text-dim);margin:0}
.bad{color:var(--bad)}
.answer{margin:10px 0 0;overflow-wrap:anywhere}
.answer div{white-space:pre-wrap}
.wide{overflow-x:auto;margin:12px 0 0}
table{border-collapse:collapse;font-size:12.5px;border:0;margin:0}
th,td{text-align:left;padding:3px 20px 3px 0;border:0;border-bottom:1px solid var(--line);background:none}
th{font-weight:500;color:var(--text-dim);border-bottom-color:var(--text-dim);vertical-align:bottom}
td{white-space:nowrap;color:var(--text)}
.n{text-align:right}
th:last-child,td:last-child{padding-right:0}
tr{background:none}
svg{display:block;width:100%;height:auto;overflow:visible;font-size:12px}
svg text{fill:var(--text)}
svg .dim{fill:var(--text-dim)}
svg .halo{paint-order:stroke;stroke:var(--panel);stroke-width:3px;stroke-linejoin:round}
svg .axis{stroke:var(--text-dim);stroke-width:1;opacity:.6}
svg .hatched{stroke:var(--text-dim);stroke-width:.75}
"""
