"""Traces are read as a stream: what they hold is told, whatever they unpack to or are nested like."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evprof.core.errors import UserError
from evprof.loaders.trace import MOST_CATEGORIES, OTHER_CATEGORIES, read_trace

ENTRIES: list[dict[str, Any]] = [
    {"ph": "M", "name": "process_name", "args": {"name": "python"}},
    {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 1000.5, "dur": 20, "args": {"ts": 5, "ph": "M"}},
    {"ph": "X", "cat": "cpu_op", "name": "aten::add", "ts": 1010, "dur": 4.5},
    {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#3", "ts": 900, "dur": 500},
    {"ph": "i", "name": "mark", "ts": 1, "s": [1, {"ph": "X"}]},
]


def written(folder: Path, content: bytes | Any, name: str = "a.pt.trace.json") -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return path


@pytest.mark.parametrize("is_packed", [True, False])
@pytest.mark.parametrize(
    "around", [lambda entries: entries, lambda entries: {"schemaVersion": 1, "traceEvents": entries, "traceName": "x"}]
)
def test_what_a_trace_holds(tmp_path: Path, around: Any, is_packed: bool) -> None:
    content = json.dumps(around(ENTRIES)).encode()
    found = read_trace(written(tmp_path, gzip.compress(content) if is_packed else content))
    assert (found.entries, found.steps, found.duration_ms) == (5, 1, 0.5)
    assert found.categories == {"cpu_op": 2, "user_annotation": 1}


def test_lists_elsewhere_are_no_entries(tmp_path: Path) -> None:
    content = {"devices": [{"ph": "X"}, [{"traceEvents": [{}]}]], "traceEvents": ENTRIES, "after": [{"ph": "X"}]}
    assert read_trace(written(tmp_path, content)).entries == 5
    assert read_trace(written(tmp_path, {"a": {"traceEvents": ENTRIES}})).entries == 0


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
    tracemalloc.start()
    try:
        with pytest.raises(UserError, match="made to fill the memory"):
            read_trace(path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 16 << 20


ODD: dict[str, bytes] = {
    "nested without end": b'{"traceEvents":' + b"[" * 100_000,
    "nested tables": b'{"traceEvents":[' + b'{"a":' * 100_000,
    "cut short": json.dumps(ENTRIES).encode()[:-20],
    "cut short and packed": gzip.compress(json.dumps(ENTRIES).encode())[:-12],
    "a number of many digits": b'[{"ph":"X","ts":' + b"9" * 100_000 + b"}]",
    "a long text": b'["' + b"x" * 6_000_000 + b'"]',
}


@pytest.mark.parametrize("name", ODD)
def test_odd_traces_get_a_sentence(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError, match=r"a\.pt\.trace\.json: ") as caught:
        read_trace(written(tmp_path, ODD[name]))
    assert "\n" not in caught.value.sentence
    assert len(caught.value.sentence) < 600


def test_times_without_bounds_span_nothing(tmp_path: Path) -> None:
    times = ["NaN", "Infinity", '"soon"', '"1e400"', "null", "[1]", "true", "1e308"]
    entries = ",".join(f'{{"ph":"X","ts":{time},"dur":{time}}}' for time in times)
    assert read_trace(written(tmp_path, f"[{entries}]".encode())).duration_ms is None


def test_categories_without_end_are_counted_together(tmp_path: Path) -> None:
    found = read_trace(written(tmp_path, [{"ph": "X", "cat": f"c{n}"} for n in range(MOST_CATEGORIES + 5)]))
    assert len(found.categories) == MOST_CATEGORIES + 1
    assert found.categories[OTHER_CATEGORIES] == 5


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.integers() | st.sampled_from(["X", "ph", "ts"]),
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.dictionaries(st.sampled_from(["traceEvents", "ph", "ts", "dur", "cat", "name"]), inner, max_size=4)
        ),
        max_leaves=20,
    )
)
def test_any_json_gives_facts_or_a_sentence(tmp_path: Path, content: Any) -> None:
    path = written(tmp_path, content)
    with contextlib.suppress(UserError):
        found = read_trace(path)
        entries = content if isinstance(content, list) else None
        entries = content.get("traceEvents") if isinstance(content, dict) else entries
        assert found.entries == (len(entries) if isinstance(entries, list) else 0)
