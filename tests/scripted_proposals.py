"""What the scripted drafter proposes, right and wrong in each of the ways drafts fail, and what it says it thought."""

from __future__ import annotations

from collections.abc import Sequence

from evprof.core.records import JudgementRecord
from evprof.core.request import RunRequest
from evprof.core.speculation import SHARED, SpeculationFacts
from evprof.core.vocabulary.drafters import KV, MODEL
from evprof.core.vocabulary.modes import mode_of
from scripted_pair import Script, token_id_of

_WRONG = " maybe"
_SHARED_IDS, _TARGET_IDS = 980, 997


def facts_of(request: RunRequest, script: Script) -> SpeculationFacts:
    asked = request.settings.speculation
    if mode_of(request.mode).maps_cache:
        name = asked.adapter or "scripted map"
        return SpeculationFacts(name, KV, adapter=asked.adapter, length="fixed", is_lossless=False)
    is_model = asked.drafter == MODEL
    runs_beside = mode_of(request.mode).is_parallel
    return SpeculationFacts(
        script.draft.facts.name if asked.needs_draft_model else f"scripted {asked.drafter}",
        asked.drafter,
        adapter=asked.adapter,
        alignment=SHARED if is_model else "same",
        shared_ids=_SHARED_IDS if is_model else None,
        draft_ids=_SHARED_IDS if is_model else None,
        target_ids=_TARGET_IDS if is_model else None,
        length=asked.length,
        tree=asked.tree,
        concurrency="threads" if runs_beside else None,
        draft_threads=1 if runs_beside else None,
        target_threads=1 if runs_beside else None,
    )


def proposal_of(answer: Sequence[str], place: int, drafted: int, accepted: int, index: int) -> list[str]:
    """Pieces drafted for `place` on: so many right ones, then wrong ones, the first in turn of another kind."""
    right = list(answer[place : place + accepted])
    wrong = [_WRONG] * (drafted - len(right))
    following = answer[place + accepted : place + accepted + 2]
    if wrong and len(following) == 2 and index % 3 == 1:
        wrong[0] = following[1]  # a word too early
    elif wrong and following and index % 3 == 2:
        wrong[0] = following[0].upper()
    return right + wrong


def judgements_of(
    run_id: int, index: int, place: int, *, answer: Sequence[str], proposal: Sequence[str], accepted: int
) -> list[JudgementRecord]:
    """Plausible probabilities of what was judged: the accepted pieces and the first rejected one."""
    found = []
    for offset, piece in enumerate(proposal[: accepted + 1]):
        if place + offset >= len(answer):
            break
        target, stands = answer[place + offset], offset < accepted
        # Between 0 and 0.29, by the piece: the same script says the same every time.
        doubt = token_id_of(piece + target) % 30 * 10_000
        draft_ppm, target_ppm = 980_000 - doubt, 990_000 - doubt // 2
        cross_ppm = target_ppm if stands else 5_000 + doubt // 10
        overlap_ppm = min(draft_ppm, target_ppm) if stands else cross_ppm + 2_000
        found.append(
            JudgementRecord(
                run_id,
                index,
                offset,
                place + offset,
                token_id_of(piece),
                token_id_of(target),
                int(stands),
                draft_ppm,
                cross_ppm,
                target_ppm,
                overlap_ppm,
                piece,
                target,
            )
        )
    return found
