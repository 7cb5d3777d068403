"""`run.py video`: evenly spread frames read by evprof, by fixed strategies and by libraries, in turns.

Every frame that comes is recognised by the number painted into it. It knows no container; see `video_clips`.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any

from benchmarks.environment import environment
from benchmarks.video_clips import CLIPS, Clip, number_of, write_clip
from benchmarks.video_readers import FULL, OURS, READERS, SEEK, Reader, why_missing
from evprof.core.units import times_text
from evprof.loaders.pictures.frame_folder import uniform_indices
from evprof.run.benches.choice import check_repeat, chosen

FRAMES = 8

SHORT_GOP = 12
"""Up to this many frames from key frame to key frame, seeking must pay."""

_LARGE_PIXELS = 1 << 19
_LIBRARIES = ("av", "opencv-python-headless", "opencv-python", "decord", "torchcodec", "torch")

Note = Callable[[str], None]


def measure_video(
    rounds: int,
    note: Note = lambda _: None,
    *,
    large: bool = True,
    only: Sequence[str] = (),
    clips: Sequence[Clip] = CLIPS,
) -> dict[str, Any]:
    """`environment`, `settings`, `rows` (one per clip and way) and `summary`; `note` hears how far it is.

    `large` False leaves out 720p; `only` are names of clips, or words in them. Raises UserError.
    """
    check_repeat(rounds)
    asked = _asked(clips, only, large)
    missing = {reader.needs: why_missing(reader.needs) for reader in READERS}
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="evprof-bench-") as name:
        for number, clip in enumerate(asked):
            path = Path(name) / f"clip{clip.suffix}"
            note(f"{number + 1} of {len(asked)}: encoding {clip.name}.")
            write_clip(path, clip)
            found = _clip_rows(clip, path, rounds, missing)
            path.unlink()
            rows += found
            note(f"{number + 1} of {len(asked)}: {_told(clip, found)}")
    return {
        "environment": environment(_LIBRARIES),
        "settings": {"frames": FRAMES, "rounds": rounds, "large": large},
        "rows": rows,
        "summary": _summary(rows),
    }


def _asked(clips: Sequence[Clip], only: Sequence[str], large: bool) -> list[Clip]:
    named = chosen(clips, only, "clip", attrgetter("name"), lambda clip, word: word in clip.name)
    return [clip for clip in named if large or clip.width * clip.height < _LARGE_PIXELS]


def _clip_rows(clip: Clip, path: Path, rounds: int, missing: dict[str, str | None]) -> list[dict[str, Any]]:
    """The rows of one clip: who takes part takes turns, in an order that changes with every round."""
    expected = uniform_indices(clip.frames, FRAMES).tolist()
    readers = [reader for reader in READERS if missing[reader.needs] is None]
    times_ms: dict[str, list[float]] = {reader.name: [] for reader in READERS}
    exact: dict[str, bool] = {}
    failed: dict[str, str] = {}
    # A first turn that counts for nobody: imports, the page cache, threads that libraries start.
    for turn in range(-1, rounds):
        place = turn % max(1, len(readers))
        for reader in readers[place:] + readers[:place]:
            if reader.name in failed:
                continue
            began = time.perf_counter()
            try:
                frames = reader.read(path, FRAMES)
            except Exception as error:
                # A library may fail in any way; its row says so.
                if reader.kind == OURS:
                    raise
                failed[reader.name] = f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"
                continue
            took_ms = (time.perf_counter() - began) * 1000
            is_exact = [number_of(frame) for frame in frames] == expected
            exact[reader.name] = exact.get(reader.name, True) and is_exact
            if turn >= 0:
                times_ms[reader.name].append(took_ms)
    ours = statistics.median(times_ms[OURS])
    return [
        _row(clip, path, reader, times_ms[reader.name], ours)
        | {
            "exact": exact.get(reader.name) if reader.name not in failed else None,
            "reason": missing[reader.needs] or failed.get(reader.name),
        }
        for reader in READERS
    ]


def _row(clip: Clip, path: Path, reader: Reader, times_ms: Sequence[float], ours_ms: float) -> dict[str, Any]:
    median_ms = statistics.median(times_ms) if times_ms else None
    return {
        "clip": clip.name,
        "width": clip.width,
        "height": clip.height,
        "frames": clip.frames,
        "gop_frames": clip.gop,
        "file_bytes": path.stat().st_size,
        "reader": reader.name,
        "kind": reader.kind,
        "median_ms": median_ms,
        "best_ms": min(times_ms, default=None),
        "ours_vs_this": None if median_ms is None else ours_ms / median_ms,
    }


def _summary(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    by_clip: dict[str, dict[str, Any]] = {}
    for row in rows:
        by_clip.setdefault(row["clip"], {"gop_frames": row["gop_frames"], "kinds": {}})
        if row["median_ms"] is not None:
            by_clip[row["clip"]]["kinds"].setdefault(row["kind"], []).append(row)
    clips = []
    for name, found in by_clip.items():
        ours = found["kinds"][OURS][0]["median_ms"]
        fixed = [*found["kinds"].get(FULL, []), *found["kinds"].get(SEEK, [])]
        best = min((row for row in fixed if row["exact"]), key=lambda row: float(row["median_ms"]))
        full = min(found["kinds"][FULL], key=lambda row: float(row["median_ms"]))
        clips.append(
            {
                "clip": name,
                "gop_frames": found["gop_frames"],
                "ours_ms": ours,
                "best_strategy": best["reader"],
                "best_strategy_ms": best["median_ms"],
                "ours_vs_best_strategy": ours / best["median_ms"],
                "full_decode_vs_ours": full["median_ms"] / ours,
            }
        )
    worst = max(clips, key=lambda clip: float(clip["ours_vs_best_strategy"]), default=None)
    short = [clip["full_decode_vs_ours"] for clip in clips if clip["gop_frames"] <= SHORT_GOP]
    return {
        "clips": clips,
        "worst_vs_best_strategy": worst["ours_vs_best_strategy"] if worst else None,
        "worst_clip": worst["clip"] if worst else None,
        "short_gop_vs_full_decode": min(short, default=None),
        "ours_is_exact": all(row["exact"] for row in rows if row["kind"] == OURS),
    }


def _told(clip: Clip, rows: Sequence[dict[str, Any]]) -> str:
    found = _summary(rows)["clips"][0]
    return (
        f"{clip.name}: {found['ours_ms']:.0f} ms, {times_text(found['ours_vs_best_strategy'])} the time of "
        f"{found['best_strategy']}."
    )
