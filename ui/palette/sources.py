"""Where the palette looks: the table of actions, settings, samples, runs, spans and answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from evprof.core.run_log import RunLog
from evprof.core.vocabulary.setting import Setting
from evprof.view.lanes import Track
from evprof.view.matching import match
from evprof.view.span_table import SpanTable
from evprof.view.timescale import time_text
from ui.run_facts.run_text import run_title
from ui.state.chosen import SpanRef, TokenRef

if TYPE_CHECKING:
    from ui.state.run_controller import RunController
    from ui.state.selection import Selection


MOST = 40
"""Lines of one kind; what somebody looks for further down is found sooner by another word."""


@dataclass(frozen=True)
class Found:
    """One line: what it is called, a figure or keys at its right, what is said below it, and what choosing it does."""

    title: str
    act: Callable[[], object]
    figure: str = ""
    second: str = ""


@dataclass(frozen=True)
class Lookup:
    """A kind of things that can be found. `find` hears what was typed and gives the best first, at most MOST."""

    kind: str
    find: Callable[[str], list[Found]]


def best(query: str, things: Iterable[Found]) -> list[Found]:
    """The things whose title or second line fits, best first; of equals, the one given first."""
    scored = ((match(query, f"{thing.title} {thing.second}"), thing) for thing in things)
    fitting = [(score, thing) for score, thing in scored if score is not None]
    return [thing for _, thing in sorted(fitting, key=lambda one: -one[0])[:MOST]]


CONTEXT = 28
"""Letters shown before and after a word that was found in an answer."""

Tracks = Callable[[], Iterable[Track]]


def settings_source(controls: Mapping[str, Setting], open_setting: Callable[[str], object]) -> Lookup:
    """Everything in the settings popover; choosing one opens it there."""

    def things() -> Iterator[Found]:
        for key, control in controls.items():
            yield Found(control.name, partial(open_setting, key), control.head, control.tip)

    return Lookup("Settings", lambda query: best(query, things()))


def runs_source(controller: RunController, show_run: Callable[[int], object]) -> Lookup:
    """The session's runs, the newest first; choosing one shows it."""

    def things() -> Iterator[Found]:
        for run in reversed(list(controller.runs.values())):
            yield Found(run_title(run), partial(show_run, run.run_id), run.info.status, run.info.sample.whole_name)

    return Lookup("Runs", lambda query: best(query, things()))


def spans_source(tracks: Tracks, selection: Selection) -> Lookup:
    """Stages and their parts of the shown runs, in order of time; choosing one selects it."""

    def find(query: str) -> list[Found]:
        found: list[Found] = []
        for track in tracks():
            for table in (track.stages, track.parts):
                found += _spans(query, track, table, selection)
        return found[:MOST]

    return Lookup("Spans", find)


def _spans(query: str, track: Track, table: SpanTable, selection: Selection) -> Iterator[Found]:
    model = track.run.info.models.get(track.role)
    where = f"run {track.run.run_id} · {model.name if model else track.role}"
    codes = [code for code, name in enumerate(table.names) if query and match(query, f"{name} {where}") is not None]
    if not codes:
        return
    row = table.rows(track.zero_ns, track.latest_ns)
    for place in np.flatnonzero(np.isin(row.names, codes))[:MOST].tolist():
        start, end = int(row.starts[place]), int(row.ends[place])
        ref = SpanRef(track.run.run_id, int(row.ids[place]))
        title = f"{table.names[int(row.names[place])]} at {time_text(start)}"
        yield Found(title, partial(selection.select, ref), time_text(end - start), where)


def tokens_source(tracks: Tracks, selection: Selection) -> Lookup:
    """Words in the answers of the shown runs; choosing one selects the token in which it begins."""

    def find(query: str) -> list[Found]:
        shown = {track.run.run_id: track.run for track in tracks() if track.is_answer}
        found = [thing for run in shown.values() for thing in _words(query, run, selection)]
        return found[:MOST]

    return Lookup("Answers", find)


def _words(query: str, run: RunLog, selection: Selection) -> Iterator[Found]:
    pieces = [token.piece.replace("▁", " ") for token in run.tokens]
    text, wanted = "".join(pieces), query.casefold()
    # Letters whose folded form is longer would move all places after them.
    folded = text.casefold() if len(text.casefold()) == len(text) else text.lower()
    if not wanted or len(folded) != len(text):
        return
    starts = np.cumsum([0, *map(len, pieces)])
    at = folded.find(wanted)
    while at >= 0:
        token = run.tokens[int(np.searchsorted(starts, at, side="right")) - 1]
        act = partial(selection.select, TokenRef(run.run_id, token.position))
        yield Found(_around(text, at, len(wanted)), act, f"token {token.position}", f"run {run.run_id}")
        at = folded.find(wanted, at + len(wanted))


def _around(text: str, at: int, length: int) -> str:
    """A word with what stands before and after it; dots where more of the answer follows."""
    start, end = max(0, at - CONTEXT), at + length + CONTEXT
    words = text[start:end].strip().replace("\n", " ")
    return f"{'… ' if start else ''}{words}{' …' if end < len(text) else ''}"
