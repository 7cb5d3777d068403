"""Packing rows: any rows come back, small numbers take little room, and no bytes do harm."""

from __future__ import annotations

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evprof.core.recording import Stream
from evprof.core.records import STREAMS, column_kinds
from evprof.session import chunk
from traced_memory import memory_below

INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
VALUES = {
    "int": INT64 | st.integers(-5, 300),
    # Lone surrogates, too: paths that are no UTF-8 hold them.
    "str": st.text(alphabet=st.characters(codec=None), max_size=12),
    "bytes": st.binary(max_size=40),
}


@st.composite
def streams(draw: st.DrawFn) -> Stream:
    name = draw(st.sampled_from(sorted(STREAMS)))
    row = st.tuples(*(VALUES[kind] for kind in column_kinds(name).values()))
    stream = Stream(name)
    stream.extend(draw(st.lists(row, min_size=1, max_size=20)))
    return stream


def unpacked(name: str, row_count: int, blob: bytes) -> Stream:
    stream = Stream(name)
    stream.extend_columns(chunk.unpack(name, row_count, blob))
    return stream


def packed(stream: Stream) -> bytes:
    return chunk.pack(stream.name, [stream.column(name) for name in stream.column_names])


@given(streams())
def test_any_rows_come_back(stream):
    assert unpacked(stream.name, len(stream), packed(stream)).rows() == stream.rows()


@given(streams(), st.data())
def test_any_damage_is_a_chunk_error_or_harmless(stream, data):
    blob = bytearray(packed(stream))
    place = data.draw(st.integers(0, len(blob) - 1))
    if data.draw(st.booleans()):
        del blob[place:]
    else:
        blob[place] ^= data.draw(st.integers(1, 255))
    try:
        rows = unpacked(stream.name, len(stream), bytes(blob)).rows()
    except chunk.ChunkError:
        return
    kinds = [{"int": int, "str": str, "bytes": bytes}[kind] for kind in column_kinds(stream.name).values()]
    assert len(rows) == len(stream)
    assert all(type(value) is kind for row in rows for value, kind in zip(row, kinds, strict=True))


@pytest.mark.parametrize("row_count", [0, -1, 2, 1 << 40])
def test_the_row_count_must_fit(row_count):
    stream = Stream("kv")
    stream.extend([(1, "draft", 2, 3, 4)])
    with pytest.raises(chunk.ChunkError):
        chunk.unpack("kv", row_count, packed(stream))


def test_a_bomb_does_not_go_off():
    packer = zlib.compressobj(1)
    bomb = bytes([chunk.ZLIB]) + b"".join(packer.compress(bytes(1 << 20)) for _ in range(256)) + packer.flush()
    assert len(bomb) < 2 << 20
    with memory_below(3 * chunk.MAX_BYTES), pytest.raises(chunk.ChunkError, match="zlib"):
        chunk.unpack("memory", 4, bomb)


@pytest.mark.parametrize("blob", [b"", b"\x00", b"\x02abc", b"\x01abc", b"\x00" + b"\x03" + b"\0" * 40])
def test_foreign_bytes_are_refused(blob):
    with pytest.raises(chunk.ChunkError):
        chunk.unpack("memory", 1, blob)
