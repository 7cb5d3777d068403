"""Painted videos of many kinds, and files that are damaged in many ways."""

from __future__ import annotations

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
