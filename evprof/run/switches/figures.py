"""Figures of a switch on and off that ran in turns: speed, memory, agreement, and a verdict.

A speed is off / on, so above 1 is faster.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any

from evprof.core.run_log import RunLog
from evprof.metrics.comparison.differences import TOKEN_MATCH_DEFINITION
from evprof.metrics.estimates.estimates import Verdict, marked, verdict
from evprof.metrics.estimates.observations import Read, observe
from evprof.metrics.figures.kv_cache import measured_bytes
from evprof.metrics.figures.stages import WITHOUT_LOAD, stage_total_ms, total_ms
from evprof.run.switches.variants import Expectation, Variant, VariantChange

AS_EXPECTED, MORE, LESS, SLOWER, FASTER = "as expected", "more", "less", "slower", "faster"
NOT_CLEAR, NOT_HERE = "not clear", "not here"


@dataclass(frozen=True)
class MeasuredSide:
    """A switch on, or off: the first run, whose answer ends where the model ends, and the runs of the turns, whose
    answers are equally long. `is_alone`: no other model was in memory in the first.

    Weights and caches are of the last run, both models' where two take part; the peak is the highest.
    """

    first: RunLog
    runs: Sequence[RunLog]
    is_alone: bool

    @property
    def answer(self) -> list[int]:
        return [token.token_id for token in self.first.tokens]

    @property
    def weights_bytes(self) -> int | None:
        return self.runs[-1].info.memory.weights_bytes

    @property
    def kv_bytes(self) -> int | None:
        last = self.runs[-1]
        caches = [count for role in last.info.kv if (count := measured_bytes(last, role)) is not None]
        return sum(caches) if caches else None

    @property
    def peak_bytes(self) -> int | None:
        memories = [run.info.memory for run in ([self.first] if self.is_alone else self.runs)]
        return max(
            (peak for memory in memories if (peak := memory.peak_allocated_bytes or memory.peak_rss_bytes) is not None),
            default=None,
        )


def setup_ms(run: RunLog) -> float | None:
    """Loading, quantizing and compiling before a run's zero, all models; None when there was nothing of it."""
    parts = [part for facts in run.info.setup.values() for part in (facts.weights_ms, facts.compile_ms)]
    known = [part for part in parts if part is not None]
    return sum(known) if known else None


def speed_of(off: MeasuredSide, on: MeasuredSide, read: Read) -> Verdict | None:
    return verdict(observe(on.runs, read), observe(off.runs, read))


def stages_ms(run: RunLog, names: Sequence[str]) -> float | None:
    """Time of those stages together, all roles, in ms; None when one of them was not measured."""
    parts = [stage_total_ms(run, name) for name in names]
    return None if None in parts else sum(part for part in parts if part is not None)


def word_of(speed: Verdict | None, expects: Expectation | None) -> str | None:
    """The word for the speed of the stages that a switch is for; None without an interval."""
    if speed is None or speed.ratio is None or speed.interval is None:
        return None
    if not speed.is_clear:
        return NOT_CLEAR
    if speed.ratio < 1:
        return SLOWER
    if expects is None:
        return FASTER
    if speed.ratio < expects.low:
        return LESS
    return MORE if speed.ratio > expects.high else AS_EXPECTED


def take_back(rows: Sequence[dict[str, Any]], speeds: Sequence[Verdict | None]) -> None:
    """Leaves the words of those rows that are clear by Holm's correction over the whole table."""
    for row, is_marked in zip(rows, marked(speeds), strict=True):
        if row["verdict"] not in (None, NOT_HERE) and not is_marked:
            row["verdict"] = NOT_CLEAR


def agreement(off: Sequence[int], on: Sequence[int]) -> dict[str, Any]:
    """Token match of two answers, and the first position at which they part (None: they do not)."""
    same = [one == other for one, other in zip(off, on, strict=False)]
    compared, matched = len(same), sum(same)
    return {
        "definition": TOKEN_MATCH_DEFINITION,
        "matched": matched,
        "compared": compared,
        "rate": matched / compared if compared else None,
        "first_divergence": None if all(same) else same.index(False),
        "answer_tokens": [len(off), len(on)],
    }


def row_of(
    head: dict[str, Any],
    expects: Expectation | None,
    off: MeasuredSide,
    on: MeasuredSide,
) -> tuple[dict[str, Any], Verdict | None]:
    """The row, and the speed of the stages that the switch is for."""
    read = partial(stages_ms, names=head["stages"])
    stage = speed_of(off, on, read)
    info, known = on.first.info, off.first.info.warnings
    sides = {"off": off, "on": on}
    row = {
        **head,
        "status": "measured",
        "reason": None,
        "pairs": len(off.runs),
        **_ratio_json("run", speed_of(off, on, partial(total_ms, basis=WITHOUT_LOAD))),
        **_ratio_json("stage", stage),
        **{f"weights_{name}_bytes": side.weights_bytes for name, side in sides.items()},
        **{f"kv_{name}_bytes": side.kv_bytes for name, side in sides.items()},
        **{f"peak_{name}_bytes": side.peak_bytes for name, side in sides.items()},
        "peak_of": "allocated" if info.memory.peak_allocated_bytes else "rss",
        "agreement": agreement(off.answer, on.answer),
        "setup_off_ms": setup_ms(off.first),
        "setup_on_ms": setup_ms(on.first),
        "first_stage_on_ms": read(on.first),
        "verdict": word_of(stage, expects),
        "warnings": [line for line in info.warnings if line not in known],
    }
    return row, stage


def head_of(variant: Variant, title: str, role: str, plain: RunLog) -> dict[str, Any]:
    """What a row says before anything is measured; `plain` is a run of that model with everything off."""
    facts = plain.info.models.get(role)
    return {
        "switch": variant.switch,
        "variant": variant.name,
        "title": title,
        "against": variant.against,
        "off_is_plain": variant.off == VariantChange(),
        "role": role,
        "model": facts.name if facts else None,
        "stages": list(variant.stages),
        "expected": variant.expects.text if variant.expects else None,
    }


def row_without(head: dict[str, Any], reason: str) -> dict[str, Any]:
    return head | {"status": NOT_HERE, "reason": reason, "verdict": NOT_HERE}


def summary_of(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """How many of each verdict, the fastest against everything off that changed no token, and how far equal things were
    apart."""
    measured = [row for row in rows if row["status"] == "measured"]
    equal = [row["run_speed"] for row in measured if row["switch"] == "nothing" and row["run_speed"]]
    real = [row for row in measured if row["switch"] != "nothing" and row["off_is_plain"] and row["run_speed"]]
    exact = [row for row in real if row["agreement"]["rate"] == 1.0]
    best = max(exact, key=lambda row: row["run_speed"], default=None)
    words = [row["verdict"] for row in rows if row["verdict"]]
    return {
        "measured": len(measured),
        "not_here": len(rows) - len(measured),
        "a_vs_a": median(equal) if equal else None,
        "best_exact": f"{best['title']} ({best['role']})" if best else None,
        "best_exact_speed": best["run_speed"] if best else None,
        "verdicts": {word: words.count(word) for word in sorted(set(words))},
    }


def _ratio_json(name: str, speed: Verdict | None) -> dict[str, Any]:
    on_ms, off_ms = speed.means if speed else (None, None)
    return {
        f"{name}_off_ms": off_ms,
        f"{name}_on_ms": on_ms,
        f"{name}_speed": speed.ratio if speed else None,
        f"{name}_speed_ci95": list(speed.interval) if speed and speed.interval else None,
    }
