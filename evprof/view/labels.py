"""What is written on bars and beside them, longest wording first, so that the widest that fits can be taken."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from evprof.core.records import COVERS, DRAFT, STAGES
from evprof.core.run_log import RunLog
from evprof.core.units import ms_text
from evprof.core.vocabulary.families import family_title
from evprof.core.vocabulary.settings import SETTINGS

SHORT_DTYPES = dict(SETTINGS["dtype"].choices)
"""How people write arithmetic."""


@lru_cache(maxsize=500)
def stages_in(name: str) -> tuple[str, ...]:
    """The stages that an interval of that name covers; empty for a name that is no stage's (a part of one)."""
    names = tuple(name.split(COVERS))
    return names if all(part in STAGES for part in names) else ()


def stage_title(name: str) -> str:
    """`vision + prefill` for an interval that covers several stages; any other name as it is."""
    return " + ".join(name.split(COVERS))


def model_title(run: RunLog, role: str) -> str:
    """The family's name of a run's model, or what the role loads while nothing is known of it yet."""
    facts = run.info.models.get(role)
    if facts is None:
        return "Draft" if role == "draft" else "Target"
    return family_title(facts.family, facts.name)


def is_drafting(run: RunLog, role: str, name: str) -> bool:
    """Whether a stage of a draft that only helps is its free drafting: the draft's decode in a parallel prefill."""
    return name == "decode" and role == DRAFT != run.info.role


def stage_labels(run: RunLog, role: str, name: str, duration_ns: int) -> list[str]:
    """Wordings for a stage's bar, longest first: what it handled, how long it took, its name."""
    duration_ms = duration_ns / 1e6
    took = ms_text(duration_ms)
    wordings = [f"{stage_title(name)}  {took}", stage_title(name)]
    if is_drafting(run, role, name):
        drafted = sum(entry.drafted for entry in run.rounds if entry.hidden)
        counted = [f"draft · {drafted} hidden tokens"] if drafted else []
        return [*(f"{words}  {took}" for words in counted), *counted, f"draft  {took}", "draft"]
    lengths = run.info.lengths.get(role)
    if name == "prefill" and lengths is not None:
        wordings.insert(0, f"{name}  {took} · {lengths.input:,} tokens")
    if name == "vision" and lengths is not None and lengths.visual:
        wordings.insert(0, f"{name}  {took} · {lengths.visual:,} tokens")
    tokens = run.answer_extent.length
    if name == "decode" and role == run.info.role and tokens > 1 and duration_ms > 0:
        wordings.insert(0, f"{name}  {took} · {(tokens - 1) / duration_ms * 1000:,.1f} tok/s")
    return wordings


def widest_that_fits(wordings: list[str], room_px: float, width_of: Callable[[str], float]) -> str:
    """The first wording no wider than the room, or nothing: half a word tells less than none."""
    return next((wording for wording in wordings if width_of(wording) <= room_px), "")


def axis_text(duration_ms: float) -> str:
    """A mark of an axis of durations: `0`, `2.5 ms`, `10 s`."""
    return "0" if not duration_ms else f"{duration_ms:g} ms" if duration_ms < 1000 else f"{duration_ms / 1000:g} s"


_WORD = re.compile(r"\w+")

WHOLE, BEGINNING, INSIDE = 3.0, 2.0, 1.0
"""What a typed word is worth: a word of the text, the beginning of one, letters inside one."""


def match(query: str, text: str) -> float | None:
    """A score, higher is better; None where a word of `query` is nowhere in `text`. Cases do not matter.

    Nothing typed fits everything equally. Of texts that fit equally the shorter one scores higher.
    """
    typed = query.casefold().split()
    folded = text.casefold()
    words = [(found.start(), found.group()) for found in _WORD.finditer(folded)]
    total = 0.0
    for part in typed:
        if part not in folded:
            return None
        worths = [WHOLE if word == part else BEGINNING for at, word in words if folded.startswith(part, at)]
        total += max(worths, default=INSIDE)
    return total - len(text) / (len(text) + 1000.0) if typed else 0.0
