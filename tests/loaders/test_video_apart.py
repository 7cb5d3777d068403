"""Videos decoded in a process of their own: the same frames, and a sentence where that process does not survive."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from evprof.core.errors import UserError
from evprof.loaders.videos.apart import ApartVideo, Helpers, decode_here, is_kept_apart, keep_apart
from evprof.loaders.videos.file import VideoFile
from evprof.loaders.videos.opening import SeekableVideo, open_video
from evprof.loaders.videos.source import VideoFrames
from painted_videos import write_video

SERVER = [sys.executable, "-c", "from evprof.loaders.videos.apart_server import main; main()"]


@pytest.fixture(autouse=True)
def _apart(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    keep_apart(SERVER)
    yield
    decode_here()
    assert not is_kept_apart()


def same(one: VideoFrames, other: VideoFrames) -> bool:
    facts = [(each.indices, each.times_us, each.info, each.decoder) for each in (one, other)]
    return facts[0] == facts[1] and all(map(np.array_equal, one.frames, other.frames))


@pytest.mark.parametrize("name", ["gop12", "mkv", "avi", "ts", "vp8", "vfr", "raw"])
def test_everything_is_as_if_decoded_here(videos: dict[str, Path], name: str) -> None:
    with open_video(videos[name]) as there, VideoFile(videos[name]) as here:
        assert isinstance(there, ApartVideo)
        one, other = there.index(), here.index()
        assert one.pts.tolist() == other.pts.tolist()
        assert one.key_indices.tolist() == other.key_indices.tolist()
        assert (one.duration_us, one.gop_frames, one.is_timed) == (other.duration_us, other.gop_frames, other.is_timed)
        assert there.info() == here.info()
        assert same(there.read_uniform(4), here.read_uniform(4))
        assert same(there.read_uniform(3, (100_000, 500_000)), here.read_uniform(3, (100_000, 500_000)))
        assert same(there.read_at([0, 2**60, 40_000, 40_000]), here.read_at([0, 2**60, 40_000, 40_000]))
        assert there.bytes_read > 0


def test_a_player_shows_the_same_pictures(videos: dict[str, Path]) -> None:
    there = SeekableVideo(videos["gop250"], longest_edge=80)
    decode_here()
    here = SeekableVideo(videos["gop250"], longest_edge=80)
    assert there.duration_us == here.duration_us
    for time_us in (0, 40_000, 9_000_000, 4_000_000, 3_960_000, 10**12):
        one, other = there.frame_at(time_us), here.frame_at(time_us)
        assert (one.index, one.time_us) == (other.index, other.time_us)
        assert np.array_equal(one.picture, other.picture)
        assert max(one.picture.shape) <= 80
    there.close()
    here.close()


def test_refusals_are_the_same_sentences(videos: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "no.mp4").write_bytes(b"no video" * 100)
    cut = tmp_path / "cut.mp4"
    cut.write_bytes(videos["faststart"].read_bytes()[:-3000])
    for path in (tmp_path / "no.mp4", cut, tmp_path / "gone.mp4"):
        said = []
        for opened in (ApartVideo, VideoFile):
            with pytest.raises(UserError) as caught, opened(path) as video:
                video.read_uniform(3)
            said.append(caught.value.sentence)
        assert said[0] == said[1]
    with open_video(videos["mkv"]) as video, pytest.raises(UserError, match="shows no frame"):
        video.read_uniform(3, (10**9, 2 * 10**9))


def helper_of(video: ApartVideo) -> subprocess.Popen[bytes]:
    return video._helper.process


def test_a_crash_costs_one_video_and_a_sentence(videos: dict[str, Path]) -> None:
    with ApartVideo(videos["mkv"]) as video:
        video.index()
        helper_of(video).send_signal(signal.SIGSEGV)
        for _ in range(2):
            with pytest.raises(UserError, match=r"plain\.mkv: the program that decodes it crashed \(SIGSEGV\)"):
                video.read_uniform(3)
    with ApartVideo(videos["mkv"]) as video:
        assert len(video.read_uniform(3).frames) == 3


@pytest.mark.parametrize("size", [(346, 260), (161, 121), (168, 120)])
def test_rows_that_the_decoder_pads_arrive_whole(tmp_path: Path, size: tuple[int, int]) -> None:
    path = write_video(tmp_path / "odd.mkv", 6, codec="mpeg4", size=size)
    with ApartVideo(path) as there, VideoFile(path) as here:
        frames = here.read_uniform(3)
        assert same(there.read_uniform(3), frames)
        assert all(frame.flags.c_contiguous for frame in frames.frames)


def test_our_own_exception_is_not_blamed_on_the_video(videos: dict[str, Path]) -> None:
    failing = [sys.executable, "-c", "import sys; sys.stdin.readline(); raise TypeError('ours')"]
    with pytest.raises(UserError, match="ended with code 1; this is a fault of evprof, not of the video"):
        ApartVideo(videos["mkv"], Helpers(failing))


@pytest.mark.parametrize("limit", ["-t 120", "-v 4000000"])
def test_hard_limits_of_a_shell_are_kept(videos: dict[str, Path], limit: str) -> None:
    limited = ["bash", "-c", f"ulimit {limit}; exec {sys.executable} -c '{SERVER[2]}'"]
    helpers = Helpers(limited)
    with ApartVideo(videos["mkv"], helpers) as video:
        assert len(video.read_uniform(3).frames) == 3
    helpers.end()


def test_what_takes_for_ever_is_given_up(videos: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    with ApartVideo(videos["mkv"]) as video:
        helper_of(video).send_signal(signal.SIGSTOP)
        video._seconds = 0.3
        with pytest.raises(UserError, match="took longer than"):
            video.index()


def test_helpers_are_used_again_and_do_not_outlive_their_program(videos: dict[str, Path]) -> None:
    processes = []
    for _ in range(3):
        with ApartVideo(videos["mkv"]) as video:
            video.info()
            processes.append(helper_of(video))
    assert len({process.pid for process in processes}) == 1
    decode_here()
    assert processes[0].poll() is not None
    program = f"""
from evprof.loaders.videos.apart import ApartVideo, keep_apart
import os, sys
keep_apart({SERVER!r})
video = ApartVideo({str(videos["mkv"])!r})
print(video._helper.process.pid, flush=True)
os._exit(9)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    pid = int(done.stdout)
    for _ in range(400):
        try:
            os.kill(pid, 0)
            state = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").split()[2]
        except (ProcessLookupError, FileNotFoundError):
            break
        if state == "Z":
            break
        time.sleep(0.05)
    else:
        pytest.fail("the helper is still there")


def test_a_video_that_was_refused_is_opened_anew(videos: dict[str, Path]) -> None:
    decode_here()
    with VideoFile(videos["ts"]) as video, VideoFile(videos["ts"]) as other:
        for ask in (
            lambda video: video.read_at([0]).frames[0],
            lambda video: video.read_uniform(2).frames[1],
            lambda video: video.to_rgb(video.frame(3)),
        ):
            refused = video._track.container
            with pytest.raises(UserError), video._track.sentences():
                raise ValueError("refused")
            assert np.array_equal(ask(video), ask(other))
            assert video._track.container is not refused
