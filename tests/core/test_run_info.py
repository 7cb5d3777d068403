"""Facts of a run: to plain values and back, and growing as more is known."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from evprof.core.protocols import RequestEnded, RunDescribed, RunEnded, RunWarned, apply_to_info
from evprof.core.run_info import KvFacts, LengthFacts, MemoryFacts, ModelFacts, RunInfo, SetupFacts
from told import TINY_MODEL, told


def model(name: str = "m") -> ModelFacts:
    return replace(TINY_MODEL, name=name)


def full() -> RunInfo:
    return RunInfo(
        run_id=3,
        group_id=2,
        repeat=1,
        role="target",
        mode="speculative",
        **told({"gamma": 5}, {"prompt": "?"}),
        models={"draft": model("d"), "target": model("t")},
        setup={"draft": SetupFacts(weights_ms=1.5)},
        lengths={"target": LengthFacts(10, 1, 2, 7)},
        kv={"target": KvFacts(100, 128, [50, 50], 3)},
        memory=MemoryFacts(weights_bytes=20, by_stage={"vision": 9}),
        warnings=["w"],
    )


def test_json_and_back_is_the_same():
    assert RunInfo.from_json(json.loads(json.dumps(full().to_json()))) == full()


def test_a_newer_writer_may_say_more_and_an_older_one_less():
    values = full().to_json()
    values["mood"] = "good"
    values["models"]["draft"]["colour"] = "red"
    del values["warnings"], values["environment"]
    again = RunInfo.from_json(values)
    assert again.models == full().models
    assert (again.warnings, again.environment) == ([], {})


@pytest.mark.parametrize("as_plain", [True, False])
def test_roles_are_merged_one_by_one_and_everything_else_is_replaced(as_plain):
    known = full()
    news = {"models": {"draft": model("new")}, "memory": MemoryFacts(peak_rss_bytes=7), "text": "hello", "nonsense": 5}
    if as_plain:
        news["models"] = {"draft": model("new").to_json()}
        news["memory"] = MemoryFacts(peak_rss_bytes=7).to_json()
    known.merge(news)
    assert known.models == {"draft": model("new"), "target": model("t")}
    assert known.memory == MemoryFacts(peak_rss_bytes=7)
    assert known.text == "hello"
    assert not hasattr(known, "nonsense")


def test_messages_change_what_is_known():
    known = full()
    assert not known.is_over
    assert apply_to_info(RunDescribed(3, {"start_ns": 5}), known)
    assert apply_to_info(RunWarned(3, "second"), known)
    assert apply_to_info(RunEnded(3, "failed", "why", {"end_ns": 9}), known)
    assert not apply_to_info(RequestEnded(3), known)
    assert (known.start_ns, known.end_ns, known.status, known.error) == (5, 9, "failed", "why")
    assert known.warnings == ["w", "second"]
    assert known.is_over
