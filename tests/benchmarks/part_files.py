"""Files that `run.py parts` reads: a manifest as a dataset's authors write it, and a file of results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def write_manifest(folder: Path, count: int) -> Path:
    """`count` samples in nine folders, in EventGPT's own JSON; the recordings are there and empty."""
    rows = []
    for number in range(count):
        stem = f"drive_{number % 9}/{number:06d}"
        for kind, suffix in (("event_npy", ".npy"), ("mp4", ".mp4")):
            path = folder / kind / f"{stem}{suffix}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        turns = [{"from": "human", "value": "<event>\nWhat?"}, {"from": "gpt", "value": "That. " * 40}]
        rows.append({"id": number, "event_data": f"{stem}.npy", "video_data": stem, "conversations": turns})
    path = folder / "all.json"
    path.write_text(json.dumps(rows, indent=2))
    return path


def write_results(path: Path, count: int) -> Path:
    """`count` samples of two models, as the scripts that compare one event frame with eight video frames write them."""
    sides = {"eventgpt": (0.0036, 0.0058, 0.0661, 0.0927), "videollava": (0.0786, 0.0294, 0.5681, 0.1439)}
    document: dict[str, Any] = {"config": {"eventgpt_frames": 1, "videollava_frames": 8}}
    for side, times in sides.items():
        samples = [_result(number, times) for number in range(count)]
        document[side] = {"stats": {"n_samples": count}, "samples": samples}
    path.write_text(json.dumps(document, indent=2))
    return path


def _result(number: int, times: tuple[float, ...]) -> dict[str, Any]:
    input_s, vision_s, prefill_s, decode_s = (time * (1 + 0.001 * (number * 7 % 5 - 2)) for time in times)
    return {
        "sample": number,
        "prefill_len": 636,
        "kv_cache_mb": 318.0,
        "stage12_time": input_s,
        "s3_time": vision_s,
        "s4_time": prefill_s,
        "s5_time": decode_s,
        "total_time": input_s + vision_s + prefill_s + decode_s,
    }
