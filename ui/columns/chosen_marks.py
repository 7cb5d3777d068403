"""Which marks of an answer belong to what is selected, and what a click on one selects."""

from __future__ import annotations

import numpy as np

from evprof.view.token_places import round_of_span
from ui.columns.answer import AnswerFlow, TokenMark
from ui.state.chosen import Chosen, RoundRef, TimeRange, TokenRef


def marks_of(flow: AnswerFlow | None, chosen: Chosen | None) -> list[int]:
    """Indices of the marks of a run that belong to what is selected."""
    if flow is None or chosen is None:
        return []
    run = flow.run
    if isinstance(chosen, TimeRange):
        return _within(flow, chosen)
    if chosen.run_id != run.run_id:
        return []
    if isinstance(chosen, TokenRef):
        return _at(flow, chosen.position)
    if isinstance(chosen, RoundRef):
        return _of_round(flow, chosen.round_index, chosen.drafted)
    span = run.span(chosen.span_id)
    number = None if span is None else round_of_span(run, span)
    return [] if number is None else _of_round(flow, number)


def _at(flow: AnswerFlow, position: int) -> list[int]:
    """The token of the answer there; where only proposals stand, what was proposed for it in its round instead."""
    here = [
        (index, mark)
        for index, mark in enumerate(flow.marks)
        if any(record.position == position for record in mark.tokens)
    ]
    standing = [index for index, mark in here if not mark.is_rejected]
    if standing or not flow.proposals_only:
        return standing[:1]
    emitted = next((token for token in flow.run.tokens if token.position == position), None)
    return [index for index, mark in here if emitted is None or mark.round_index == emitted.round_index]


def chosen_of(run_id: int, mark: TokenMark) -> Chosen:
    """What a click on a mark selects: the token, or the round that rejected it, whose place in the answer is
    another's."""
    if mark.is_rejected and mark.round_index >= 0:
        return RoundRef(run_id, mark.round_index, mark.position)
    return TokenRef(run_id, mark.position)


def _within(flow: AnswerFlow, chosen: TimeRange) -> list[int]:
    """Indices of the marks that came in a stretch of time; of most imported runs no times of tokens are known."""
    zero = flow.run.info.start_ns
    if zero is None or not flow.run.info.has_token_times:
        return []
    times = np.array([mark.tokens[0].t_ns for mark in flow.marks], dtype=np.int64) - zero
    found: list[int] = np.flatnonzero((times >= chosen.start_ns) & (times <= chosen.end_ns)).tolist()
    return found


def _of_round(flow: AnswerFlow, number: int, drafted: int | None = None) -> list[int]:
    """Indices of the marks of a round, or of these only what was drafted for a place and rejected."""
    of_round = [index for index, mark in enumerate(flow.marks) if mark.round_index == number]
    if drafted is None:
        return of_round
    return [index for index in of_round if _is_drafted_for(flow.marks[index], drafted)] or of_round


def _is_drafted_for(mark: TokenMark, position: int) -> bool:
    return mark.is_rejected and any(token.position == position for token in mark.tokens)
