"""Which run, and which model of it, each of the window's two columns shows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from evprof.core.records import DRAFT, TARGET
from evprof.core.run_log import RunLog
from evprof.core.vocabulary.modes import SPECULATIVE, mode_of

RunPair = tuple[int | None, int | None]
"""Run ids of column A and column B. The same id twice is one speculative run: A its draft, B its target."""


class ShownModel(NamedTuple):
    """One model of one run."""

    run: RunLog
    role: str

    def __eq__(self, other: object) -> bool:
        """Whether it is the same model of the same run: what two runs say is long, and nobody need read it."""
        return isinstance(other, ShownModel) and self.run is other.run and self.role == other.role

    def __ne__(self, other: object) -> bool:
        """A tuple's own would read what both runs say."""
        return not self == other

    def __hash__(self) -> int:
        return hash((id(self.run), self.role))

    @property
    def is_answer(self) -> bool:
        """Whether this model's text is the run's answer (a speculative run's draft only helps)."""
        return self.role == self.run.info.role


def columns_of(runs: Mapping[int, RunLog], pair: RunPair) -> tuple[ShownModel | None, ShownModel | None]:
    """The columns A and B for a pair of run ids; None where there is no such run.

    The same id twice means one speculative run: its draft on the left, its target on the right; no column is left for a
    draft that takes no model of its own. Otherwise each column shows the model whose text is its run's answer, and the
    timeline the drafts of both runs as well (`tracks_of`).
    """
    a, b = (None if run_id is None else runs.get(run_id) for run_id in pair)
    if a is not None and a is b and mode_of(a.info.mode).is_paired:
        return ShownModel(a, DRAFT) if takes_draft_model(a) else None, ShownModel(a, TARGET)
    return (
        None if a is None else ShownModel(a, a.info.role),
        None if b is None else ShownModel(b, b.info.role),
    )


def tracks_of(runs: Mapping[int, RunLog], pair: RunPair) -> tuple[ShownModel | None, ...]:
    """Every model of a pair: columns A and B, then the draft that helped A's run and the one that helped B's.

    The last two are None where the columns show that draft already, and where there was none.
    """
    a, b = columns_of(runs, pair)
    if a is not None and b is not None and a.run is b.run:
        return a, b, None, None
    return a, b, _draft_beside(a), _draft_beside(b)


def _draft_beside(shown: ShownModel | None) -> ShownModel | None:
    has_draft = shown is not None and shown.role != DRAFT and takes_draft_model(shown.run)
    return ShownModel(shown.run, DRAFT) if shown is not None and has_draft else None


def headers_of(a: ShownModel | None, b: ShownModel | None) -> tuple[str, str]:
    """`A · run 2` and `B · run 5` over the columns of two runs; nothing over those of one."""
    if a is None or b is None or a.run is b.run:
        return "", ""
    return f"A · run {a.run.run_id}", f"B · run {b.run.run_id}"


def pair_for(runs: Mapping[int, RunLog], run_id: int) -> RunPair:
    """The pair of columns that shows a run best: with its other half when it ran side by side.

    A speculative run fills both columns when two models take part; a run on its own goes left when it is a draft's and
    right when a target's.
    """
    run = runs[run_id]
    info = run.info
    if mode_of(info.mode).is_side_by_side:
        mates = [
            other.run_id
            for other in runs.values()
            if (other.info.group_id, other.info.repeat, other.info.warmup, other.info.profiled)
            == (info.group_id, info.repeat, info.warmup, info.profiled)
            and other.info.role != info.role
        ]
        mate = mates[-1] if mates else None
        return (run_id, mate) if info.role == DRAFT else (mate, run_id)
    if info.mode == "draft":
        return run_id, None
    if info.mode == "target" or not takes_draft_model(run):
        return None, run_id
    return run_id, run_id


def takes_draft_model(run: RunLog) -> bool:
    """Whether a run of a mode with two roles has two models: some drafters need none of their own, and of what drafts
    behind a server a file tells nothing."""
    if DRAFT in run.info.models or not mode_of(run.info.mode).is_paired:
        return mode_of(run.info.mode).is_paired
    if run.info.imported is not None:
        return False
    if run.info.mode != SPECULATIVE:
        return True
    return run.info.settings.speculation.needs_draft_model
