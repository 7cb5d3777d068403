"""First rejections and their kinds, by text alone."""

from __future__ import annotations

import pytest

from evprof.core.records import JudgementRecord, RoundRecord, TokenRecord
from evprof.core.run_info import RunInfo, SpeculationFacts
from evprof.core.run_log import RunLog
from evprof.metrics.speculation.failure_modes import (
    CONTENT,
    SHIFTED,
    SURFACE,
    counts,
    first_rejections,
    kind_of,
    round_starts,
)


def pieces(text: str) -> list[str]:
    """Pieces divided by bars: " A| tree|s"."""
    return text.split("|")


@pytest.mark.parametrize(
    ("before", "drafted", "target", "kind"),
    [
        (" a", " trees| on", " tall| trees| on", SHIFTED),
        (" a", " tall| trees", " trees| on", SHIFTED),
        (" a", " trees| on", " green| and| very| tall| trees| by", SHIFTED),
        (" a", " trees| on", " green| and| very| tall| and| old| trees", CONTENT),
        (" see", " a| bus", " now| a| bus", SHIFTED),
        (" see", " a| car", " now| a| bus", CONTENT),
        (" the", " Bus| is", " bus| is", SURFACE),
        (" the", "bus| is", " bus| is", SURFACE),
        (" road", ".| It", ",| and", SURFACE),
        (" a", " trees| are", " tree|s|.", CONTENT),
        (" a", " red| bus", " blue| bus", CONTENT),
        (" road", "", " It| is", CONTENT),
        (" road", " It| is", "", CONTENT),
        (" x", "<0xE2>|<0x82>", "<0xE3>|<0x82>", CONTENT),
        (" is", " an| old", " a| red", CONTENT),
        (" road", ".", " and| so", CONTENT),
    ],
)
def test_kinds(before: str, drafted: str, target: str, kind: str) -> None:
    head = pieces(before)
    assert kind_of(pieces(drafted), [*head, *pieces(target)], len(head)) == kind


def run_with(answer: str, *rounds: tuple[str, int, int], knows_rounds: bool = True) -> RunLog:
    """An answer of pieces; of each round what was drafted, how much of it stands, and how much reached the answer.

    Ids are places in a vocabulary of all pieces.
    """
    words = list(dict.fromkeys([*pieces(answer), *(piece for text, _, _ in rounds for piece in pieces(text))]))
    run = RunLog(RunInfo(1, 1, 0, "target", "speculative"))
    of_place = [-1]
    for index, (_, _, emitted) in enumerate(rounds):
        of_place += [index] * emitted
    for place, piece in enumerate(pieces(answer)):
        index = of_place[place] if knows_rounds else -1
        run.absorb(TokenRecord(1, "target", place, words.index(piece), "target", index, 0, piece))
    start = 1
    for index, (text, accepted, emitted) in enumerate(rounds):
        drafted = pieces(text)
        for offset, piece in enumerate(drafted[accepted:], start + accepted):
            run.absorb(TokenRecord(1, "draft", offset, words.index(piece), "rejected", index, 0, piece))
        ids = ",".join(str(words.index(piece)) for piece in drafted)
        run.absorb(RoundRecord(1, index, 0, 1, 1, 0, len(drafted), accepted, emitted, ids, 0))
        start += emitted
    return run


@pytest.mark.parametrize("knows_rounds", [True, False])
def test_rejections_without_probabilities(knows_rounds: bool) -> None:
    run = run_with(
        " A| red| bus| is| on| the| road|.",
        (" red| car| is", 1, 2),
        (" was| on", 0, 1),
        (" on| the| Road", 2, 3),
        (".", 1, 1),
        knows_rounds=knows_rounds,
    )
    found = first_rejections(run)
    assert [(entry.round_index, entry.position, entry.draft_piece, entry.target_piece) for entry in found] == [
        (0, 2, " car", " bus"),
        (1, 3, " was", " is"),
        (2, 6, " Road", " road"),
    ]
    assert [entry.kind for entry in found] == [CONTENT, CONTENT, SURFACE]
    assert counts(found) == {SHIFTED: 0, SURFACE: 1, CONTENT: 2}
    assert {(entry.draft_chance, entry.cross_chance, entry.target_chance) for entry in found} == {(None, None, None)}
    assert round_starts(run) == {0: 1, 1: 3, 2: 4, 3: 7}


def test_probabilities_of_the_judged_token() -> None:
    run = run_with(" A| bus|.", (" car|.", 0, 1), (" and", 0, 1))
    run.absorb(JudgementRecord(1, 0, 0, 1, 77, 1, 0, 700_000, 1_000, 990_000, 5_000, " car", " bus"))
    run.absorb(JudgementRecord(1, 1, 0, 2, 78, 2, 0, -1, 2_000, 980_000, -1, " and", "."))
    found = first_rejections(run)
    assert (found[0].draft_id, found[0].draft_chance, found[0].cross_chance, found[0].target_chance) == (
        77,
        0.7,
        0.001,
        0.99,
    )
    assert found[1].draft_chance is None
    assert found[1].kind == CONTENT


def test_a_tree_tells_only_the_preferred_token() -> None:
    run = run_with(" A| tall", (" red| tall| blue| bus", 0, 1))
    run.info.speculation = SpeculationFacts("head", "eagle", tree="2,1")
    run.rejected[:] = [entry._replace(position=1) for entry in run.rejected]
    [found] = first_rejections(run)
    assert found.draft_piece == " red"
    assert found.kind == CONTENT
