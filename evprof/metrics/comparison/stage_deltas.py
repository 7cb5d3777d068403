"""How much longer or shorter each stage of B is than A's, with the ratio, interval and judgement of the comparison."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from evprof.core.vocabulary.figures import judge

if TYPE_CHECKING:
    from evprof.metrics.configurations.gathering import Configuration


class StageDelta(NamedTuple):
    """A stage, or several that a file timed in one piece, in ms: A's and B's mean over `counts` runs.

    `ci95` is the interval of the ratio B / A; `judgement` "good" or "bad" only where it leaves 1 out.
    """

    stage: str
    a_ms: float
    b_ms: float
    ratio: float
    ci95: tuple[float, float] | None
    counts: tuple[int, int]
    judgement: str

    @property
    def delta_ms(self) -> float:
        return self.b_ms - self.a_ms


def stage_deltas(a: Configuration, b: Configuration) -> list[StageDelta]:
    """The stages that both measured, in their order; stages of both models of a run count together."""
    from evprof.metrics.comparison.differences import common_blocks, part_reader
    from evprof.metrics.estimates.paired import compare
    from evprof.metrics.figures.partition import name_of

    found = []
    for block in common_blocks((a, b)):
        compared = compare(a, b, part_reader(block))
        if compared is not None and compared.ratio is not None:
            judgement = judge(compared.ratio, compared.interval, lower_is_better=True)
            a_ms, b_ms = compared.means
            found.append(
                StageDelta(name_of(block), a_ms, b_ms, compared.ratio, compared.interval, compared.counts, judgement)
            )
    return found
