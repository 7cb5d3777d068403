"""One session of 3 plain, 3 speculative, 10 plain and 3 speculative runs under changing load: one verdict."""

from __future__ import annotations

from pathlib import Path

import pytest

from evprof.core.run_info import Turn
from evprof.core.run_log import RunLog
from evprof.export.report.data import Source, gather
from evprof.export.report.sections.comparisons import contributions
from evprof.metrics.comparison.document import compare_document
from evprof.metrics.configurations.baselines import pooled
from evprof.metrics.configurations.gathering import configurations_of
from evprof.metrics.facts import speedup_fact
from evprof.metrics.speculation.payoff import payoff_of
from evprof.metrics.speculation.verdicts import speculation_document, speculation_sentence
from report_blocks import said

PLAIN = (1.5, 1.52, 1.48, *[3.0] * 7, 1.5, 1.52, 1.48)
"""Seven of the plain runs are from minutes in which the machine was slow."""


@pytest.fixture
def runs(script, plain_writer, speculative_writer) -> list[RunLog]:
    paces, found = iter(PLAIN), []
    for number, group in enumerate([1] * 3 + [2] * 3 + [3] * 10 + [4] * 3, 1):
        if group % 2:
            run = plain_writer(script(number), scale=next(paces))
        else:
            run = speculative_writer(script(number, mode="speculative"))
        run.info.group_id, run.info.environment = group, {"engine_session": "one"}
        found.append(run)
    return found


@pytest.mark.parametrize("is_in_turns", [False, True])
def test_the_verdict_is_the_same_everywhere(runs: list[RunLog], *, is_in_turns: bool) -> None:
    plain, drafted = ([run for run in runs if run.info.mode == mode] for mode in ("target", "speculative"))
    if is_in_turns:
        for turn, pair in enumerate(zip([*plain[:3], *plain[-3:]], drafted, strict=True)):
            for place, run in enumerate(pair):
                run.info.turn = Turn("series", turn, place)
    payoff = payoff_of(drafted[-1], runs)
    assert payoff is not None
    assert payoff.whole is not None
    listed = pooled(configurations_of(runs))
    assert [len(column.runs) for column in listed] == [13, 6]
    document = compare_document(listed, listed[0])
    row = next(row for row in document["rows"] if row["metric"] == "total_ms")
    fact, measured = speedup_fact(payoff), speculation_document(drafted[-1], runs)
    assert fact is not None
    assert measured is not None
    ends = measured["prediction"]["measured"]["end-to-end"]["ci95"]
    sentences = speculation_sentence(drafted[-1], runs), document["pairs"][0]["why"]["sentence"]
    report = said(contributions(gather([Source(Path(), runs)])))
    assert payoff.whole.ratio == pytest.approx(1 / row["ratio"][1])
    assert payoff.is_clear == row["differs"][1] == (fact.value is not None) == (ends is not None) == is_in_turns
    for text in (*sentences, report):
        assert ("1.64× [1.62, 1.66]" in text) == is_in_turns
        assert ("not called: the sides did not run in turns" in text) == (not is_in_turns)
    if is_in_turns:
        assert payoff.whole.interval == pytest.approx(sorted(1 / end for end in row["ci95"][1])) == tuple(ends)
