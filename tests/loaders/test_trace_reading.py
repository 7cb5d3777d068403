"""Traces are read as a stream: what they hold is told, whatever they unpack to, and where they break."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evprof.core.errors import Cancelled, UserError
from evprof.core.rows.trace_columns import NONE, TraceColumns
from evprof.loaders.traces.reading import read_trace
from evprof.metrics.traces.analysis import TraceAnalysis
from evprof.metrics.traces.tables import trace_summary
from made_traces import MadeTrace, write_decoding
from traced_memory import memory_below

ENTRIES: list[dict[str, Any]] = [
    {"ph": "M", "name": "process_name", "pid": 7, "args": {"name": "python"}},
    {"ph": "M", "name": "thread_name", "pid": 7, "tid": 9, "args": {"name": "main"}},
    {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 7, "tid": 9, "ts": 1000.5, "dur": 20, "args": {"ts": 5}},
    {"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 7, "tid": 9, "ts": 1010, "dur": 4.5},
    {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#3", "pid": 7, "tid": 9, "ts": 900, "dur": 500},
    {"ph": "i", "name": "mark", "ts": 1, "s": [1, {"ph": "X"}]},
]


def written(folder: Path, content: bytes | Any, name: str = "a.pt.trace.json") -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return path


def same(one: TraceColumns, other: TraceColumns) -> bool:
    if (one.entries, one.problems, one.tracks) != (other.entries, other.problems, other.tracks):
        return False
    for table in ("slices", "device", "memory"):
        for name, column in vars(getattr(one, table)).items():
            theirs = getattr(getattr(other, table), name)
            if name in ("names", "categories", "shapes", "grids", "blocks"):
                if [one.text(code) for code in column] != [other.text(code) for code in theirs]:
                    return False
            elif not np.array_equal(column, theirs, equal_nan=column.dtype.kind == "f"):
                return False
    return True


@pytest.mark.parametrize("is_packed", [True, False])
@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize(
    "around", [lambda entries: entries, lambda entries: {"schemaVersion": 1, "traceEvents": entries, "traceName": "x"}]
)
def test_what_a_trace_holds(tmp_path: Path, around: Any, indent: int | None, is_packed: bool) -> None:
    content = json.dumps(around(ENTRIES), indent=indent).encode()
    found = read_trace(written(tmp_path, gzip.compress(content) if is_packed else content))
    assert (found.entries, len(found.slices), found.problems) == (6, 3, ())
    assert found.slices.starts.tolist() == [1_000_500, 1_010_000, 900_000]
    assert found.slices.durations.tolist() == [20_000, 4_500, 500_000]
    assert [found.text(code) for code in found.slices.names] == ["aten::mm", "aten::add", "ProfilerStep#3"]
    assert [(track.pid, track.tid, track.process, track.thread) for track in found.tracks] == [
        ("7", "9", "python", "main")
    ]
    summary = trace_summary(TraceAnalysis(found))
    assert summary["categories"] == {"cpu_op": 2, "user_annotation": 1}
    assert (summary["steps"], summary["duration_ms"]) == (1, 0.5)


def test_everything_that_kineto_writes_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    with path.open("w", encoding="utf-8") as file:
        trace = MadeTrace(file)
        with (
            trace.module("Linear_0", 3),
            trace.operator("aten::mm", [[2, 3], [3, 4]], stack="a.py(1): f") as own,
        ):
            trace.memory(512, 0xABC)
            trace.launch("gemm", 2_500, own, grid=(4, 2, 1), block=(64, 1, 1), occupancy=25, blocks_per_sm=0.5)
            trace.copy("DtoH", 4_096, 1_000, own)
        trace.close("mine")
    found = read_trace(path)
    assert found.head.recorded == ("record_shapes", "profile_memory")
    (device,) = found.head.devices
    assert device.name == "NVIDIA H100 80GB HBM3"
    names = [found.text(code) for code in found.slices.names]
    gemm = names.index("gemm")
    (row,) = np.flatnonzero(found.device.rows == gemm)
    assert [found.text(found.device.grids[row]), found.text(found.device.blocks[row])] == ["[4, 2, 1]", "[64, 1, 1]"]
    assert (found.device.occupancies[row], found.device.blocks_per_sm[row], found.device.registers[row]) == (
        25,
        0.5,
        32,
    )
    call = names.index("cudaLaunchKernel")
    assert found.slices.correlations[call] == found.slices.correlations[gemm] != NONE
    mm = names.index("aten::mm")
    assert found.slices.external_ids[mm] == found.slices.external_ids[gemm]
    assert found.text(found.slices.shapes[mm]) == "[[2, 3], [3, 4]]"
    assert found.slices.durations[gemm] == 2_500
    assert (found.memory.addresses.tolist(), found.memory.bytes.tolist()) == ([0xABC], [512])
    assert (found.memory.allocated.tolist(), found.memory.reserved.tolist()) == ([512], [2 << 30])


@pytest.mark.parametrize("is_pretty", [True, False])
def test_a_trace_of_many_pieces_reads_as_one(tmp_path: Path, is_pretty: bool, monkeypatch: Any) -> None:
    path = tmp_path / "a.json"
    entries = write_decoding(path, 2, 3, is_pretty=is_pretty)
    whole = read_trace(path)
    assert whole.entries == entries == len(json.loads(path.read_bytes())["traceEvents"])
    monkeypatch.setattr("evprof.loaders.traces.scanning.PIECE_BYTES", 3_000)
    assert same(read_trace(path), whole)


@given(size=st.integers(40, 400))
def test_wherever_pieces_are_cut(size: int) -> None:
    """Nested tables, commas in names and borders inside texts do not mislead it."""
    import tempfile

    odd = [
        {"ph": "X", "name": "},{", "ts": 1, "args": {"a": [{"b": 1}, {"c": {"d": []}}, {}]}},
        {"ph": "X", "name": "]}", "ts": 2, "args": {"Input Dims": [[1, 2], []]}},
        {"ph": "X", "name": 'quote " \\ },{"ph":"X"} {', "ts": 3},
    ]
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        path = written(Path(folder), {"a": [{}, {}], "traceEvents": odd * 5, "b": [{"ph": "X"}, {"ph": "X"}]})
        patch.setattr("evprof.loaders.traces.scanning.PIECE_BYTES", size)
        found = read_trace(path)
    assert (found.entries, found.problems) == (15, ())
    assert [found.text(code) for code in found.slices.names] == [entry["name"] for entry in odd] * 5


@pytest.mark.parametrize(
    ("ts", "dur", "ns"),
    [
        ("5512409461277.713", "0.287", (5_512_409_461_277_713, 287)),
        ("7999999999999.999", "1", (7_999_999_999_999_999, 1_000)),
        ("1761234567890123", "4", (1_761_234_567_890_123_000, 4_000)),
        ('"12.5"', '"0.5"', (12_500, 500)),
        ("-3.25", "0", (-3_250, 0)),
    ],
)
def test_times_are_exact_to_the_nanosecond(tmp_path: Path, ts: str, dur: str, ns: tuple[int, int]) -> None:
    found = read_trace(written(tmp_path, f'[{{"ph":"X","ts":{ts},"dur":{dur}}}]'.encode()))
    assert (found.slices.starts.tolist(), found.slices.durations.tolist()) == ([ns[0]], [ns[1]])


def bomb(mebibytes: int) -> bytes:
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb") as file:
        file.write(b'{"traceEvents":[')
        for _ in range(mebibytes):
            file.write((b'{"":"' + b"x" * 8_000 + b'"},') * 128)
        file.write(b"{}]}")
    return packed.getvalue()


def test_a_trace_that_unpacks_to_a_thousand_times_its_size(tmp_path: Path) -> None:
    path = written(tmp_path, bomb(40))
    assert path.stat().st_size < 100_000
    with memory_below(24 << 20), pytest.raises(UserError, match="made to fill the memory"):
        read_trace(path)


HALF = json.dumps(ENTRIES * 3).encode()

DAMAGED: dict[str, tuple[bytes, int]] = {
    "cut short": (HALF[:-20], 17),
    "cut short and packed": (gzip.compress(HALF)[:-4], 18),
    "a hole in the middle": (HALF[: len(HALF) // 2] + b"\0\0\0 ]]" + HALF[len(HALF) // 2 :], 8),
    "nested without end": (b'{"traceEvents":[{"ph":"X","ts":1},' + b"[" * 100_000, 1),
    "nested tables": (b'{"traceEvents":[{},' + b'{"a":' * 100_000, 1),
    "no end of the list": (b'[{"ph":"X","ts":1}', 1),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_of_a_damaged_trace_what_is_whole_is_shown(tmp_path: Path, name: str) -> None:
    content, entries = DAMAGED[name]
    found = read_trace(written(tmp_path, content))
    assert found.entries == entries
    (problem,) = found.problems
    assert "damaged" in problem
    assert f"the first {entries:,} entr" in problem


REFUSED: dict[str, bytes] = {
    "nested without end": b'{"traceEvents":' + b"[" * 100_000,
    "nested head": b'{"a":' * 100_000,
    "a long text": b'["' + b"x" * 6_000_000 + b'"]',
    "no JSON": b"PK\x03\x04",
    "a number": b"12",
    "packed nothing": gzip.compress(b""),
    "no packing": b"\x1f\x8b" + b"\xff" * 100,
    "no list": b'{"traceEvents": {}}',
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_trace_gets_a_sentence(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError, match=r"a\.pt\.trace\.json: ") as caught:
        read_trace(written(tmp_path, REFUSED[name]))
    assert "\n" not in caught.value.sentence
    assert len(caught.value.sentence) < 600


def test_impossible_times_are_left_out_and_counted(tmp_path: Path) -> None:
    kernel = {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "dur": 40, "args": {"device": 0}}
    at = [{**kernel, "ts": 1.6e15 + 100 * number} for number in range(5)]
    at[1]["dur"] = 250
    odd = [{**kernel, "ts": 0}, {**at[0], "dur": -20}, {**at[0], "dur": None}]
    found = read_trace(written(tmp_path, [*at, *odd]))
    assert len(found.slices) == 5
    assert found.problems == (
        "1 of its entries have no usable time and were left out.",
        "2 of its entries have no usable duration and were left out.",
        "1 of 5 kernels end after the next one on their stream, by up to 110 µs: the times of kernels and the shares "
        "of GPUs are unreliable.",
    )


def test_backslashes_that_begin_no_escape_cost_nothing(tmp_path: Path) -> None:
    first, second = rb'{"ph":"X","ts":1,"name":"C:\data\new \u00"}', rb'{"ph":"X","ts":2,"name":"a\\b\u0041"}'
    found = read_trace(written(tmp_path, b"[" + first + b"," + second + b"]"))
    assert [found.text(code) for code in found.slices.names] == ["C:\\data\new \\u00", "a\\bA"]
    assert not found.problems


def test_odd_numbers_are_none(tmp_path: Path) -> None:
    """As C++ and Python print what is no number; one of many digits; some times as texts."""
    digits = b"9" * 100_000
    entries = (
        b'{"ph":"X","ts":1,"args":{"device":0,"est. achieved occupancy %":-nan,"blocks per SM":inf,"correlation":N/A}}',
        b'{"ph":"X","ts":NaN}',
        b'{"ph":"X","ts":' + digits + b"}",
        b'{"ph":"X","ts":2,"dur":Infinity,"args":{"External id":' + digits + b"}}",
        b'{"ph":"X","ts":"soon"}',
        b'{"ph":"X","ts":3,"name":"a\tb\\ud800","tid":[1,{"a":2}]}',
        b'{"ph":"X","ts":4,"args":[1]}',
    )
    found = read_trace(written(tmp_path, b"[" + b",".join(entries) + b"]"))
    assert found.slices.starts.tolist() == [1_000, 3_000]
    assert np.isnan(found.device.occupancies).all()
    assert found.slices.correlations.tolist() == [NONE] * 2
    assert found.text(found.slices.names[-1]) == "a\tb?"
    assert found.problems == (
        "1 of its entries cannot be read and were left out.",
        "3 of its entries have no usable time and were left out.",
        "1 of its entries have no usable duration and were left out.",
    )


def test_reading_stops_when_asked(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_decoding(path, 6, 16)
    stop = threading.Event()
    with pytest.raises(Cancelled):
        read_trace(path, lambda _: stop.set(), stop)


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.floats()
        | st.integers()
        | st.sampled_from(["X", "i", "[memory]", "ts", "cpu_op"]),
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.dictionaries(
                st.sampled_from(
                    ["traceEvents", "ph", "ts", "dur", "cat", "name", "args", "pid", "Input Dims", "device"]
                ),
                inner,
                max_size=5,
            )
        ),
        max_leaves=30,
    )
)
def test_any_json_gives_columns_or_a_sentence(content: Any) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder, contextlib.suppress(UserError):
        found = read_trace(written(Path(folder), content))
        entries = content if isinstance(content, list) else None
        entries = content.get("traceEvents") if isinstance(content, dict) else entries
        # A list of that name further inside is found as well.
        is_first = isinstance(content, dict) and "traceEvents" in content
        is_nested = json.dumps(content).count('"traceEvents"') > is_first
        assert is_nested or found.entries == (len(entries) if isinstance(entries, list) else 0)
        trace_summary(TraceAnalysis(found))
