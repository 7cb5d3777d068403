"""Why drafts fail: each round's first rejection with both tokens, and the kind of difference, by their text alone.

The kinds say what would help: SHIFTED drafts say the same a word earlier or later, SURFACE ones write it differently,
CONTENT ones see something else. It knows pieces, no vocabulary and no model.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from evprof.core.run_log import RunLog
from evprof.core.texts import join_pieces
from evprof.metrics.figures.kept import kept
from evprof.metrics.speculation.outcome import has_rejection

SHIFTED, SURFACE, CONTENT = "shifted", "surface", "content"
KINDS = (SHIFTED, SURFACE, CONTENT)
"""The draft's token comes a few places later in the target's text, or the target's in the draft's; the same word but
for case, spaces, punctuation or inflection; another word."""

REACH = 4
"""Places after the rejected one in which a token counts as shifted."""

_FEWEST_LETTERS = 3
"""Shorter words are too common to tell a shift by themselves: what follows them has to be the same as well."""

_BYTE = re.compile(r"<0x[0-9A-Fa-f]{2}>")
_PPM = 1_000_000
_DIGITS = 20
"""Of a number that can be an id."""


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

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


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
        ids = [] if is_tree else [int(part) for part in entry.drafted_ids.split(",") if _is_id(part)]
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


@kept()
def rejection_counts(run: RunLog) -> dict[str, int] | None:
    """A run's first rejections by kind, all kinds named; None where there is none."""
    found = counts(first_rejections(run)) if run.rounds else {}
    return found if any(found.values()) else None


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


def _is_id(part: str) -> bool:
    """Whether a part of a record's text is an id; a damaged file's may be anything."""
    return part.isdecimal() and len(part) < _DIGITS


def _chance(ppm: int) -> float | None:
    return None if ppm < 0 else ppm / _PPM


def kind_of(drafted: Sequence[str], answer: Sequence[str], place: int) -> str:
    """The kind of a rejection: `drafted` are the draft's pieces from the rejected one on, `answer` all of the target's.

    A special token (an empty piece, such as the end) is content: the draft goes on where the target stops, or stops.
    """
    draft, target = drafted[0], answer[place]
    if not draft or not target:
        return CONTENT
    if _is_surface(drafted, answer, place):
        return SURFACE
    if _stands_in(drafted, answer[place + 1 : place + 1 + REACH + 1]):
        return SHIFTED
    if _stands_in(answer[place:], drafted[1 : 1 + REACH + 1]):
        return SHIFTED
    return CONTENT


def _is_surface(drafted: Sequence[str], answer: Sequence[str], place: int) -> bool:
    if _bare(drafted[0]) == _bare(answer[place]):
        return True
    if _BYTE.fullmatch(drafted[0]) or _BYTE.fullmatch(answer[place]):
        return False  # part of a character is no part of a word
    mine, theirs = _word(answer[:place], drafted), _word(answer[:place], answer[place:])
    if mine is None or theirs is None:
        # The draft ends within the word: the pieces are all there is.
        mine, theirs = _bare(drafted[0]), _bare(answer[place])
    return is_inflection(mine, theirs)


def _stands_in(pieces: Sequence[str], text: Sequence[str]) -> bool:
    """Whether the first of `pieces` stands within `text`, and, where it is short, the next one right after it."""
    wanted = _bare(pieces[0])
    if not wanted:
        return False
    for place, piece in enumerate(text):
        if _bare(piece) != wanted:
            continue
        if len(wanted) >= _FEWEST_LETTERS:
            return True
        if (
            place + 1 < len(text)
            and len(pieces) > 1
            and _bare(pieces[1])
            and _bare(text[place + 1]) == _bare(pieces[1])
        ):
            return True
    return False


def _bare(piece: str) -> str:
    """Letters and digits in lower case; "" of spaces, punctuation and bytes."""
    if _BYTE.fullmatch(piece):
        return piece
    return "".join(letter for letter in piece.casefold() if letter.isalnum())


def _word(before: Sequence[str], following: Sequence[str]) -> str | None:
    """The word that `following` begins or goes on with after `before`, bare; None where it is not known how it ends."""
    head: list[str] = []
    if not following[0].startswith(" "):
        for piece in reversed(before):
            head.insert(0, piece)
            if piece.startswith(" "):
                break
    text = join_pieces([*head, *following]).lstrip()
    match = re.match(r"\w+(?=\W)", text)
    if match is None:
        return text.casefold() if following[-1] == "" and re.fullmatch(r"\w+", text) else None
    return match.group().casefold()


_ENDINGS = ("", "s", "es", "d", "ed", "ing", "er", "ers", "ly", "est")
_ARTICLES = frozenset(("a", "an"))


def is_inflection(one: str, other: str) -> bool:
    """Whether two bare words are forms of one: tree and trees, city and cities, drive and driving, run and running."""
    if not one or not other:
        return False
    if one == other or {one, other} == _ARTICLES:
        return True
    return bool(_stems(one) & _stems(other))


def _stems(word: str) -> set[str]:
    """What is left of a word without an English ending, in the spellings that endings change; three letters or more.

    Crude: care and cars stay apart, seed counts as a form of see.
    """
    found = set()
    for ending in _ENDINGS:
        if not word.endswith(ending):
            continue
        stem = word[: len(word) - len(ending)] if ending else word
        found.add(stem)
        if ending and stem.endswith("i"):
            found.add(stem[:-1] + "y")
        if ending and len(stem) > 1 and stem[-1] == stem[-2]:
            found.add(stem[:-1])
        if ending in ("ed", "ing", "er", "ers", "es", "est"):
            found.add(stem + "e")
    return {stem for stem in found if len(stem) >= _FEWEST_LETTERS}
