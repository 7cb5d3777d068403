"""Probabilities and pieces of tokens as people read them."""

from __future__ import annotations

from evprof.core.units import percent_text
from ui.run_facts.figures import NOTHING


def chance_text(chance: float | None) -> str:
    """A probability in percent; a dash where a model gives none."""
    if chance is None:
        return NOTHING
    return "< 0.1 %" if chance < 0.0005 else percent_text(chance, 1)


def piece_text(piece: str) -> str:
    """A piece with its spaces and line ends to be seen, so that two can be told apart; "end" of a special one."""
    return piece.replace(" ", "␣").replace("\n", "↵") or "(end)"
