"""Painted videos of many kinds, and files that are damaged in many ways."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from painted_videos import write_video


@pytest.fixture(scope="session")
def videos(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("videos")
    x264 = {"sc_threshold": "0", "preset": "veryfast"}
    return {
        "gop12": write_video(folder / "gop12.mp4", 100, gop=12, options=x264),
        "gop250": write_video(folder / "gop250.mp4", 300, gop=250, b_frames=3, options=x264),
        "open_gop": write_video(folder / "open.mp4", 90, gop=15, options={**x264, "x264-params": "open-gop=1"}),
        "mkv": write_video(folder / "plain.mkv", 80, gop=20, options=x264),
        "vfr": write_video(folder / "vfr.mp4", 60, gop=10, options=x264, ticks=lambda n: n * 33 + (n % 7) * 4),
        "avi": write_video(folder / "mpeg4.avi", 50, codec="mpeg4", b_frames=0),
        "ts": write_video(folder / "stream.ts", 50, gop=10, options=x264),
        "raw": write_video(folder / "bare.h264", 40, gop=10, options=x264),
        "vp8": write_video(
            folder / "altref.webm",
            60,
            gop=30,
            codec="libvpx",
            b_frames=0,
            options={"auto-alt-ref": "1", "lag-in-frames": "16", "deadline": "realtime", "b": "400k"},
        ),
        "faststart": write_video(folder / "front.mp4", 100, options=x264, container_options={"movflags": "faststart"}),
        "fragments": write_video(
            folder / "parts.mp4", 100, options=x264, container_options={"movflags": "frag_keyframe+empty_moov"}
        ),
        "one": write_video(folder / "one.mp4", 1, options=x264),
    }


def damaged(content: bytes, chance: random.Random) -> bytes:
    """Cut, flipped, doubled or filled in one to four places, more often near the start where the structure is."""
    whole = bytearray(content)
    for _ in range(chance.randint(1, 4)):
        if not whole:
            break
        limit = len(whole) if chance.random() < 0.5 else min(len(whole), 400)
        place = chance.randrange(limit)
        match chance.choice(["cut", "flip", "flip", "insert", "drop", "fill", "fill", "repeat"]):
            case "cut":
                del whole[place:]
            case "flip":
                whole[place] ^= chance.randint(1, 255)
            case "insert":
                whole[place:place] = chance.randbytes(chance.randint(1, 12))
            case "drop":
                del whole[place : place + chance.randint(1, 64)]
            case "repeat":
                whole[place:place] = whole[place : place + chance.randint(1, 300)]
            case _:
                whole[place : place + 8] = chance.choice([b"\xff" * 8, bytes(8), b"\x7f" + b"\xff" * 7, b"\xfe" * 4])
    return bytes(whole)


@pytest.fixture
def survives_damage(tmp_path: Path) -> Callable[..., dict[str, str]]:
    """Reads originals (file name -> content) and damaged variants of each in a child process; `kind`: events, video.

    Fails unless every one is read or refused in a sentence, within 10 x its size + 200 MB and 20 s. The originals must
    be read. Returns how each file ended.
    """

    def check(
        originals: Mapping[str, bytes], variants: int = 150, *, seed: int = 5, kind: str = "events"
    ) -> dict[str, str]:
        folder = tmp_path / "damaged"
        folder.mkdir()
        chance = random.Random(seed)
        for name, content in originals.items():
            (folder / f"good-{name}").write_bytes(content)
            for number in range(variants):
                (folder / f"bad-{number:03d}-{name}").write_bytes(damaged(content, chance))
        program = [sys.executable, str(Path(__file__).with_name("damaged_reading.py")), str(folder), kind]
        # The child finds evprof where this process does, which may have it in its path alone.
        paths = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run(program, capture_output=True, text=True, timeout=300, check=False, env=paths)
        # Some decompressors print their complaints among the lines.
        ended = dict(json.loads(line) for line in done.stdout.splitlines() if line.startswith("["))
        wrong = {name: how for name, how in ended.items() if how not in ("read", "refused")}
        assert not wrong, wrong
        assert done.returncode == 0, f"after {list(ended)[-1:]}: {done.stderr[-2000:]}"
        assert len(ended) == len(originals) * (variants + 1)
        refused = [name for name in originals if ended[f"good-{name}"] != "read"]
        assert not refused, f"{refused} should be read"
        return ended

    return check
