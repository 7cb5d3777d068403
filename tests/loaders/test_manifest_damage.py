"""Lists of samples that are damaged, hostile or enormous: a sentence, bounded time and memory, never a traceback."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evprof.core.errors import UserError
from evprof.loaders.manifests import manifest
from evprof.loaders.manifests import rows as manifest_rows
from evprof.loaders.manifests.manifest import is_manifest, read_manifest
from traced_memory import memory_below


@pytest.fixture
def data(tmp_path: Path) -> Path:
    for name in ("a.npy", "a.mp4"):
        (tmp_path / name).touch()
    return tmp_path


def written(folder: Path, content: bytes | str | Any) -> Path:
    path = folder / "list"
    if not isinstance(content, bytes | str):
        content = json.dumps(content)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


REFUSED: dict[str, tuple[bytes, str]] = {
    "nested lists": (b"[" * 1_000_000, "is nested deeper than 32 levels"),
    "nested tables": (b'[{"events":' * 100_000, "is nested deeper than 32 levels"),
    "one row of many values": (b'[{"events":"a.npy","x":[' + b"1," * 200_000 + b"1]}]", "more than 100,000 values"),
    "an endless text": (b'[{"events":"' + b"x" * 6_000_000 + b'"}]', "a text in it is longer than 4 MiB"),
    "cut short": (b'[{"events":"a.npy"},{"events":"a.n', "ends too early (parse error: premature EOF) after row 1"),
    "no json": (b'[{"events":"a.npy"},{events}]', "is no valid JSON"),
    "closed twice": (b'[{"events":"a.npy"}]]', "is no valid JSON"),
    "a number without end": (b'[{"events":"a.npy","id":' + b"9" * 10_000 + b"}]", "more than 1000 digits"),
    "a number over two buffers": (b'[{"events":"a.npy","id":-' + b"9" * 70_000 + b"}]", "more than 1000 digits"),
    "no UTF-8 in JSON": (b'[{"events":"\xff.npy"}]', "invalid bytes in UTF8 string.) after row 0"),
    "no UTF-8 in CSV": (b"events,video\na.npy,a.mp4\n\xff\xfe,a.mp4\n", "is not UTF-8 text near row"),
    "a quote left open": (b'events,prompt\na.npy,"open\nb.npy,c\n', "is no valid CSV in row 1"),
    "a cell without end": (b"events,prompt\na.npy," + b"x" * 200_000 + b"\n", "is no valid CSV in row 1"),
    "a line without end": (b"x" * 3_000_000, "is no valid CSV"),
    "no header": (b"a.npy,a.mp4\na.npy,a.mp4\n", "is no list of samples"),
    "an object": (b'{"samples": 5}', "is no list of samples"),
    "numbers": (b"[1, 2, 3]", "is no list of samples"),
    "zeros": (b"events,video\n\0,\0\n", "is no text"),
    "nothing": (b"", "the file is empty"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_read_hears_why(data: Path, name: str) -> None:
    content, sentence = REFUSED[name]
    path = written(data, content)
    is_manifest(path)
    with pytest.raises(UserError) as caught:
        read_manifest(path)
    assert sentence in caught.value.sentence
    assert str(path) in caught.value.sentence
    assert "\n" not in caught.value.sentence
    assert len(caught.value.sentence) < len(str(path)) + 250


def test_places_that_are_no_files(data: Path) -> None:
    for place in (data, data / "gone", data / "a\0b", Path("/dev/null")):
        assert not is_manifest(place)
        with pytest.raises(UserError):
            read_manifest(place)


TOLD: dict[str, tuple[Any, str]] = {
    "a number for a path": ({"events": 1, "video": "a.mp4"}, "its events should be a path, not a number"),
    "a list for a path": ({"events": ["a.npy"], "video": "a.mp4"}, "its events should be a path, not a list"),
    "a truth for a path": ({"events": True, "video": "a.mp4"}, "its events should be a path, not true or false"),
    "NUL in a path": ({"events": "a\0.npy", "video": "a.mp4"}, "the path of its events holds an invalid character"),
    "a path without end": ({"events": "a/" * 3000, "video": "a.mp4"}, "is longer than 4,096 characters"),
    "control characters": ({"events": "a\x1b[31m\n.npy"}, "its events 'a�[31m�.npy' are not there"),
    "a number for a prompt": ({"video": "a.mp4", "prompt": 5}, "its prompt should be a text, not a number"),
    "a table for an answer": ({"video": "a.mp4", "reference": [{}]}, "its answer should be a text, not a table"),
    "a novel for a prompt": ({"video": "a.mp4", "prompt": "x" * 200_000}, "has 200,000 characters, more than 100,000"),
}


@pytest.mark.parametrize("name", TOLD)
def test_a_row_with_an_odd_cell_is_skipped_and_told(data: Path, name: str) -> None:
    row, sentence = TOLD[name]
    found = read_manifest(written(data, [{"events": "a.npy", "name": "good"}, row]))
    assert [sample.name for sample in found.samples] == ["good"]
    assert any(sentence in problem and problem.startswith("Row 2 is skipped") for problem in found.problems)
    assert all(problem.isprintable() for problem in found.problems)


def test_rows_that_are_no_rows(data: Path) -> None:
    rows = [{"events": "a.npy"}, 7, "a.npy", None, [1], {}]
    found = read_manifest(written(data, rows))
    assert len(found.samples) == 1
    assert found.rows == 6
    kinds = ("a number", "a text", "nothing", "a list")
    assert found.problems == (
        *(f"Row {n} is skipped, because it is {kind} instead of names and values." for n, kind in enumerate(kinds, 2)),
        "Row 6 is skipped, because it names neither events nor a video.",
    )


def test_a_session_can_keep_every_text(data: Path) -> None:
    row = {"events": "a.npy", "prompt": "p\0q", "name": "n\0\n\x1b", "reference": "\0"}
    sample = read_manifest(written(data, [row])).samples[0]
    for text in (sample.prompt, sample.name, sample.reference):
        assert text is not None
        assert "\0" not in text
    assert sample.name.isprintable()


@pytest.mark.parametrize("text", ["events,events,video\na.npy,b.npy,a.mp4\n", "events,video\na.npy,a.mp4,extra\n"])
def test_repeated_columns_and_too_many_cells_are_refused(data: Path, text: str) -> None:
    with pytest.raises(UserError, match=r"two columns of one name|more cells than there are columns"):
        read_manifest(written(data, text))
    found = read_manifest(written(data, "events,video\na.npy\n\n,a.mp4\n,,\n"))
    assert [(bool(sample.events_path), bool(sample.video_path)) for sample in found.samples] == [
        (True, False),
        (False, True),
    ]


def test_more_samples_than_allowed_are_refused(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest, "MAX_SAMPLES", 100)
    good = written(data, "events\n" + "a.npy\n" * 100)
    assert len(read_manifest(good).samples) == 100
    with pytest.raises(UserError, match="lists more than 100 samples; split it"):
        read_manifest(written(data, "events\n" + "a.npy\n" * 101))


def test_a_file_beyond_the_limit_is_refused_unread(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest_rows, "MAX_FILE_BYTES", 1 << 20)
    path = written(data, "events\n")
    os.truncate(path, 3 << 20)
    path.write_bytes(b"events\n" + b"a.npy\n" * 300_000)
    with pytest.raises(UserError, match="has 1 MiB, more than the 1 MiB allowed; split it"):
        read_manifest(path)


def test_memory_does_not_grow_with_what_is_not_kept(data: Path) -> None:
    row = json.dumps({"events": "a.npy", "x": list(range(500)), "y": "z" * 2000})
    path = written(data, "[" + ",".join([row] * 1200) + "]")
    assert path.stat().st_size > 4_500_000
    with memory_below(3_000_000):
        found = read_manifest(path)
    assert len(found.samples) == 1200


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12) | st.just("a.npy") | st.just("a"),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=12,
)
KEYS = ["id", "events", "video", "event_data", "event_image", "event_image_1f", "video_data", "mp4_data", "video_type"]
ENTRIES = st.dictionaries(
    st.sampled_from([*KEYS, "query", "conversations", "from", "value", "answer", "name"]), VALUES, max_size=8
)


@given(rows=st.lists(ENTRIES | VALUES, max_size=6), questions=st.sampled_from(["first", "all"]))
def test_any_values_give_samples_or_a_sentence(data: Path, rows: list[Any], questions: Any) -> None:
    path = written(data, rows)
    try:
        found = read_manifest(path, questions=questions)
    except UserError:
        return
    assert found.rows == len(rows)
    assert all(sample.events_path or sample.video_path for sample in found.samples)
    assert len({sample.name for sample in found.samples}) == len(found.samples)
    assert all(sample.prompt.strip() and sample.name for sample in found.samples)


@pytest.mark.parametrize(
    "text", ["1e999999999", "-1e999999999", "9e999999", "1e400", "Infinity", "nan", "sNaN", "9" * 39]
)
@pytest.mark.parametrize("form", ["csv", "json", "json text"])
def test_times_without_bounds_leave_their_row_out(data: Path, text: str, form: str) -> None:
    content = {
        "csv": f"events,start_ms\na.npy,{text}\n",
        "json": f'[{{"events": "a.npy", "start_ms": {text}}}]',
        "json text": f'[{{"events": "a.npy", "start_ms": "{text}"}}]',
    }[form]
    if form == "json" and set("an") & set(text.lower()):
        with pytest.raises(UserError, match="no valid JSON"):
            read_manifest(written(data, content))
        return
    found = read_manifest(written(data, content))
    assert all(sample.start_us is None for sample in found.samples)
    assert len(" ".join(found.problems)) < 500
