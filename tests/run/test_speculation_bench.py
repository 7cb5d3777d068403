"""Drafters measured with an engine of known costs: exact predictions, best draft lengths, refusals, agreement."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace

import pytest

from evprof.core.errors import UserError
from evprof.core.protocols import RequestEnded, RunDescribed, RunEnded, RunStarted
from evprof.core.records import (
    ORIGIN_ACCEPTED,
    ORIGIN_BONUS,
    ORIGIN_TARGET,
    SETTLED,
    RoundRecord,
    SpanRecord,
    TokenRecord,
)
from evprof.core.request import RunRequest
from evprof.core.run_info import CANCELLED, FAILED, FINISHED, RunInfo
from evprof.core.sample import Sample
from evprof.core.vocabulary.drafters import DRAFTERS, LOOKUP, MODEL, NGRAM
from evprof.core.vocabulary.generation import ModelChoice
from evprof.core.vocabulary.speculation import SpeculationSettings
from evprof.loaders.adapters import AdapterInfo
from evprof.run.benches.drafting import DraftingContender, contenders
from evprof.run.benches.speculation import SpeculationPlan, measure_speculation

STEP_NS, DRAFT_NS, VERIFY_NS = 1_000_000, 100_000, 1_500_000
BEGIN_NS = 5_000_000
ANSWER = list(range(100, 141))
DRAFT, TARGET = ModelChoice("a-draft"), ModelChoice("a-target")


@dataclass
class KnownDrafts:
    """Every plain token takes STEP_NS; a round accepts `accepted` of its drafts and takes what it says above.

    `changes`: drafted answers differ from plain ones in their last token. Wall time is 10 ms more than decoding.
    """

    accepted: int = 3
    changes: bool = False
    refuses: str | None = None
    made: list[str] = field(default_factory=list)
    requests: list[RunRequest] = field(default_factory=list)

    def describe(self):
        return {"device": "none"}

    def close(self):
        self.made.append("closed")

    def run(self, request, sink, stop):
        request.validate()
        self.made.append(request.mode)
        self.requests.append(request)
        run_id = request.first_run_id
        sink.post(
            RunStarted(
                run_id,
                RunInfo(run_id, 1, 0, "target", request.mode, request.settings, request.sample, turn=request.turn),
            )
        )
        if stop.is_set():
            sink.post(RunEnded(run_id, CANCELLED))
        elif self.refuses == request.settings.speculation.drafter and request.mode == "speculative":
            sink.post(RunEnded(run_id, FAILED, f"There is no {self.refuses} here."))
        else:
            spent_ns = self._plain(sink) if request.mode == "target" else self._rounds(request, sink)
            self._end(sink, run_id, spent_ns)
        sink.post(RequestEnded(run_id))

    def _plain(self, sink):
        for place, token in enumerate(ANSWER):
            sink.append(TokenRecord(1, "target", place, token, ORIGIN_TARGET, -1, place * STEP_NS, "x"))
        return (len(ANSWER) - 1) * STEP_NS

    def _rounds(self, request, sink):
        answer = [*ANSWER[:-1], 7] if self.changes else ANSWER
        sink.append(TokenRecord(1, "target", 0, answer[0], ORIGIN_TARGET, -1, 0, "x"))
        place, number, now = 1, 0, BEGIN_NS
        while place < len(answer):
            drafted = min(request.settings.speculation.gamma, len(answer) - place - 1)
            accepted = min(self.accepted, drafted)
            drafting = drafted * DRAFT_NS
            sink.append(RoundRecord(1, number, now, drafting, VERIFY_NS, 0, drafted, accepted, accepted + 1, "", 0))
            now += drafting + VERIFY_NS
            for index in range(accepted + 1):
                origin = ORIGIN_ACCEPTED if index < accepted else ORIGIN_BONUS
                sink.append(TokenRecord(1, "target", place, answer[place], origin, number, now, "x"))
                place += 1
            number += 1
        return now - BEGIN_NS

    def _end(self, sink, run_id, spent_ns):
        start = BEGIN_NS
        for phase in (0, 1, SETTLED):
            end = -1 if phase == 0 else start + spent_ns
            sink.append(SpanRecord(run_id, 0, -1, phase, "target", "decode", start, end))
        facts = {"start_ns": 0, "end_ns": start + spent_ns + 5_000_000}
        sink.post(RunDescribed(run_id, facts))
        sink.post(RunEnded(run_id, FINISHED, None, facts))


def plan_of(*chosen: DraftingContender, **changes) -> SpeculationPlan:
    samples = [Sample("a.npy", "a.mp4", "What?"), Sample("b.npy", "b.mp4", "What?")]
    return SpeculationPlan(samples, chosen, DRAFT, TARGET, repeat=3, sweep_repeat=4, **changes)


NAIVE = DraftingContender("naive", SpeculationSettings())
LOOKED_UP = DraftingContender("lookup", SpeculationSettings(drafter=LOOKUP))


def test_known_costs_give_the_known_speed_at_every_draft_length() -> None:
    found = measure_speculation(KnownDrafts(), plan_of(NAIVE), threading.Event())
    swept = {row["gamma"]: row for row in found["sweep"]}
    assert sorted(swept) == list(range(1, 9))
    for gamma, row in swept.items():
        assert row["draft_cost"] == pytest.approx(0.1)
        assert row["verify_cost"] == pytest.approx(1.5)
        # The last round drafts less, and such rounds are too few to know their cost.
        assert row["predicted_vs_measured"] == pytest.approx(1.0, abs=0.05)
        assert row["accepted"] / row["rounds"] <= min(3, gamma)
    # Three of four drafts are accepted, so three a round give the most for their price.
    assert max(swept, key=lambda gamma: swept[gamma]["measured"]) == 3
    (row,) = found["rows"]
    assert (row["gamma"], row["same_answers"], row["answers"]) == (3, 2, 2)
    # Two questions asked three times each have two answers, of as many tokens.
    assert (row["runs"], row["scenes"], row["unique_tokens"]) == (6, 2, 2 * len(ANSWER))
    assert row["decode_speedup"] == pytest.approx(40 / (10 * (1.5 + 0.3)))
    assert row["end_to_end_speedup"] == pytest.approx((40 + 10) / (18 + 10))
    assert found["summary"]["best_lossless_speedup"] == row["decode_speedup"]
    assert found["summary"]["best_drafter"] == MODEL
    assert found["summary"]["predicted_vs_measured_worst"] == pytest.approx(1.0, abs=0.05)
    assert found["summary"]["acceptance"] == {MODEL: 1.0}
    assert found["summary"]["answers_differ"] == 0


def test_every_turn_runs_plain_and_all_drafters_once_and_the_engine_is_closed() -> None:
    engine = KnownDrafts()
    chosen = [replace(one, sweeps=False) for one in (NAIVE, LOOKED_UP)]
    measure_speculation(engine, plan_of(*chosen), threading.Event())
    assert engine.made[-1] == "closed"
    turns = [request.turn for request in engine.requests if request.turn is not None]
    assert [(turn.number, turn.place) for turn in turns] == [divmod(number, 3) for number in range(3 * 6)]
    drafters: dict[int, set[str]] = {}
    for request in engine.requests:
        if request.turn is not None:
            name = "" if request.mode == "target" else request.settings.speculation.drafter
            drafters.setdefault(request.turn.number, set()).add(name)
    assert all(names == {"", MODEL, LOOKUP} for names in drafters.values())


def test_another_answer_is_counted_and_told() -> None:
    asked = []

    def judge(request, plain, drafted) -> float:
        asked.append((request.sample.events_path, plain[-1], drafted[-1]))
        return 0.5 * len(asked)

    found = measure_speculation(KnownDrafts(changes=True), plan_of(NAIVE, judge=judge), threading.Event())
    assert found["summary"]["answers_differ"] == found["summary"]["answers"] == 2
    assert asked == [("a.npy", ANSWER[-1], 7), ("b.npy", ANSWER[-1], 7)]
    assert found["summary"]["largest_gap_ulps"] == 1.0
    assert found["rows"][0]["token_match"] == pytest.approx(40 / 41)


def test_who_cannot_take_part_keeps_a_row_with_the_reason() -> None:
    found = measure_speculation(KnownDrafts(refuses=LOOKUP), plan_of(NAIVE, LOOKED_UP), threading.Event())
    reasons = {row["drafter"]: row["reason"] for row in found["rows"]}
    assert reasons == {MODEL: None, LOOKUP: "There is no lookup here."}


def test_a_stop_keeps_what_is_measured() -> None:
    stop = threading.Event()
    notes: list[str] = []

    def note(line: str) -> None:
        notes.append(line)
        if line.startswith("sample 1"):
            stop.set()

    found = measure_speculation(KnownDrafts(), plan_of(NAIVE), stop, note)
    assert found["summary"]["is_complete"] is False
    assert (found["rows"][0]["answers"], found["rows"][0]["runs"]) == (1, 3)


def test_nothing_to_measure_is_refused() -> None:
    with pytest.raises(UserError, match="nothing to measure"):
        measure_speculation(KnownDrafts(), plan_of(), threading.Event())


def test_everybody_who_can_draft_takes_part(tmp_path) -> None:
    trained = AdapterInfo(tmp_path, NGRAM, "counted", "a-target")
    keys = [one.key for one in contenders([trained])]
    assert len(set(keys)) == len(keys)
    assert {"model", "model-budgeted", "lookup", "ngram", "self", "model-prefill-from-load"} <= set(keys)


def test_everybody_who_needs_no_training_is_measured_unasked() -> None:
    """Under the name by which the theory page finds what was measured."""
    named = {one.name: one.speculation.drafter for one in contenders([])}
    assert set(named.values()) == {key for key, kind in DRAFTERS.items() if not kind.is_trained}
    assert all(named[kind.contender] == key for key, kind in DRAFTERS.items() if not kind.is_trained)
