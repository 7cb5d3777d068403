"""Kept frames: the same as decoded ones, within a bound, and never what something damaged or foreign holds."""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evprof.core.errors import UserError
from evprof.loaders.pictures.png import encode_png
from evprof.loaders.videos import content_index
from evprof.loaders.videos.frame_cache import FrameCache
from evprof.loaders.videos.opening import open_video
from evprof.loaders.videos.source import VideoFrames, VideoInfo


@pytest.fixture
def cache(tmp_path: Path) -> FrameCache:
    return FrameCache(tmp_path / "kept")


def some_frames(value: int = 7, count: int = 3) -> VideoFrames:
    info = VideoInfo("h264", 90, 20, 10, 3000.0, 12, 90, 5, ("a sentence",))
    frames = [np.full((10, 20, 3), value + n, np.uint8) for n in range(count)]
    return VideoFrames(frames, [4 * n for n in range(count)], [n * 1000 for n in range(count)], info, "pyav")


def equal(first: VideoFrames, second: VideoFrames | None) -> bool:
    return (
        second is not None
        and (first.indices, first.times_us, first.info, first.decoder)
        == (second.indices, second.times_us, second.info, second.decoder)
        and len(first.frames) == len(second.frames)
        and all((a == b).all() and b.dtype == np.uint8 for a, b in zip(first.frames, second.frames, strict=True))
    )


def kept_bytes(cache: FrameCache) -> int:
    return sum(path.stat().st_size for path in cache.folder.glob("*.frames"))


def test_what_was_put_comes_back(videos: dict[str, Path], cache: FrameCache) -> None:
    with open_video(videos["gop12"]) as video:
        fresh = video.read_uniform(8, (500_000, 2_000_000))
    key = cache.key(videos["gop12"], count=8, window_us=(500_000, 2_000_000))
    assert cache.get(key) is None
    cache.put(key, fresh)
    assert equal(fresh, cache.get(key))
    assert kept_bytes(cache) > sum(frame.nbytes for frame in fresh.frames)
    # Another program later.
    assert equal(fresh, FrameCache(cache.folder).get(key))


def test_frames_that_repeat_are_kept_once(videos: dict[str, Path], cache: FrameCache) -> None:
    with open_video(videos["one"]) as video:
        fresh = video.read_uniform(50)
    cache.put("k", fresh)
    assert equal(fresh, cache.get("k"))
    assert kept_bytes(cache) < 2 * fresh.frames[0].nbytes


def test_keys_differ_with_all_that_frames_depend_on(videos: dict[str, Path], tmp_path: Path, cache: FrameCache) -> None:
    copy = tmp_path / "other name.mp4"
    shutil.copy(videos["gop12"], copy)
    base = cache.key(videos["gop12"], count=8)
    assert cache.key(copy, count=8) == base == cache.key(videos["gop12"], count=8)
    others = [
        cache.key(videos["gop12"], count=9),
        cache.key(videos["gop12"], count=8, window_us=(0, 1)),
        cache.key(videos["gop12"], count=8, window_us=(0, 2)),
        cache.key(videos["mkv"], count=8),
    ]
    assert len({base, *others}) == 5


def test_a_changed_file_has_another_key(tmp_path: Path, cache: FrameCache) -> None:
    path = tmp_path / "video.mp4"
    path.write_bytes(b"a" * 1000)
    before, stat = cache.key(path, count=1), path.stat()
    path.write_bytes(b"b" * 1000)
    # Even with size and modification time as they were.
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert cache.key(path, count=1) != before


def test_pictures_and_their_times_are_part_of_the_key(tmp_path: Path, cache: FrameCache) -> None:
    folder = tmp_path / "drive"
    folder.mkdir()
    for number in range(3):
        (folder / f"{number}.png").write_bytes(encode_png(np.full((4, 4, 3), number, np.uint8)))
    times = tmp_path / "t.txt"
    times.write_text("0\n1\n2\n")
    keys = {cache.key(folder, count=2), cache.key(folder, count=2, times_path=times)}
    times.write_text("0\n1\n3\n")
    keys.add(cache.key(folder, count=2, times_path=times))
    (folder / "3.png").write_bytes(encode_png(np.zeros((4, 4, 3), np.uint8)))
    keys.add(cache.key(folder, count=2))
    keys.add(cache.key(folder / "*.png", count=2, times_path=times))
    (folder / "times.txt").write_text("0\n4\n9\n12\n")
    keys.add(cache.key(folder, count=2))
    assert len(keys) == 6
    with pytest.raises(UserError, match=r"gone\.mp4"):
        cache.key(tmp_path / "gone.mp4", count=2)


def test_a_file_is_hashed_once(tmp_path: Path, cache: FrameCache, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "video.mp4"
    path.write_bytes(b"a" * 1000)
    key = cache.key(path, count=1)
    monkeypatch.setattr(content_index, "content_hash", lambda _: pytest.fail("hashed again"))
    assert FrameCache(cache.folder).key(path, count=1) == key
    monkeypatch.undo()
    for damage in (b"", b"{", b"[1]", b'{"a": 1}', b"\xff" * 20, b"[" * 100_000):
        (cache.folder / "contents.json").write_bytes(damage)
        assert cache.key(path, count=1) == key


def test_the_bound_holds_and_the_one_used_longest_ago_goes(tmp_path: Path) -> None:
    one = FrameCache(tmp_path / "one")
    one.put("a", some_frames())
    size = kept_bytes(one)
    cache = FrameCache(tmp_path / "kept", limit_bytes=3 * size)
    for age, key in enumerate("abc"):
        cache.put(key, some_frames())
        os.utime(cache.folder / f"{key}.frames", (1000 + age, 1000 + age))
    assert cache.get("a") is not None
    cache.put("d", some_frames())
    assert [key for key in "abcd" if cache.get(key) is not None] == ["a", "c", "d"]
    assert kept_bytes(cache) == 3 * size
    small = FrameCache(tmp_path / "small", limit_bytes=size - 1)
    small.put("a", some_frames())
    assert small.get("a") is None


@given(data=st.data())
def test_a_damaged_entry_is_a_miss(cache: FrameCache, data: st.DataObject) -> None:
    fresh = some_frames()
    cache.put("a", fresh)
    path = cache.folder / "a.frames"
    whole = bytearray(path.read_bytes())
    place = data.draw(st.integers(0, len(whole) - 1))
    match data.draw(st.sampled_from(["cut", "flip", "fill"])):
        case "cut":
            del whole[place:]
        case "flip":
            whole[place] ^= data.draw(st.integers(1, 255))
        case _:
            whole[place : place + 8] = b"\xff" * len(whole[place : place + 8])
    is_changed = bytes(whole) != path.read_bytes()
    path.write_bytes(whole)
    found = cache.get("a")
    assert (found is None) == is_changed
    assert path.exists() == (not is_changed)


def test_nothing_kept_is_ever_carried_out(cache: FrameCache, tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return os.mkdir, (str(tmp_path / "trapped"),)

    cache.put("a", some_frames())
    for name in ("a.frames", "contents.json"):
        (cache.folder / name).write_bytes(pickle.dumps(Trap()))
    assert cache.get("a") is None
    assert not (tmp_path / "trapped").exists()


def test_what_an_ended_program_left_is_cleared_away(cache: FrameCache) -> None:
    cache.put("a", some_frames())
    (cache.folder / "old.part").write_bytes(b"x")
    (cache.folder / "new.part").write_bytes(b"x")
    os.utime(cache.folder / "old.part", (time.time() - 7200,) * 2)
    cache.put("b", some_frames())
    assert not (cache.folder / "old.part").exists()
    assert (cache.folder / "new.part").exists()


PROGRAM = """
import sys
from pathlib import Path
import numpy as np
from evprof.loaders.videos.frame_cache import FrameCache
from evprof.loaders.videos.source import VideoFrames, VideoInfo

cache = FrameCache(Path(sys.argv[1]), limit_bytes=200_000)
info = VideoInfo("h264", 90, 64, 64, 3000.0, 12)
hits = 0
for turn in range(150):
    value = turn % 12
    found = cache.get(f"k{value}")
    if found is None:
        frames = [np.full((64, 64, 3), value + n, np.uint8) for n in range(2)]
        cache.put(f"k{value}", VideoFrames(frames, [0, 1], [0, 1], info))
    else:
        hits += 1
        assert [int(frame.max()) for frame in found.frames] == [value, value + 1], value
        assert [int(frame.min()) for frame in found.frames] == [value, value + 1], value
print(hits)
"""


def test_two_programs_share_it(tmp_path: Path) -> None:
    programs = [
        subprocess.Popen([sys.executable, "-c", PROGRAM, str(tmp_path)], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    answers = [program.communicate(timeout=300)[0] for program in programs]
    assert [program.returncode for program in programs] == [0, 0]
    assert sum(int(answer) for answer in answers) > 0
    assert kept_bytes(FrameCache(tmp_path)) <= 200_000
    assert not list(tmp_path.glob("*.part"))
