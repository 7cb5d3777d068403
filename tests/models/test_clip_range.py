"""Parts of samples: arithmetic of what hands do on the scrubber, clips cut of a whole, and what is said of them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evprof.core.sample import Sample
from ui.players.clip_range import BEGIN, BODY, END, LEAST_US, NOTHING, ClipRange, ScrubScale
from ui.samples.clip_choice import clip_of, obstacle, with_clip
from ui.settings.request_form import RequestForm

SAMPLE = Sample("/data/drive.h5", "/data/drive.mp4", name="drive", video_offset_us=1_200_000)
WHOLE = ClipRange(12_000_000)


def test_from_here() -> None:
    clip = WHOLE.from_here(1_200_000, 50_000)
    assert (clip.start_us, clip.length_us, clip.words) == (1_200_000, 50_000, "50 ms at 1.20 s")
    assert WHOLE.from_here(11_990_000, 50_000).begin_us == 11_950_000, "moved back so that it is whole"
    assert WHOLE.from_here(0, 50_000) == ClipRange(12_000_000, None, 50_000)
    rest = WHOLE.from_here(3_000_000, None)
    assert (rest.start_us, rest.length_us, rest.words) == (3_000_000, None, "from 3.00 s")
    assert WHOLE.from_here(5_000_000, 20_000_000).is_all
    assert clip.from_here(0, None).is_all


def test_handles_do_not_pass_each_other() -> None:
    clip = WHOLE.from_here(2_000_000, 1_000_000)
    assert clip.with_begin(10_000_000).begin_us == 3_000_000 - LEAST_US
    assert clip.with_end(0).end_us == 2_000_000 + LEAST_US
    assert clip.with_end(99_000_000) == ClipRange(12_000_000, 2_000_000, None)
    assert clip.with_begin(-5) == ClipRange(12_000_000, None, 3_000_000)
    assert clip.with_begin(0).with_end(12_000_000).is_all


moments = st.integers(-(10**6), 30_000_000)


@given(moments, moments, moments, st.integers(LEAST_US, 5_000_000))
def test_whatever_hands_do_is_a_part_of_the_whole(first: int, second: int, third: int, length: int) -> None:
    clip = WHOLE.from_here(max(0, min(first, WHOLE.whole_us)), length)
    for changed in (
        clip.with_begin(second),
        clip.with_end(second),
        clip.moved(third),
        clip.with_begin(second).with_end(third),
    ):
        assert 0 <= changed.begin_us < changed.end_us <= WHOLE.whole_us
        sample = with_clip(SAMPLE, changed)
        sample.validate()
        assert clip_of(sample, WHOLE.whole_us) == changed
    assert clip.is_all or clip.moved(third).end_us - clip.moved(third).begin_us == clip.end_us - clip.begin_us


def test_scale_and_grips() -> None:
    scale = ScrubScale(0, 12_000_000, 624)
    assert [scale.x(0), scale.x(12_000_000)] == [12, 612]
    assert scale.time_us(scale.x(3_000_000)) == 3_000_000
    assert (scale.time_us(-50), scale.time_us(9000)) == (0, 12_000_000)
    clip = WHOLE.from_here(3_000_000, 3_000_000)
    left, right = scale.edges(clip)
    assert [scale.part_at(x, clip) for x in (left - 4, left + 30, right + 4, right + 20)] == [BEGIN, BODY, END, NOTHING]
    tiny = WHOLE.from_here(3_000_000, 50_000)
    left, right = scale.edges(tiny)
    assert right - left >= 2
    assert (scale.part_at(left - 4, tiny), scale.part_at(right + 4, tiny)) == (BEGIN, END)
    assert [scale.part_at(x, WHOLE) for x in (9, 300, 616)] == [BEGIN, NOTHING, END]


def test_a_video_that_begins_before_the_events_has_its_place() -> None:
    scale = ScrubScale(-2_000_000, 8_000_000, 1024)
    assert scale.x(0) == 12 + 200
    assert scale.time_us(scale.x(-1_000_000)) == -1_000_000


@pytest.mark.parametrize(
    ("shown", "whole_us", "words"),
    [
        (SAMPLE, 10, ""),
        (None, 10, "Open a sample"),
        (SAMPLE, 0, "not known yet"),
        (replace(SAMPLE, events_path="/data/other.h5"), 10, "other files"),
        (with_clip(SAMPLE, WHOLE.from_here(5, 50_000)), 10, ""),
    ],
)
def test_why_no_part_can_be_chosen(shown: Sample | None, whole_us: int, words: str) -> None:
    found = obstacle(shown, SAMPLE, whole_us)
    assert words in found
    assert bool(found) == bool(words)


def test_events_that_complete_a_video_begin_without_its_clip() -> None:
    form = RequestForm()
    form.open_video("/data/drive.mp4")
    form.sample = with_clip(form.sample, WHOLE.from_here(2_000_000, 1_000_000))
    assert not form.open_events("/data/drive.h5").is_clip
    form.sample = with_clip(Sample("/data/drive.h5"), WHOLE.from_here(2_000_000, 1_000_000))
    assert form.open_video("/data/drive.mp4").start_us == 2_000_000
