"""One target per parser: what reads a file, and the good files to begin from.

A target may read a file or refuse it with a UserError; anything else that comes out of it is a finding.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from evprof.core.errors import UserError
from evprof.loaders.videos.source import MAX_READ_BYTES
from fuzz import seeds


@dataclass(frozen=True)
class Target:
    """`name` for people, `suffix` of the file that is read, `read` reads it, `good` makes files to begin from.

    `needs` are modules without which it is left out. `spare_bytes`: what any file may take, however small.
    """

    name: str
    suffix: str
    read: Callable[[Path], object]
    good: Callable[[], list[bytes]]
    needs: tuple[str, ...] = ()
    spare_bytes: int = 256 << 20


def read_events(path: Path) -> None:
    from evprof.loaders.events.opening import open_recording
    from evprof.loaders.inspection import survey
    from evprof.loaders.pictures.render import render_event_frames

    with open_recording(path) as recording:
        info = recording.info
        for ask in (
            lambda: survey(recording),
            lambda: render_event_frames(recording.read(), 2),
            lambda: recording.read_time((info.t_min_us or 0), (info.t_min_us or 0) + 1_000),
            lambda: recording.read_time(-(2**62), 2**62),
            recording.origin_us,
        ):
            with contextlib.suppress(UserError):
                ask()


def read_video(path: Path) -> None:
    from evprof.loaders.videos.opening import open_video

    with open_video(path) as video:
        video.index()
        video.info()
        video.read_uniform(3)
        video.read_at([0, 2**60, -(2**60)])


def read_picture(path: Path) -> None:
    from evprof.loaders.pictures.frame_folder import load_event_frames
    from evprof.loaders.videos.opening import open_video

    if path.suffix == ".png":
        load_event_frames(path.parent)
    with open_video(path.parent) as video:
        video.read_uniform(2)


def probe_any(path: Path) -> None:
    from evprof.loaders.inspection import inspect_events
    from evprof.loaders.probe import probe

    if probe(path) == "events":
        inspect_events(path)


def read_manifest(path: Path) -> None:
    from evprof.loaders.manifests.manifest import is_manifest
    from evprof.loaders.manifests.manifest import read_manifest as read

    is_manifest(path)
    read(path)


def read_results(path: Path) -> None:
    from evprof.loaders.legacy.family import open_legacy

    file = open_legacy(path)
    reading = file.read()
    for _ in reading.rows():
        pass
    reading.problems.sentences(file.rows)


def read_trace(path: Path) -> None:
    from evprof.loaders.traces.reading import read_trace as read
    from evprof.metrics.traces.analysis import TraceAnalysis
    from evprof.metrics.traces.difference import trace_difference
    from evprof.metrics.traces.tables import trace_document, trace_summary

    analysis = TraceAnalysis(read(path))
    trace_summary(analysis)
    document = trace_document("fuzzed", analysis, trace_difference(analysis, analysis))
    json.dumps(document, allow_nan=False, ensure_ascii=False).encode()


def read_session(path: Path) -> None:
    from evprof.session.opened import open_session

    for run in open_session(path).runs.values():
        _ = run.spans, run.tokens, run.rounds


def read_times(path: Path) -> None:
    from evprof.loaders.videos.folder import read_times_us

    read_times_us(path)


def read_adapter(path: Path) -> None:
    from evprof.loaders.adapters import read_adapter as read

    read(str(path.parent))


def read_grid(path: Path) -> None:
    from evprof.loaders.json_lines import parse_toml
    from evprof.run.suites.spec import is_grid, parse_suite

    text = path.read_bytes().decode("utf-8", errors="replace")
    try:
        raw = json.loads(text) if text.startswith("{") else parse_toml(text)
    except (ValueError, RecursionError):
        return
    if is_grid(raw):
        parse_suite(raw, "fuzzed", family_of=lambda _: None)


def read_weights(path: Path) -> None:
    from engines.checkpoints.shards import safetensors_header

    safetensors_header(path)


def read_config(path: Path) -> None:
    from engines.families.networks import read_config as read

    read(path.parent)


def read_tokens(path: Path) -> None:
    from engines.tokens.tokenization import SentencePieceVocabulary

    vocabulary = SentencePieceVocabulary(path.read_bytes())
    vocabulary.decode(vocabulary.encode("What is seen here?"))


def _events(name: str, suffix: str, good: Callable[[], list[bytes]], *needs: str) -> Target:
    return Target(name, suffix, read_events, good, needs)


_MODEL = seeds.ASSETS / "models" / "evprof-tiny-eventgpt"
_ADAPTER = seeds.ASSETS / "adapters" / "evprof-tiny-ngram"

TARGETS: dict[str, Target] = {
    target.name: target
    for target in (
        _events("npy", ".npy", seeds.npy),
        _events("npz", ".npz", seeds.npz),
        _events("npz-bins", ".npz", seeds.npz_bins),
        _events("hdf5", ".h5", seeds.hdf5, "h5py", "hdf5plugin"),
        *(_events(form, ".raw", partial(seeds.raw, form)) for form in ("evt2", "evt2.1", "evt3")),
        _events("dat", ".dat", partial(seeds.raw, "dat")),
        _events("aedat2", ".aedat", seeds.aedat2),
        _events("aedat3", ".aedat", seeds.aedat3),
        _events("aedat4", ".aedat4", seeds.aedat4, "faery"),
        _events("rosbag", ".bag", seeds.rosbag, "rosbags", "lz4"),
        _events("es", ".es", seeds.event_stream),
        _events("text", ".csv", seeds.texts),
        _events("n-caltech", ".bin", seeds.ncaltech),
        *(
            Target(form, f".{suffix}", read_picture, partial(seeds.pictures, form))
            for form, suffix in (("png", "png"), ("bmp", "bmp"), ("tiff", "tiff"), ("jpeg", "jpg"), ("webp", "webp"))
        ),
        *(
            Target(form, f".{form}", read_video, partial(seeds.videos, form), ("av",), MAX_READ_BYTES)
            for form in ("mp4", "mkv", "ts", "avi", "webm", "gif")
        ),
        *(
            Target(f"list-{form}", f".{form}", read_manifest, partial(seeds.manifests, form))
            for form in ("csv", "json")
        ),
        Target("results", ".json", read_results, seeds.results),
        *(
            Target(f"results-{program}", ".jsonl", read_results, partial(seeds.serving, program))
            for program in ("vllm", "sglang", "aiperf")
        ),
        Target("trace", ".json", read_trace, seeds.traces),
        Target("session", ".evprof", read_session, seeds.sessions),
        Target("times", ".txt", read_times, lambda: [b"0\n33000\n66000.5\n", b"1.5\n2.5\n"]),
        Target("adapter", "adapter.json", read_adapter, lambda: seeds.files([_ADAPTER / "adapter.json"])),
        Target("head", "config.json", read_adapter, seeds.heads),
        Target("suite", ".toml", read_grid, seeds.grids),
        Target("any", ".any", probe_any, lambda: [*seeds.npy()[:1], *seeds.traces(), *seeds.texts()[:1]]),
        Target(
            "safetensors",
            ".safetensors",
            read_weights,
            lambda: [path.read_bytes()[:20_000] for path in sorted(_ADAPTER.parent.rglob("*.safetensors"))[:2]],
            ("torch",),
        ),
        Target("config", "config.json", read_config, lambda: seeds.files([_MODEL / "config.json"]), ("torch",)),
        Target("tokenizer", ".model", read_tokens, lambda: seeds.files([_MODEL / "tokenizer.model"]), ("torch",)),
    )
}
