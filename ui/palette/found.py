"""What the palette lists, and where it looks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from evprof.view.matching import match

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
