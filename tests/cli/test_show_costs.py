"""`evprof show --costs` for people: caches by origin, frames, and how stages grow."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")


@pytest.mark.usefixtures("computed")
def test_costs_are_told_for_people(evprof, inputs, tmp_path) -> None:
    path = tmp_path / "s.evprof"
    for frames in (2, 4):
        assert evprof("run", "--frames", frames, "--max-new-tokens", 4, "-o", path).code == 0
    told = evprof("show", path, "--costs").output
    assert "by formula, measured" in told
    assert "each of 4 frames" in told
    assert "shared by all" in told, "EventGPT's spatial means are no frame's own"
    assert "over frames: 2 runs" in told
    assert "one run at each of 2 numbers of frames: too few runs" in told
    one = evprof("show", path).output
    assert "over frames" not in one
