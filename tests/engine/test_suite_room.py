"""Whether a suite's models stay loaded together, by arithmetic alone."""

from __future__ import annotations

from engines.fit.suite_check import SuiteRoom
from engines.hardware.device import AssumedMachine
from evprof.core.units import MIB
from evprof.run.suites.cell import SuiteConfiguration
from evprof.run.suites.spec import parse_suite

PAIR = {"draft": "random:7b-eventgpt", "target": "random:7b-llava"}


def cells(**settings: object) -> tuple[SuiteConfiguration, ...]:
    return parse_suite({"settings": {"mode": "side-by-side", **settings}}, "grid").cells


def test_a_seven_billion_pair_stays_on_a_card_of_forty_and_not_of_twenty_four() -> None:
    asked = cells(**PAIR)
    assert SuiteRoom(AssumedMachine(40 << 30)).fits(asked)
    assert not SuiteRoom(AssumedMachine(24_000 * MIB)).fits(asked)


def test_the_same_weights_count_once_and_other_dtypes_again() -> None:
    room = SuiteRoom(AssumedMachine(20 << 30))
    one = parse_suite({"settings": {"mode": "draft", **PAIR}, "axes": {"event_frames": [1, 5]}}, "grid")
    two = parse_suite({"settings": {"mode": "draft", **PAIR}, "axes": {"dtype": ["bfloat16", "float16"]}}, "grid")
    assert room.fits(one.cells)
    assert not room.fits(two.cells)


def test_contexts_are_passed_by_frames() -> None:
    room = SuiteRoom(AssumedMachine(40 << 30))
    raw = {"settings": {"mode": "target", "target": "evprof-tiny-video-llava"}, "axes": {"frames": [8, 64]}}
    few, many = parse_suite(raw, "grid").cells
    assert room.past_context(few) is None
    sentence = room.past_context(many)
    assert sentence is not None
    assert "2,048 positions" in sentence


def test_a_model_that_is_not_there_is_left_to_its_rows() -> None:
    room = SuiteRoom(AssumedMachine(40 << 30))
    (cell,) = parse_suite({"settings": {"mode": "draft", "draft": "/nowhere/at/all"}}, "grid").cells
    assert room.fits([cell])
    assert room.past_context(cell) is None
    assert room.family_of("/nowhere/at/all") is None
    assert room.family_of("random:7b-eventgpt") == "eventgpt"
