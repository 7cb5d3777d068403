"""Whether a run answered what its sample expects, in a line and in a note."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from evprof.core.records import DRAFT, TARGET
from evprof.core.run_info import FINISHED
from evprof.core.run_log import RunLog
from evprof.core.safe_text import one_line
from evprof.core.units import percent_text
from evprof.core.vocabulary.scoring import TOKEN_F1

LONGEST = 100
"""Characters of an expected answer in a line."""


def expected_line(run: RunLog) -> tuple[str, str]:
    """`Right · expected C, “a bus”`, and its tone; "" where the sample expects nothing."""
    if not run.info.sample.is_scored:
        return "", "dim"
    from evprof.metrics.facts import VERDICT_TONES, expected_text, verdict_of
    from evprof.metrics.figures.scores import score

    wanted, verdict = f"expected {expected_text(run, LONGEST)}", verdict_of(run)
    if not verdict:
        return wanted[0].upper() + wanted[1:], "dim"
    shared = score(run, TOKEN_F1) if verdict == "Wrong" else None
    near = "" if shared is None else f"F1 {percent_text(shared)}"
    return " · ".join(filter(None, (verdict, near, wanted))), VERDICT_TONES.get(verdict, "dim")


def verdicts_of(group: Sequence[RunLog]) -> str:
    """`right`, `F1 42 %`; of two models `both wrong`, or `draft right, target wrong`; "" until all are over."""
    from evprof.metrics.facts import verdict_of

    if not all(run.info.status == FINISHED and run.info.sample.is_scored for run in group):
        return ""
    found = [verdict.lower() if verdict in ("Right", "Wrong") else verdict for verdict in map(verdict_of, group)]
    if not all(found):
        return ""
    if len(set(found)) == 1:
        return found[0] if len(group) == 1 else f"both {found[0]}"
    return ", ".join(f"{run.info.role} {verdict}" for run, verdict in zip(group, found, strict=True))


def right_words(shares: Mapping[str, float]) -> str:
    """`33 % right` of one role's share of right answers, `33 / 0 % right` of the draft's and the target's."""
    text = _by_role(shares)
    return f"{text} % right" if text else ""


def nearness_words(shares: Mapping[str, float]) -> str:
    """The mean token F1 of free text by role: `F1 33 / 0 %`."""
    text = _by_role(shares)
    return f"F1 {text} %" if text else ""


def _by_role(shares: Mapping[str, float]) -> str:
    return " / ".join(f"{100 * shares[role]:.0f}" for role in (DRAFT, TARGET) if role in shares)


def expected_note(runs: Sequence[RunLog]) -> str:
    """`Expected: C, “a bus” · vehicles`, once where all runs expect the same; "" where nothing is expected."""
    from evprof.metrics.facts import expected_text

    wanted: dict[str, list[str]] = {}
    for run in runs:
        sample = run.info.sample
        if sample.is_scored:
            words = " · ".join(filter(None, (expected_text(run), one_line(sample.task, LONGEST))))
            wanted.setdefault(words, []).append(str(run.run_id))
    if len(wanted) == 1:
        return f"Expected: {next(iter(wanted))}"
    return "\n".join(f"Expected of run {', '.join(ids)}: {words}" for words, ids in wanted.items())
