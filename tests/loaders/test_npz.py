"""Recordings in .npz: read with and without compression; bombs and damage end in one sentence."""

from __future__ import annotations

import io
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evprof.core.errors import UserError
from evprof.core.events import EventArray
from evprof.loaders.events.npz import open_recording
from traced_memory import memory_below

ROW = [("p", "u1"), ("t", "<i8"), ("x", "<u2"), ("y", "<u2")]
X, Y, T, P = [3, 1, 2, 9], [5, 0, 7, 7], [0, 40, 40, 90], [1, 0, 1, 0]


def read(path: Path) -> EventArray:
    with open_recording(path) as recording:
        return recording.read()


def as_npy(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=True)
    return buffer.getvalue()


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("names", ["xytp", ("x", "y", "timestamp", "polarity"), ("X", "Y", "T", "P")])
def test_named_columns_are_read(tmp_path: Path, save: object, names: object) -> None:
    values = (np.array(X, np.uint16), np.array(Y, np.uint16), np.array(T, np.uint16), np.array(P, np.int8) * 2 - 1)
    save(tmp_path / "a.npz", **dict(zip(names, values, strict=True)), other=np.zeros(3))  # type: ignore[operator, call-overload]  # either of numpy's two
    events = read(tmp_path / "a.npz")
    assert [events.x.tolist(), events.y.tolist(), events.t_us.tolist(), events.p.tolist()] == [X, Y, T, P]


def test_one_structured_table_or_pickled_member_is_read(tmp_path: Path) -> None:
    rows = np.array(list(zip(X, Y, T, P, strict=True)), dtype=[("x", "<u2"), ("y", "<u2"), ("t", "<i8"), ("p", "|b1")])
    np.savez_compressed(tmp_path / "structured.npz", events=rows)
    np.savez(tmp_path / "table.npz", np.array([T, X, Y, P]).T)
    np.savez(tmp_path / "dict.npz", data=np.array({name: rows[name] for name in "xytp"}))
    for name in ("structured", "table", "dict"):
        events = read(tmp_path / f"{name}.npz")
        assert (events.x.tolist(), events.t_us.tolist(), events.p.tolist()) == (X, T, P)


def bins(*counts: int, dtype: Any = ROW) -> np.ndarray:
    """EventBench's layout: one structured array for each part of the recording, in an array of objects."""
    parts = np.empty(len(counts), object)
    first = 0
    for place, count in enumerate(counts):
        parts[place] = np.zeros(count, dtype)
        parts[place]["t"] = np.arange(first, first + count) * 10
        parts[place]["x"], parts[place]["p"] = parts[place]["t"] % 7, parts[place]["t"] // 10 % 2
        first += count
    return parts


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("dtype", [ROW, np.dtype(ROW, align=True), [*ROW[::-1], ("extra", "<f4")]])
def test_parts_of_a_recording_are_read_one_after_the_other(tmp_path: Path, save: object, dtype: object) -> None:
    save(tmp_path / "a.npz", event_bins=bins(3, 0, 4, dtype=dtype))  # type: ignore[operator]  # either of numpy's two
    events = read(tmp_path / "a.npz")
    assert events.t_us.tolist() == [0, 10, 20, 30, 40, 50, 60]
    assert events.x.tolist() == [t % 7 for t in events.t_us]
    assert events.p.tolist() == [0, 1, 0, 1, 0, 1, 0]
    assert (events.parts, events.slice_count(0, 3).parts) == ((3, 0, 4), ())


def test_what_lies_beside_the_parts_is_left_alone(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", event_bins=bins(2, 2), label=np.array("a street"), height=np.array(240))
    assert len(read(tmp_path / "a.npz")) == 4
    rows = np.array([[5, 5, t, 1] for t in (40_000, 50_000, 90_000)])
    np.savez(tmp_path / "b.npz", event_data=rows, height=np.array(240))
    assert read(tmp_path / "b.npz").t_us.tolist() == [40_000, 50_000, 90_000]


def test_parts_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    unlike = bins(2, 2)
    unlike[1] = np.zeros(2, [("x", "<u2"), ("q", "<u2")])
    plain = np.empty(2, object)
    plain[0], plain[1] = np.zeros((2, 4)), np.zeros((3, 4))
    nested = bins(2)
    nested[0] = np.zeros(2, [("x", [("y", "<u2")])])
    cases = {
        "not alike": unlike,
        "not rows of x, y, t and p": plain,
        "not a number type": nested,
    }
    for words, parts in cases.items():
        np.savez(tmp_path / "a.npz", event_bins=parts)
        with pytest.raises(UserError, match=words):
            read(tmp_path / "a.npz")
    np.savez(tmp_path / "a.npz", event_bins=bins(0, 0))
    with pytest.raises(UserError, match="holds no events"):
        read(tmp_path / "a.npz")


def test_a_zip_bomb_is_not_unpacked(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "bomb.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        content = as_npy(np.zeros(24 << 20, np.uint8))
        for name in "xytp":
            archive.writestr(f"{name}.npy", content)
    with memory_below(4 << 20), pytest.raises(UserError, match=r"bomb\.npz.*made to fill the memory"):
        read(tmp_path / "bomb.npz")


def test_a_directory_that_lies_about_sizes_allocates_nothing(tmp_path: Path) -> None:
    file = tmp_path / "lie.npz"
    with zipfile.ZipFile(file, "w") as archive:
        for name in "xytp":
            archive.writestr(f"{name}.npy", as_npy(np.arange(4)))
    whole = file.read_bytes()
    true_size = struct.pack("<I", len(as_npy(np.arange(4))))
    for lie in (0xFFFFFFF0, 0x30000000):
        file.write_bytes(whole.replace(true_size, struct.pack("<I", lie)))
        with memory_below(8 << 20), pytest.raises(UserError, match=r"lie\.npz"):
            read(file)


def test_a_member_that_announces_more_than_it_holds(tmp_path: Path) -> None:
    text = b"{'descr': '<i8', 'fortran_order': False, 'shape': (1000000000,), }\n"
    member = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + b"\0" * 32
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        for name in "xytp":
            archive.writestr(f"{name}.npy", member)
    with pytest.raises(UserError, match="announces 8,000,000,000 bytes"):
        read(tmp_path / "a.npz")


def test_foreign_and_damaged_archives(tmp_path: Path) -> None:
    def write(name: str, members: dict[str, bytes]) -> Path:
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            for member, content in members.items():
                archive.writestr(member, content)
        return tmp_path / name

    good = {f"{name}.npy": as_npy(np.arange(9) % 2) for name in "xytp"}
    cases = {
        "arrays x, y, t and p": write("doc.npz", {"word/document.xml": b"<xml/>"}),
        "no column 'p'": write("three.npz", {key: value for key, value in good.items() if key != "p.npy"}),
        "Python objects": write("object.npz", {**good, "x.npy": as_npy(np.array({"a": 1}))}),
        "is not a .npy file": write("text.npz", {**good, "x.npy": b"just some text"}),
        "members": write("many.npz", {f"{index}.npy": b"" for index in range(1001)}),
    }
    for words, path in cases.items():
        with pytest.raises(UserError, match=words):
            read(path)
    whole = write("good.npz", good).read_bytes()
    (tmp_path / "cut.npz").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "bits.npz").write_bytes(whole.replace(good["t.npy"][-20:], b"\x01" * 20, 1))
    for name in ("cut.npz", "bits.npz"):
        with pytest.raises(UserError, match="damaged"):
            read(tmp_path / name)
