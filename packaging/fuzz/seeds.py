"""Small good files of each kind to begin from, made by our writers and by what the tests write files with."""

from __future__ import annotations

import gzip
import importlib.util
import inspect
import io
import json
import sys
import tempfile
from collections.abc import Callable, Iterable
from functools import cache, partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from evprof.core.events import EventArray
from made_traces import MadeTrace

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"
ASSETS = ROOT / "assets"

COUNT = 300
"""Events of a seed: mutations of longer ones take longer and find no more."""


def events(count: int = COUNT) -> EventArray:
    chance = np.random.default_rng(5)
    return EventArray(
        chance.integers(0, 64, count).astype(np.uint16),
        chance.integers(0, 48, count).astype(np.uint16),
        np.sort(chance.integers(0, 50_000, count)).astype(np.int64),
        chance.integers(0, 2, count).astype(np.uint8),
    )


def columns() -> dict[str, np.ndarray]:
    found = events()
    return {"x": found.x, "y": found.y, "t": found.t_us, "p": found.p}


@cache
def helpers(name: str) -> ModuleType:
    for folder in (str(TESTS), str(ROOT / "packaging")):
        if folder not in sys.path:
            sys.path.append(folder)
    spec = importlib.util.spec_from_file_location(f"seeds_{Path(name).name}", TESTS / f"{name}.py")
    if spec is None or spec.loader is None:
        raise FileNotFoundError(name)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def saved(save: Callable[..., Any], *arguments: Any, **named: Any) -> bytes:
    buffer = io.BytesIO()
    save(buffer, *arguments, **named)
    return buffer.getvalue()


def written(save: Callable[[Path], object], name: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        save(path)
        return path.read_bytes()


def npy() -> list[bytes]:
    named = columns()
    rows = np.empty(COUNT, [(name, column.dtype) for name, column in named.items()])
    for name, column in named.items():
        rows[name] = column
    table = np.stack([named[name] for name in "txyp"]).T
    return [saved(np.save, np.array(named), allow_pickle=True), saved(np.save, rows), saved(np.save, table)]


def npz() -> list[bytes]:
    return [saved(np.savez, **columns()), saved(np.savez_compressed, **columns())]


def npz_bins() -> list[bytes]:
    made = helpers("loaders/test_npz").bins(100, 0, 200)
    return [saved(np.savez, event_bins=made), saved(np.savez_compressed, event_bins=made)]


def hdf5() -> list[bytes]:
    damage = helpers("loaders/test_hdf5_damage")
    return [saved(damage.write, **damage.COMPRESSIONS[name]) for name in ("none", "gzip", "blosc")]


def raw(kind: str) -> list[bytes]:
    from evprof.loaders.writers import raw as writers

    size = {"width": 64, "height": 48}
    write: dict[str, tuple[Any, str]] = {
        "evt2": (writers.write_evt2, "a.raw"),
        "evt3": (writers.write_evt3, "a.raw"),
        "dat": (writers.write_dat, "a.dat"),
    }
    if kind in write:
        writer, name = write[kind]
        return [written(lambda path: writer(path, [events()], **size), name)]
    evt = helpers("loaders/test_evt")
    words = [evt.evt2_word(8, n // 4) if n % 4 == 0 else 7919 * n % 2**29 for n in range(COUNT)]
    wide = [word << 32 | (2_654_435_761 * n) % 2**32 for n, word in enumerate(words)]
    return [evt.packed("evt2.1", wide), evt.packed("legacy", wide)]


def aedat2() -> list[bytes]:
    made = helpers("loaders/test_aedat2")
    content = b"".join(made.davis(i % 346, i % 260, i * 7, i % 2) for i in range(COUNT))
    return [made.header(made.DAVIS346) + content, made.header(made.DVS128) + made.dvs(1, 2, 3, 1) * 50]


def aedat3() -> list[bytes]:
    made = helpers("loaders/test_aedat3")
    many = [made.packet([(i % 240, i % 180, i * 50 + j, j % 2) for j in range(20)]) for i in range(10)]
    return [made.HEADER + made.SPECIAL + b"".join(many) + made.FRAME[:300]]


def aedat4() -> list[bytes]:
    made = helpers("loaders/test_aedat4")
    return [
        written(partial(made.by_faery, events=made.made(COUNT), compression=compression, per_packet=60), "a.aedat4")
        for compression in made.COMPRESSIONS
    ]


def rosbag() -> list[bytes]:
    made = helpers("loaders/test_rosbag")
    topics = {"/imu": [bytes(30)] * 3, "/dvs/events": made.cut(made.made(COUNT), 5)}
    return [
        written(partial(made.bag, topics=topics, compression=compression, chunk_bytes=1_500), "a.bag")
        for compression in (None, "bz2", "lz4")
    ]


def event_stream() -> list[bytes]:
    made = helpers("loaders/test_event_stream")
    return [made.header() + made.packed(made.made(np.random.default_rng(1).integers(0, 200, COUNT)))]


def texts() -> list[bytes]:
    found = list(zip(*(column.tolist() for column in columns().values()), strict=True))
    named = "t,x,y,on\n" + "".join(f"{t},{x},{y},{p}\n" for x, y, t, p in found)
    sized = "64 48\n" + "".join(f"{t / 1e6:.6f} {x} {y} {p}\n" for x, y, t, p in found)
    signed = "".join(f"{x}, {y}, {2 * p - 1}, {t}\n" for x, y, t, p in found)
    return [named.encode(), sized.encode(), signed.encode(), gzip.compress(sized.encode())]


def ncaltech() -> list[bytes]:
    made = helpers("loaders/test_ncaltech")
    return [b"".join(made.record(*event) for event in made.many(COUNT))]


def pictures(form: str) -> list[bytes]:
    from PIL import Image

    picture = Image.fromarray(np.random.default_rng(2).integers(0, 255, (24, 32, 3), dtype=np.uint8))
    modes = ("RGB", "P", "L") if form in ("png", "tiff", "bmp") else ("RGB",)
    return [saved(picture.convert(mode).save, format=form) for mode in modes]


def videos(suffix: str) -> list[bytes]:
    painted = helpers("painted_videos")
    options: dict[str, Any] = {"gop": 5, "options": {"preset": "veryfast"}}
    if suffix == "webm":
        options = {"codec": "libvpx", "b_frames": 0, "options": {"deadline": "realtime"}}
    if suffix == "avi":
        options = {"codec": "mpeg4", "b_frames": 0}
    if suffix == "gif":
        from PIL import Image

        frames = [Image.fromarray(painted.paint(number)) for number in range(4)]
        return [saved(frames[0].save, format="gif", save_all=True, append_images=frames[1:])]
    return [written(lambda path: painted.write_video(path, 12, **options), f"a.{suffix}")]


SAMPLES: list[dict[str, Any]] = [
    {"events": "a.npy", "video": "a.mp4", "prompt": "What?", "start_ms": 1.5, "duration_ms": 20, "name": "one"},
    {"events": "b.npy", "reference": "A car.", "video_offset_ms": "-3", "rectify": "map.h5", "odd": [1, {"a": None}]},
]


def manifests(form: str) -> list[bytes]:
    if form == "csv":
        text = 'events,video,prompt,start_ms,duration_ms\na.npy,a.mp4,What?,1.5,20\n"b,c.npy",,"x""y",,\n'
        return [text.encode(), text.replace(",", ";").encode()]
    instruction = [{"id": "1", "event": "a.npy", "conversations": [{"from": "human", "value": "<event>\nWhat?"}]}]
    lines = "\n".join(json.dumps(row) for row in SAMPLES)
    documents: list[Any] = [SAMPLES, instruction]
    return [lines.encode(), *(json.dumps(document).encode() for document in documents)]


def results() -> list[bytes]:
    found: list[bytes] = []
    module = helpers("legacy_shapes")
    for name, make in sorted(vars(module).items()):
        if not inspect.isfunction(make) or name.startswith("_") or make.__module__ != module.__name__:
            continue
        wanted = inspect.signature(make).parameters
        if all(each.default is not each.empty for each in wanted.values()):
            found.append(json.dumps(make(2) if "count" in wanted else make()).encode())
    return [content for content in found if _is_result(content)]


def serving(program: str) -> list[bytes]:
    start = {"aiperf": "profile_export"}.get(program, program)
    files = helpers("serving_shapes").FILES
    return [make().encode() for name, make in files.items() if name.startswith(start)]


def _is_result(content: bytes) -> bool:
    from evprof.core.errors import UserError
    from evprof.loaders.legacy.family import open_legacy

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.json"
        path.write_bytes(content)
        try:
            open_legacy(path)
        except UserError:
            return False
    return True


def traces() -> list[bytes]:
    entries = [
        {"ph": "M", "name": "process_name"},
        {"ph": "X", "cat": "cpu_op", "name": "ProfilerStep#1", "ts": 1.5, "dur": 2, "args": {"a": [1, {"ts": 3}]}},
    ]
    content = json.dumps({"schemaVersion": 1, "traceEvents": entries * 3}).encode()
    text = io.StringIO()
    trace = MadeTrace(text, is_pretty=False)
    with trace.annotation("decode"), trace.annotation("ProfilerStep#0"), trace.module("Linear_0", 1) as outer:
        with trace.module("Act_0", 2, outer), trace.operator("aten::mm", [[2, 3], [3]], stack="a.py(1): f") as own:
            trace.memory(512, 0xABC)
            trace.launch("gemm", 2_500, own)
            trace.launch("gemm", 2_500, own, call="cudaGraphLaunch", kernels=2)
        trace.copy("DtoH", 4_096, 1_000)
        trace.memory(-512, 0xABC)
        trace.synchronize()
    trace.close()
    whole = text.getvalue().encode()
    odd = whole.replace(b'"blocks per SM": 1.0', b'"blocks per SM": -nan').replace(b'"Ev Idx": 1', b'"Ev Idx": N/A')
    return [content, gzip.compress(content), json.dumps(entries).encode(), whole, odd]


def sessions() -> list[bytes]:
    files = sorted((TESTS / "session" / "golden").glob("*.evprof"), key=lambda path: path.stat().st_size)
    return [path.read_bytes() for path in files[:3]]


def files(paths: Iterable[Path]) -> list[bytes]:
    return [path.read_bytes() for path in paths]


def heads() -> list[bytes]:
    layer = {"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4}
    eagle3 = {"draft_vocab_size": 32, "eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 3, 5]}}
    speculators = {
        "speculators_model_type": "eagle3",
        "transformer_layer_config": layer,
        "speculators_config": {"verifier": {"name_or_path": "target"}},
        "fc_norm": True,
    }
    medusa = {"medusa_num_heads": 5, "base_model_name_or_path": "target"}
    return [json.dumps(config).encode() for config in (layer, layer | eagle3, speculators, medusa)]


def grids() -> list[bytes]:
    text = 'title = "mine"\nrepeat = 2\n[settings]\nmax_new_tokens = 8\n[axes]\nmode = ["draft", "target"]\n'
    cells = {"cells": [{"label": "a", "mode": "draft", "frames": 4}], "repeat": 1, "warmup": 0, "limit": 2}
    return [text.encode(), json.dumps(cells).encode()]
