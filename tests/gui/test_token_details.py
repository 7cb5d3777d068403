"""The inspector of a token and of a round: what else was likely, what it came out of, what it could see."""

from __future__ import annotations

import pytest

from evprof.core.run_log import RunLog
from ui.runs.inspector import Inspector
from ui.runs.run_details import DetailSection
from ui.runs.token_details import NOT_RECORDED
from ui.state.selection import RoundRef, Selection, TokenRef


def section(inspector: Inspector, head: str) -> DetailSection:
    return next(one for one in inspector.sections if one.head == head)


def said(inspector: Inspector) -> dict[str, str]:
    return {detail.name: detail.text for one in inspector.sections for detail in one.details}


def test_a_rejected_token_tells_of_itself_and_of_its_round(
    inspector: Inspector, selection: Selection, runs: dict[int, RunLog]
) -> None:
    run = runs[3]
    token = run.rejected[0]
    selection.select(RoundRef(3, token.round_index, token.position))
    mine = {detail.name: detail.text for detail in section(inspector, "Drafted and rejected").details}
    assert mine["id"] == str(token.token_id)
    assert mine["for token"] == str(token.position)
    standing = next(one for one in run.tokens if one.position == token.position)
    assert standing.piece.strip() in mine["stands there instead"]
    assert section(inspector, f"Round {token.round_index + 1}").details
    selection.select(RoundRef(3, token.round_index))
    assert all(one.head != "Drafted and rejected" for one in inspector.sections)


def test_a_token_tells_five_likeliest_and_the_entropy(
    inspector: Inspector, selection: Selection, runs: dict[int, RunLog]
) -> None:
    run = runs[3]
    token = next(one for one in run.tokens if one.origin == "accepted")
    record = run.alternatives_of(token)
    selection.select(TokenRef(3, token.position))
    odds = section(inspector, "Likeliest tokens").details
    assert [detail.bar for detail in odds] == [*(one.chance for one in record.listed), None]
    assert odds[0].text == f"{100 * record.listed[0].chance:.1f} %"
    assert [detail.roles for detail in odds[:5]] == [("accent",), *[("",)] * 4]
    assert (odds[5].name, odds[5].text) == ("entropy", f"{record.entropy_bits:.2f} bits")
    assert section(inspector, "The draft's likeliest").details[0].bar is not None
    words = said(inspector)
    assert words["origin"] == "accepted"
    assert words["round"] == str(token.round_index + 1)
    lengths = run.info.lengths["target"]
    assert words["position in the cache"] == str(lengths.input + token.position)
    assert words["of them visual"] == str(lengths.visual)
    assert words["frames"].startswith("8 · 0 … ")
    assert words["draft's event slices"].startswith("5 · 0 … ")
    assert words["produced by"].startswith("decode")
    selection.select(TokenRef(3, 0))
    assert said(inspector)["produced by"].startswith("prefill")


def test_a_run_without_alternatives_says_so(
    inspector: Inspector, selection: Selection, runs: dict[int, RunLog], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = RunLog(runs[3].info)
    for token in runs[3].tokens:
        run.absorb(token)
    monkeypatch.setattr(inspector._controller, "run", lambda run_id: run if run_id == 3 else None)
    selection.select(TokenRef(3, 1))
    assert section(inspector, "Likeliest tokens").note == NOT_RECORDED


def test_a_round_tells_what_it_took_and_gave(
    inspector: Inspector, selection: Selection, runs: dict[int, RunLog]
) -> None:
    entry = runs[3].rounds[2]
    selection.select(RoundRef(3, entry.round_index))
    assert inspector.sections[0].head == f"Round {entry.round_index + 1}"
    assert said(inspector)["accepted of drafted"] == f"{entry.accepted} of {entry.drafted}"
    assert len(section(inspector, "Reached the answer").details) == entry.emitted
    assert len(section(inspector, "Rejected").details) == entry.drafted - entry.accepted
