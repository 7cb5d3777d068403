"""Bytes of any kind give a result or one sentence, and never take much memory."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from evprof.core.errors import UserError
from evprof.loaders.events.opening import read_events
from evprof.loaders.probe import probe
from evprof.loaders.videos.opening import open_video
from traced_memory import memory_below

MEMORY_BYTES = 48 << 20


def read_info(path: Path) -> None:
    with open_video(path) as video:
        video.info()


def survives(read: Callable[[], object]) -> None:
    sentence = "read without complaint"
    with memory_below(MEMORY_BYTES):
        try:
            read()
        except UserError as error:
            sentence = error.sentence
    assert sentence
    assert "\n" not in sentence


fuzz = settings(derandomize=True)


@fuzz
@given(
    content=st.binary(min_size=0, max_size=400), start=st.sampled_from([b"", b"\x93NUMPY", b"PK\x03\x04", b"\x1f\x8b"])
)
def test_foreign_bytes(tmp_path: Path, content: bytes, start: bytes) -> None:
    file = tmp_path / "foreign"
    file.write_bytes(start + content)
    survives(lambda: read_events(file))
    survives(lambda: probe(file))
    survives(lambda: read_info(file))


STEPS = [
    *(bytes([code]) for code in b"(.012N]})aesut\x85\x86\x87Rb\x94\x88\x93io"),
    *(b"q\x00", b"h\x00", b"K\x05", b"X\x01\x00\x00\x00x", b"C\x02ab"),
    *(b"cnumpy\nndarray\n", b"cnumpy\ndtype\n", b"cnumpy.core.multiarray\n_reconstruct\n"),
]


@fuzz
@given(steps=st.lists(st.sampled_from(STEPS), max_size=40))
def test_any_sequence_of_pickle_steps(tmp_path: Path, steps: list[bytes]) -> None:
    buffer = io.BytesIO()
    np.save(buffer, np.array({"x": np.zeros(3, np.uint16)}), allow_pickle=True)
    (tmp_path / "steps.npy").write_bytes(buffer.getvalue()[:128] + b"\x80\x03" + b"".join(steps))
    survives(lambda: read_events(tmp_path / "steps.npy"))
