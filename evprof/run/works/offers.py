"""The long work that the window offers: which commands of the command line, by which names."""

from __future__ import annotations

from dataclasses import dataclass

SUITE_SESSION = "suite.evprof"
"""The session in a suite's folder."""


OVERHEAD = "measure_overhead"
"""The name of what measures the cost of recording."""


@dataclass(frozen=True)
class WorkOffer:
    """A kind of work: its name in the code, what the menu calls it, the words that begin its command.

    `result` is what of the place it writes to, the value of `place`, can be opened, relative to that place; None:
    nothing.
    """

    name: str
    title: str
    words: tuple[str, ...]
    result: str | None = None
    place: str = "output"


OFFERS = (
    WorkOffer("measure_suite", "Measure a suite", ("suite",), SUITE_SESSION),
    WorkOffer("convert", "Convert recordings", ("convert",), ""),
    WorkOffer("collect_examples", "Collect examples for an adapter", ("adapter", "collect")),
    WorkOffer("train_adapter", "Train an adapter", ("adapter", "train"), "", place="session"),
    WorkOffer("evaluate_adapter", "Evaluate an adapter", ("adapter", "evaluate")),
    WorkOffer(OVERHEAD, "Measure the observer effect", ("bench", "overhead")),
)
"""In menu order."""
