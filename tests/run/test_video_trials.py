"""Videos of a suite are tried in a process of their own, so that one which ends it costs its own rows alone."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from evprof.core.errors import UserError
from evprof.core.sample import Sample
from evprof.loaders.videos.opening import open_video
from evprof.run.suites.ready import VideoTrials
from painted_videos import write_video

SERVER = [sys.executable, "-c", "from evprof.loaders.videos.apart_server import main; main()"]
CRASHING = [sys.executable, "-c", "import os, signal; input(); os.kill(os.getpid(), signal.SIGSEGV)"]


@pytest.fixture(autouse=True)
def _found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))


def trial(argv: list[str], *samples: Sample) -> None:
    trials = VideoTrials(argv)
    for sample in samples:
        trials.try_video(sample)
    trials.close()


def test_a_good_video_is_read_afterwards(tmp_path: Path) -> None:
    path = write_video(tmp_path / "a.mp4", 10)
    trial(SERVER, Sample(video_path=str(path)), Sample(video_path=str(path), start_us=10**9, duration_us=1))
    with open_video(path) as video:
        assert len(video.read_uniform(3).frames) == 3


def test_a_video_that_ends_its_decoder_is_not_opened_here(tmp_path: Path) -> None:
    path = write_video(tmp_path / "a.mp4", 10)
    trial(CRASHING, Sample(video_path=str(path)))
    with pytest.raises(UserError, match=r"a\.mp4: the program that decodes it crashed \(SIGSEGV\)"):
        open_video(path)
