"""What a run was expected to answer, and whether it did, in a line and in the inspector's words."""

from __future__ import annotations

from evprof.core.run_log import RunLog
from evprof.core.safe_text import one_line
from evprof.core.vocabulary.figures import FIGURES
from evprof.core.vocabulary.scoring import RIGHT, SCORING_RULES, TOKEN_F1
from ui.run_facts.figures import NOTHING

LONGEST = 160
"""Letters of an expected answer in a line."""


def expected_line(run: RunLog) -> tuple[str, str]:
    """`Right · expected C, “a bus”`, and the tone of it; "" where the sample expects nothing."""
    sample = run.info.sample
    if not sample.is_scored:
        return "", "dim"
    wanted = f"expected {expected_text(run, LONGEST)}"
    verdict = verdict_of(run)
    if verdict == NOTHING:
        return wanted[0].upper() + wanted[1:], "dim"
    from evprof.metrics.figures.scores import score

    shared = score(run, TOKEN_F1)
    parts = [verdict, wanted, *([f"token F1 {shared:.0%}"] if shared is not None and verdict == "Wrong" else [])]
    return " · ".join(parts), "good" if verdict == "Right" else "bad"


def verdict_of(run: RunLog) -> str:
    """`Right` or `Wrong`; a dash until the run is over."""
    from evprof.metrics.figures.scores import score

    found = score(run, RIGHT)
    return NOTHING if found is None else "Right" if found else "Wrong"


def expected_text(run: RunLog, longest: int) -> str:
    """The right choice with its letter, or the right wordings."""
    sample = run.info.sample
    letter = sample.expected.letter if sample.expected else ""
    said = " or ".join(f"“{answer}”" for answer in sample.answers)
    return one_line(f"{letter}, {said}" if letter else said, longest)


def expected_lines(run: RunLog) -> dict[str, str]:
    """Name -> text of the inspector's lines; {} where the sample expects nothing."""
    if not run.info.sample.is_scored:
        return {}
    from evprof.metrics.figures.scores import named_letter, score

    scores = {FIGURES[key].title: score(run, key) for key in SCORING_RULES if key != RIGHT}
    return {
        "answer": verdict_of(run),
        "expected": expected_text(run, LONGEST),
        "names choice": named_letter(run) or "",
        "task": one_line(run.info.sample.task, LONGEST),
        **{name: "" if value is None else f"{value:.0%}" for name, value in scores.items()},
    }


def rule_of(name: str) -> str:
    """The rule behind one of these lines, for its tip."""
    keys = {FIGURES[key].title: key for key in SCORING_RULES} | {"answer": RIGHT, "names choice": "right_choice"}
    return SCORING_RULES[keys[name]].sentence if name in keys else ""
