"""Two sides that read the same samples from other files are of the same scenes."""

from __future__ import annotations

from evprof.metrics.estimates.estimates import ratio_of
from evprof.metrics.estimates.observations import Observation, shared


def _side(folder: str, factor: float) -> list[Observation]:
    return [
        Observation(factor * (10.0 + place % 3), f"s{place}", f"{folder}/s{place}", "one", float(place))
        for place in range(4)
    ]


def test_a_sample_is_of_one_scene_whatever_file_was_read() -> None:
    base, other = shared(_side("events", 1.0), _side("drawn", 2.0))
    assert base.scenes == other.scenes


def test_recordings_are_compared_with_frames_drawn_from_them() -> None:
    found = ratio_of(_side("events", 1.0), _side("drawn", 2.0))
    assert found is not None
    assert found.value == 2.0
