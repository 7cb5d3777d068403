"""Recordings in .npy: every published layout is read, nothing in a file is ever run."""

from __future__ import annotations

import pickle
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evprof.core.errors import UserError
from evprof.core.events import EventArray
from evprof.loaders.events.npy import open_recording
from traced_memory import memory_below

X, Y, T, P = [3, 1, 2, 9], [5, 0, 7, 7], [0, 40, 40, 90], [1, 0, 1, 0]


def read(path: Path | str) -> EventArray:
    with open_recording(path) as recording:
        return recording.read()


def header(descr: str = "'|O'", shape: str = "()", order: str = "False") -> bytes:
    text = f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


def columns(dtype: Any = np.uint16) -> dict[str, np.ndarray]:
    return {"p": np.array(P, np.uint8), "t": np.array(T, dtype), "x": np.array(X, dtype), "y": np.array(Y, dtype)}


def check(events: EventArray) -> None:
    assert [events.x.tolist(), events.y.tolist(), events.t_us.tolist(), events.p.tolist()] == [X, Y, T, P]


def test_old_and_new_numpy_module_names_are_read(tmp_path: Path) -> None:
    content = pickle.dumps(np.array(columns()), protocol=3)
    assert b"numpy._core.multiarray" in content
    (tmp_path / "a.npy").write_bytes(header() + content.replace(b"numpy._core.multiarray", b"numpy.core.multiarray"))
    check(read(tmp_path / "a.npy"))


@pytest.mark.parametrize("align", [False, True])
def test_structured_arrays_are_read(tmp_path: Path, align: bool) -> None:
    dtype = np.dtype([("t", "<i8"), ("x", "<u2"), ("y", "<u2"), ("p", "i1")], align=align)
    rows = np.array(list(zip(T, X, Y, [1, -1, 1, -1], strict=True)), dtype=dtype)
    np.save(tmp_path / "a.npy", rows)
    check(read(tmp_path / "a.npy"))


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("layout", ["txyp", "xytp"])
def test_tables_of_four_columns_are_read(tmp_path: Path, layout: str, order: Any) -> None:
    named = dict(zip("xytp", (X, Y, T, P), strict=True))
    table = np.array([named[name] for name in layout], dtype=np.float64).T
    np.save(tmp_path / "a.npy", np.array(table, order=order))
    check(read(tmp_path / "a.npy"))


def test_a_table_that_could_be_either_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([[1, 2, 1, 0], [2, 3, 2, 1]]))
    with pytest.raises(UserError, match=r"a\.npy: cannot tell which"):
        read(tmp_path / "a.npy")


class Hostile:
    """Pickles into a call of `function` with `arguments`."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = (function, arguments)

    def __reduce__(self) -> Any:
        return self.call


def hostile_pickles(marker: Path) -> dict[str, tuple[bytes, str]]:
    """Name -> (pickle, words the sentence must hold). Each would leave `marker` behind if it were run."""
    import os
    import subprocess

    touch = f"open({str(marker)!r}, 'w').close()"
    nested = {**columns(), "p": Hostile(os.system, f"touch {marker}")}
    return {
        "os.system": (pickle.dumps(Hostile(os.system, f"touch {marker}"), protocol=3), "system"),
        "eval": (pickle.dumps(Hostile(eval, touch), protocol=2), "eval"),
        "exec": (pickle.dumps(Hostile(exec, touch), protocol=4), "exec"),
        "popen": (pickle.dumps(Hostile(subprocess.Popen, ["touch", str(marker)]), protocol=4), "subprocess.Popen"),
        "getattr": (pickle.dumps(Hostile(getattr, Hostile(__import__, "os"), "system"), protocol=3), "getattr"),
        "nested": (pickle.dumps(np.array(nested), protocol=3), "system"),
        "inside frombuffer": (pickle.dumps([Hostile(eval, touch)], protocol=5), "eval"),
        "protocol 0": (f"cos\nsystem\n(S'touch {marker}'\ntR.".encode(), "os.system"),
        "inst": (f"(S'touch {marker}'\nios\nsystem\n.".encode(), "blocked"),
        "dotted numpy": (b"cnumpy\nload\n(S'/etc/passwd'\ntR.", "numpy.load"),
        "numpy runstring": (b"cnumpy.testing\nrunstring\n(tR.", "numpy.testing.runstring"),
        "persistent id": (b"Pabc\n.", "PERSID"),
        "extension": (b"\x82\x01.", "EXT1"),
        "newobj": (b"\x80\x02cnumpy\nndarray\n(I4\nt\x81.", "NEWOBJ"),
        "call of a value": (b"\x80\x02])R.", "blocked"),
    }


NAMES = list(hostile_pickles(Path("unused")))


@pytest.mark.parametrize("name", NAMES)
def test_hostile_pickles_are_blocked_and_named(tmp_path: Path, name: str) -> None:
    marker = tmp_path / "was-run"
    content, words = hostile_pickles(marker)[name]
    file = tmp_path / "evil.npy"
    file.write_bytes(header() + content)
    with pytest.raises(UserError) as caught:
        read(file)
    sentence = caught.value.sentence
    assert str(file) in sentence
    assert words in sentence
    assert "\n" not in sentence
    assert not marker.exists()


def array_of(content: bytes, length: int, dtype: bytes = b"X\x02\x00\x00\x00u1") -> bytes:
    """The steps that make an array of `length` bytes, which `content` leaves; `dtype` leaves its type's name."""
    made = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(K\x00tC\x01btR"
    kind = b"cnumpy\ndtype\n(" + dtype + b"K\x00K\x01tR"
    return made + b"(K\x01J" + struct.pack("<i", length) + b"\x85" + kind + b"\x89" + content + b"tb"


def keys_of_one_text(keys: int, length: int) -> bytes:
    """A dict whose arrays all refer to one text of `length` characters, as Python 2 wrote bytes."""
    text = b"X" + struct.pack("<I", length) + b"a" * length
    array = array_of(b"c_codecs\nencode\n(" + text + b"X\x06\x00\x00\x00latin1tR", length) + b"q\x02"
    names = (b"X\x05\x00\x00\x00k%04d" % key for key in range(keys))
    return b"\x80\x02}(X\x01\x00\x00\x00x" + array + b"".join(name + b"h\x02" for name in names) + b"u."


BOMBS = {
    "many keys of one text": keys_of_one_text(9_000, 1 << 20),
    "a type that is a nest": b"\x80\x02}(X\x01\x00\x00\x00x"
    + array_of(b"C\x00", 0, b")q\x05" + b"h\x05\x86q\x05" * 64)
    + b"u.",
    "memo index": b"\x80\x02]r\xff\xff\xff\x7f.",
    "bytes longer than the file": b"\x80\x04\x8e" + struct.pack("<Q", 1 << 40) + b"abc.",
    "text longer than the file": b"\x80\x04\x8d" + struct.pack("<Q", 1 << 62) + b"abc.",
    "frame longer than the file": b"\x80\x04\x95" + struct.pack("<Q", 1 << 62) + b"N.",
    "array of 2^60": b"\x80\x02cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(\x8a\x08"
    + struct.pack("<Q", 1 << 60)
    + b"tU\x01btR.",
    "steps without end": b"\x80\x02" + b"N" * 2_000_000 + b".",
    "doubling tuples": b"\x80\x02)" + b"2\x86" * 64 + b".",
    "shared list within itself": b"\x80\x02]q\x00h\x00ah\x00.",
    "a deep nest": b"\x80\x02" + b"]" * 15_000 + b"a" * 14_999 + b".",
}


@pytest.mark.parametrize("name", list(BOMBS))
def test_pickles_that_would_fill_memory_do_not(tmp_path: Path, name: str) -> None:
    file = tmp_path / "bomb.npy"
    file.write_bytes(header() + BOMBS[name])
    with memory_below(24 << 20), pytest.raises(UserError, match=r"bomb\.npy"):
        read(file)


@pytest.mark.parametrize(
    ("descr", "shape"),
    [
        ("'<i8'", "(1000000000000, 4)"),
        ("'<i8'", "(9223372036854775807, 9223372036854775807)"),
        ("[('t', '<i8'), ('x', '<u2'), ('y', '<u2'), ('p', '|u1')]", "(99999999999,)"),
    ],
)
def test_lying_headers_allocate_nothing(tmp_path: Path, descr: str, shape: str) -> None:
    file = tmp_path / "lie.npy"
    file.write_bytes(header(descr, shape) + b"\0" * 64)
    with memory_below(4 << 20), pytest.raises(UserError, match="announces"):
        read(file)


@pytest.mark.parametrize(
    "content",
    [
        header("'<i8'", "(-4, 4)"),
        header("'<i8'", "(True, 4)"),
        header("'<i8'", "4"),
        header("'<U8'", "(2,)"),
        header("[('x', '<i8', (100000000,))] * 4", "(1,)"),
        header("__import__('os')", "()"),
        b"\x93NUMPY\x01\x00\xff\xff{",
        b"\x93NUMPY\x09\x00\x10\x00",
        b"\x93NUMPY\x02\x00\xff\xff\xff\xff" + b"(" * 50,
        header("(" * 5000, "()"),
        b"\x93NUM",
        b"hello, this is text",
    ],
)
def test_damaged_headers_get_one_sentence(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "odd.npy"
    file.write_bytes(content)
    with pytest.raises(UserError, match=r"odd\.npy") as caught:
        read(file)
    assert "\n" not in caught.value.sentence


def test_objects_other_than_recordings_are_named(tmp_path: Path) -> None:
    cases: dict[str, Any] = {
        "no column 't'": {key: value for key, value in columns().items() if key != "t"},
        "not a dictionary": [1, 2, 3],
        "holds no events": {key: value[:0] for key, value in columns().items()},
        "different lengths": {**columns(), "x": np.arange(2)},
        "not a number type": {**columns(), "x": np.array(["a", "b"])},
    }
    for words, content in cases.items():
        (tmp_path / "a.npy").write_bytes(header() + pickle.dumps(content, protocol=4))
        with pytest.raises(UserError, match=words):
            read(tmp_path / "a.npy")


def test_arrays_that_lie_about_their_shape_are_refused(tmp_path: Path) -> None:
    content = pickle.dumps(columns(np.uint16), protocol=3)
    assert content.count(b"K\x04\x85") == 4
    (tmp_path / "a.npy").write_bytes(header() + content.replace(b"K\x04\x85", b"K\x7f\x85"))
    with pytest.raises(UserError, match="says it has shape"):
        read(tmp_path / "a.npy")
