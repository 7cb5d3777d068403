"""Damaged and hostile HDF5 files: a sentence or a result, and never another file."""

from __future__ import annotations

import io
import sys
import zlib
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from evprof.core.errors import UserError
from evprof.loaders.events.opening import read_events

hdf5plugin = pytest.importorskip("hdf5plugin")

N = 3000
CHUNK = 700

COMPRESSIONS: dict[str, dict[str, Any]] = {
    "none": {},
    "gzip": {"compression": "gzip", "shuffle": True, "fletcher32": True},
    "lzf": {"compression": "lzf", "shuffle": True},
    "blosc": dict(hdf5plugin.Blosc("zstd", 1)),
    "zstd": dict(hdf5plugin.Zstd()),
}


def columns(count: int = N) -> dict[str, np.ndarray]:
    chance = np.random.default_rng(5)
    return {
        "x": chance.integers(0, 64, count).astype(np.uint16),
        "y": chance.integers(0, 48, count).astype(np.uint16),
        "t": np.sort(chance.integers(0, 40_000, count)).astype(np.uint32),
        "p": chance.integers(0, 2, count).astype(np.uint8),
    }


def write(path: Path | io.BytesIO, place: str = "events", **options: Any) -> None:
    with h5py.File(path, "w") as file:
        for name, values in columns().items():
            file.create_dataset(f"{place}/{name}", data=values, chunks=(CHUNK,), **options)
        file["t_offset"] = np.int64(1_000_000)
        file["ms_to_idx"] = np.searchsorted(columns()["t"], np.arange(0, 40_000, 1000)).astype(np.uint64)


@pytest.fixture
def good(tmp_path: Path) -> Path:
    path = tmp_path / "events.h5"
    write(path)
    return path


def put(path: Path, name: str, values: Any) -> None:
    """Another dataset in place of one."""
    with h5py.File(path, "r+") as file:
        del file[name]
        file[name] = values


def refused(path: Path, *words: str) -> str:
    with pytest.raises(UserError) as caught:
        read_events(path)
    sentence = caught.value.sentence
    assert "\n" not in sentence
    for word in words:
        assert word in sentence, sentence
    return sentence


@pytest.mark.parametrize("keep", [0.999, 0.9, 0.5, 0.1, 0.01])
def test_cut_short(good: Path, keep: float) -> None:
    content = good.read_bytes()
    good.write_bytes(content[: int(len(content) * keep)])
    refused(good, str(good))


def test_lengths_that_differ(good: Path) -> None:
    put(good, "events/p", np.zeros(N - 1, np.uint8))
    refused(good, "different lengths", "p 2,999")


NO_PIXELS = (
    np.array([b"a"] * N),
    np.zeros((N, 2), np.uint16),
    np.zeros(N, np.complex64),
    np.zeros(N, [("a", np.uint16)]),
    np.zeros(N, np.dtype((np.void, 4))),
    np.full(N, 70_000, np.uint32),
    np.full(N, -3, np.int16),
    np.full(N, np.nan),
    np.full(N, 1.5),
)
NO_TIMES = (np.full(N, np.inf), np.full(N, 2**63, np.uint64), np.full(N, -(2**63), np.int64))


@pytest.mark.parametrize(
    ("name", "values", "word"),
    [
        *(("events/x", values, "events.h5") for values in NO_PIXELS),
        *(("events/t", values, "times") for values in NO_TIMES),
        *(("t_offset", values, "t_offset") for values in (b"text", np.nan, 2.0**62, np.zeros(3))),
    ],
)
def test_values_that_cannot_be(good: Path, name: str, values: Any, word: str) -> None:
    put(good, name, values)
    refused(good, word)


@pytest.mark.parametrize("chunks", [None, (65_536,)])
@pytest.mark.parametrize("count", [10**8, 10**15, 2**62])
def test_claims_of_more_than_the_file_can_hold(tmp_path: Path, count: int, chunks: tuple[int] | None) -> None:
    path = tmp_path / "huge.h5"
    with h5py.File(path, "w") as file:
        for name in "xytp":
            if chunks is None and count > 2**60:
                count = 2**60
            file.create_dataset(f"events/{name}", (count,), "u2", chunks=chunks)
    refused(path, "claims")


@pytest.mark.parametrize(
    ("count", "chunk", "words"), [(8_000_000, 1, "claims 8,000,000 chunks"), (10, 1 << 29, "chunks of 1,024 MiB")]
)
def test_chunks_of_no_file_and_no_memory(tmp_path: Path, count: int, chunk: int, words: str) -> None:
    path = tmp_path / "chunks.h5"
    with h5py.File(path, "w") as file:
        for name in "xytp":
            file.create_dataset(f"events/{name}", (count,), "u2", maxshape=(None,), chunks=(chunk,), compression="gzip")
    refused(path, words)


def test_a_gzip_stream_that_goes_on_and_on(good: Path) -> None:
    with h5py.File(good, "r+") as file:
        del file["events/t"]
        t = file.create_dataset("events/t", (N,), "u4", chunks=(N,), compression="gzip")
        t.id.write_direct_chunk((0,), zlib.compress(bytes(100_000_000))[:12_000])
    refused(good, "unpacks to more bytes")


@pytest.mark.parametrize("compression", ["gzip", "blosc", "zstd"])
@pytest.mark.parametrize("factor", [0.5, 3])
def test_chunks_that_unpack_to_another_size(good: Path, tmp_path: Path, compression: str, factor: float) -> None:
    other = tmp_path / "other.h5"
    length = int(N * factor)
    with h5py.File(other, "w") as file:
        file.create_dataset("t", data=np.zeros(length, "u4"), chunks=(length,), **COMPRESSIONS[compression])
        mask, raw = file["t"].id.read_direct_chunk((0,))
    with h5py.File(good, "r+") as file:
        del file["events/t"]
        t = file.create_dataset("events/t", (N,), "u4", chunks=(N,), **COMPRESSIONS[compression])
        t.id.write_direct_chunk((0,), raw, mask)
    refused(good, "damaged", "bytes instead of 12,000")


def test_links_into_other_files(good: Path, tmp_path: Path) -> None:
    path = tmp_path / "links.h5"
    with h5py.File(path, "w") as file:
        file["events"] = h5py.ExternalLink(good.name, "/events")
    refused(path, "is a link")
    with h5py.File(path, "w") as file:
        file["elsewhere"] = h5py.ExternalLink(good.name, "/events")
        file["events"] = h5py.SoftLink("/elsewhere")
    refused(path, "is a link")


def test_virtual_and_external_data_is_not_read(good: Path, tmp_path: Path) -> None:
    path = tmp_path / "virtual.h5"
    layout = h5py.VirtualLayout((N,), "u2")
    layout[:] = h5py.VirtualSource(str(good), "events/x", (N,))
    with h5py.File(path, "w") as file:
        for name in "xytp":
            file.create_virtual_dataset(f"events/{name}", layout)
    refused(path, "virtual")
    with h5py.File(path, "w") as file:
        file.create_virtual_dataset("elsewhere/deep/events", layout)
    refused(path, "/elsewhere/deep/events")
    secret = tmp_path / "secret"
    secret.write_bytes(bytes(2 * N))
    with h5py.File(path, "w") as file:
        for name in "xytp":
            file.create_dataset(f"events/{name}", (N,), "u2", external=[(str(secret), 0, 2 * N)])
    refused(path, "other files")


def test_filters_nobody_knows(good: Path) -> None:
    for options, words in (
        (dict(hdf5plugin.Zfp(reversible=True)), "filter 32013"),
        (dict(hdf5plugin.Bitshuffle()), "filter 32008"),
        ({"scaleoffset": 20}, "filter 6"),
    ):
        with h5py.File(good, "r+") as file:
            del file["events/t"]
            file.create_dataset("events/t", data=columns()["t"].astype(np.int32), chunks=(CHUNK,), **options)
        refused(good, words, "h5repack")


def test_prophesee_ecf(tmp_path: Path) -> None:
    """h5py writes no filter that it lacks, so the number in the file is exchanged for it."""
    path = tmp_path / "cd.hdf5"
    kind = np.dtype([("x", "<u2"), ("y", "<u2"), ("p", "<i2"), ("t", "<i8")])
    with h5py.File(path, "w") as file:
        file.create_dataset("CD/events", data=np.zeros(N, kind), chunks=(CHUNK,), **dict(hdf5plugin.LZ4()))
    content = path.read_bytes()
    # Version 1 of a filter's description: number, length of the name, flags, count of values (two bytes each); name.
    place = content.index(b"HDF5 lz4 filter") - 8
    assert content[place : place + 2] == (32004).to_bytes(2, "little")
    path.write_bytes(content[:place] + (0x8ECF).to_bytes(2, "little") + content[place + 2 :])
    refused(path, "ECF", "metavision_file_to_hdf5")


@pytest.mark.parametrize("missing", ["h5py", "hdf5plugin"])
def test_missing_libraries_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str, good: Path) -> None:
    write(good, **COMPRESSIONS["blosc"])
    monkeypatch.setitem(sys.modules, missing, None)
    monkeypatch.setattr(h5py.h5z, "filter_avail", lambda code: code < 32_001)
    with pytest.raises(ModuleNotFoundError) as caught:
        read_events(good)
    assert caught.value.name == missing


def test_what_was_never_written_is_refused(good: Path) -> None:
    with h5py.File(good, "r+") as file:
        del file["events/x"]
        x = file.create_dataset("events/x", (N,), "u2", chunks=(CHUNK,), compression="gzip")
        x[:CHUNK] = 7
    refused(good, "rows from 700 on were never written")


@pytest.mark.parametrize("compression", ["blosc", "lzf"])
def test_filters_without_their_parameters(tmp_path: Path, compression: str) -> None:
    """Version 1 of a filter's description ends its fixed part with how many parameters follow."""
    path = tmp_path / "bare.h5"
    write(path, **COMPRESSIONS[compression])
    content = path.read_bytes()
    name = compression.encode() + b"\0"
    for place in [at for at in range(len(content)) if content.startswith(name, at)]:
        content = content[: place - 2] + bytes(2) + content[place:]
    path.write_bytes(content)
    refused(path, "parameters")
