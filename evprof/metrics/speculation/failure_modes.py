"""The first rejection of each round with both tokens, and the kind of difference by the tokens' text alone."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from evprof.core.run_log import RunLog
from evprof.metrics.speculation.outcome import has_rejection

SHIFTED, SURFACE, CONTENT = "shifted", "surface", "content"
KINDS = (SHIFTED, SURFACE, CONTENT)
"""The draft's token comes a few places later in the target's text, or the reverse; both tokens have the same letters
and digits; every other difference."""

REACH = 4
"""Places after the rejected one in which a token counts as shifted."""

_FEWEST_LETTERS = 3
"""A shorter word counts as shifted only if the word after it is the same, too."""

_BYTE = re.compile(r"<0x[0-9A-Fa-f]{2}>")
_PPM = 1_000_000
_LONGEST_ID = 20
"""Digits of a token's id."""


@dataclass(frozen=True)
class Rejection:
    """The first token of a round that the target replaced. `position` is its place among the generated tokens.

    `draft_chance` is the draft's probability of its own token, `cross_chance` the target's for that token and
    `target_chance` the target's for what it took instead; None where a model gives none. `target_piece` is "" for a
    special token such as the end.
    """

    round_index: int
    position: int
    draft_id: int
    target_id: int
    draft_piece: str
    target_piece: str
    draft_chance: float | None
    cross_chance: float | None
    target_chance: float | None
    kind: str


def first_rejections(run: RunLog) -> list[Rejection]:
    """Every round's first rejection in order of the rounds; rounds whose tokens are not known are left out."""
    facts, starts = run.info.speculation, round_starts(run)
    is_tree = facts is not None and bool(facts.tree)
    names = {token.token_id: token.piece for token in (*run.tokens, *run.rejected)}
    names |= {entry.draft_id: entry.draft_piece for entry in run.judgements}
    judged = {entry.round_index: entry for entry in run.judgements if not entry.accepted}
    rejected = {(token.round_index, token.position): token for token in reversed(run.rejected)}
    answer = [token.piece for token in run.tokens]
    found = []
    for entry in run.rounds:
        place = starts[entry.round_index] + entry.accepted
        if not has_rejection(run, entry) or place >= len(run.tokens):
            continue
        # Of a tree, only the preferred token of a place is known.
        parts = [] if is_tree else entry.drafted_ids.split(",")
        ids = [int(part) for part in parts if part.isdecimal() and len(part) < _LONGEST_ID]
        drafts = [(token_id, names.get(token_id, "")) for token_id in ids[entry.accepted :]]
        judgement, token = judged.get(entry.round_index), rejected.get((entry.round_index, place))
        if judgement is not None:
            drafts = [(judgement.draft_id, judgement.draft_piece), *drafts[1:]]
        elif not drafts and token is not None:
            drafts = [(token.token_id, token.piece)]
        if not drafts:
            continue
        chances = (judgement.draft_ppm, judgement.cross_ppm, judgement.target_ppm) if judgement else (-1, -1, -1)
        target = run.tokens[place]
        kind = kind_of([piece for _, piece in drafts], answer, place)
        draft, cross, own = map(_chance, chances)
        (draft_id, piece), index = drafts[0], entry.round_index
        found.append(Rejection(index, place, draft_id, target.token_id, piece, target.piece, draft, cross, own, kind))
    return found


def counts(rejections: Iterable[Rejection]) -> dict[str, int]:
    found = dict.fromkeys(KINDS, 0)
    for entry in rejections:
        found[entry.kind] += 1
    return found


def round_starts(run: RunLog) -> dict[int, int]:
    known: dict[int, int] = {}
    for place, token in enumerate(run.tokens):
        if token.round_index >= 0:
            known.setdefault(token.round_index, place)
    # A file may not say which round gave a token: then the rounds follow the prefill's token without a gap.
    place = 1
    found = {}
    for entry in run.rounds:
        place = known.get(entry.round_index, place)
        found[entry.round_index] = place
        place += entry.emitted
    return found


def _chance(ppm: int) -> float | None:
    return None if ppm < 0 else ppm / _PPM


def kind_of(drafted: Sequence[str], answer: Sequence[str], place: int) -> str:
    """The kind of a rejection: `drafted` are the draft's pieces from the rejected one on, `answer` all of the target's.

    A special token is an empty piece, and counts as content.
    """
    draft, target = drafted[0], answer[place]
    if not draft or not target:
        return CONTENT
    if _bare(draft) == _bare(target):
        return SURFACE
    is_shifted = _stands_in(drafted, answer[place + 1 : place + 2 + REACH])
    return SHIFTED if is_shifted or _stands_in(answer[place:], drafted[1 : 2 + REACH]) else CONTENT


def _stands_in(pieces: Sequence[str], text: Sequence[str]) -> bool:
    """Whether the first of `pieces` stands within `text`; a short one together with the next."""
    wanted = [_bare(piece) for piece in pieces[:2]]
    known = [_bare(piece) for piece in text]
    if not wanted[0]:
        return False
    if len(wanted[0]) >= _FEWEST_LETTERS:
        return wanted[0] in known
    return len(wanted) > 1 and bool(wanted[1]) and wanted in [known[at : at + 2] for at in range(len(known))]


def _bare(piece: str) -> str:
    """Letters and digits in lower case; "" of spaces and punctuation; a byte as it is."""
    return piece if _BYTE.fullmatch(piece) else "".join(filter(str.isalnum, piece.casefold()))
