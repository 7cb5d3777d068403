"""What a run was expected to answer, and whether it did, in a line and in the inspector's words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from evprof.core.records import DRAFT, TARGET
from evprof.core.run_info import FINISHED
from evprof.core.run_log import RunLog
from evprof.core.safe_text import one_line
from evprof.core.units import percent_text
from evprof.core.vocabulary.expected_answer import LETTERS
from evprof.core.vocabulary.figures import FIGURES
from evprof.core.vocabulary.scoring import CHOICE, EXACT, RIGHT, ROUGE_L, SCORING_RULES, TOKEN_F1
from ui.run_facts.figures import NOTHING

LONGEST, WHOLE = 100, 1000
"""Letters of an expected answer in a line, and where it is told in full."""


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

    shared = score(run, TOKEN_F1) if verdict == "Wrong" else None
    near = "" if shared is None else nearness(shared)
    return " · ".join(filter(None, (verdict, near, wanted))), {"Right": "good", "Wrong": "bad"}.get(verdict, "dim")


def verdict_of(run: RunLog) -> str:
    """`Right` or `Wrong`, of free text `F1 42 %`; a dash until the run is over."""
    from evprof.metrics.figures.scores import score

    return verdict_words(score(run, RIGHT), score(run, TOKEN_F1)) or NOTHING


def verdict_words(right: float | None, shared: float | None) -> str:
    """What these scores by RIGHT and TOKEN_F1 say of one answer; "" where neither is known."""
    if right is not None:
        return "Right" if right else "Wrong"
    return "" if shared is None else nearness(shared)


def nearness(shared: float) -> str:
    """`F1 42 %`."""
    return f"F1 {percent_text(shared)}"


def verdicts_of(group: Sequence[RunLog]) -> str:
    """`right`, `F1 42 %`; of two models `both wrong`, or `draft right, target wrong`; "" where one is not over, or
    nothing is expected."""
    found = [verdict_of(run) for run in group if run.info.status == FINISHED and run.info.sample.is_scored]
    verdicts = [verdict.lower() if verdict in ("Right", "Wrong") else verdict for verdict in found]
    if not verdicts or len(verdicts) < len(group):
        return ""
    if len(group) == 1:
        return verdicts[0]
    if len(set(verdicts)) == 1:
        return f"both {verdicts[0]}"
    return ", ".join(f"{run.info.role} {verdict}" for run, verdict in zip(group, verdicts, strict=True))


def right_words(shares: Mapping[str, float]) -> str:
    """`33 % right` of one role's share of right answers, `33 / 0 % right` of the draft's and the target's."""
    told = _both(shares)
    return f"{told} % right" if told else ""


def nearness_words(shares: Mapping[str, float]) -> str:
    """The same of free text, with the mean of what is shared: `F1 33 / 0 %`."""
    told = _both(shares)
    return f"F1 {told} %" if told else ""


def _both(shares: Mapping[str, float]) -> str:
    return " / ".join(f"{100 * shares[role]:.0f}" for role in (DRAFT, TARGET) if role in shares)


def expected_text(run: RunLog, longest: int) -> str:
    """The right choice with its letter, or the right wordings."""
    sample = run.info.sample
    choices, letter = (sample.expected.choices, sample.expected.letter) if sample.expected else ((), "")
    right = (choices[LETTERS.index(letter)],) if letter else sample.answers
    said = " or ".join(f"“{answer}”" for answer in right)
    told = one_line(f"{letter}, {said}" if letter else said, WHOLE)
    return told if len(told) <= longest else f"{told[:longest].rstrip()}…"


def expected_lines(run: RunLog) -> dict[str, str]:
    """Name -> text of the inspector's lines, each short; {} where the sample expects nothing."""
    if not run.info.sample.is_scored:
        return {}
    from evprof.metrics.figures.scores import named_letter, score

    shares = {FIGURES[key].title: score(run, key) for key in (TOKEN_F1, ROUGE_L)}
    return {
        "answer": verdict_of(run),
        "names choice": named_letter(run) or "",
        **{name: "" if value is None else percent_text(value) for name, value in shares.items()},
    }


def expected_note(runs: Sequence[RunLog]) -> str:
    """`Expected: C, “a bus” · vehicles`, once where all runs were asked the same; "" where nothing is expected."""
    told: dict[str, list[str]] = {}
    for run in runs:
        sample = run.info.sample
        if sample.is_scored:
            words = " · ".join(filter(None, (expected_text(run, WHOLE), one_line(sample.task, LONGEST))))
            told.setdefault(words, []).append(str(run.run_id))
    if len(told) == 1:
        return f"Expected: {next(iter(told))}"
    return "\n".join(f"Expected of run {', '.join(ids)}: {words}" for words, ids in told.items())


def rule_of(name: str) -> str:
    """The rules behind one of these lines, for its tip."""
    titled = {FIGURES[key].title: (key,) for key in SCORING_RULES}
    keys = titled | {"answer": (RIGHT, CHOICE, EXACT), "names choice": (CHOICE,)}
    return "\n".join(SCORING_RULES[key].sentence for key in keys.get(name, ()))
