"""Result files that are damaged, hostile or merely wrong: problems or one sentence, in bounded time and memory."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evprof.core.errors import UserError
from evprof.loaders.legacy import json_rows
from evprof.loaders.legacy.checks import FileProblems
from evprof.loaders.legacy.family import open_legacy
from evprof.loaders.legacy.json_rows import JsonRows
from evprof.loaders.legacy.rows import LegacyRow
from evprof.loaders.legacy.statistics_check import Recomputed


def written(folder: Path, text: str | bytes) -> Path:
    path = folder / "result.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def read(path: Path) -> tuple[list[LegacyRow], list[str]]:
    file = open_legacy(path)
    problems = FileProblems()
    _, rows = file.read(problems)
    return list(rows), problems.sentences(file.preview.rows)


def told(problems: list[str], *words: str) -> bool:
    return any(all(word in problem for word in words) for problem in problems)


def test_numbers_that_are_none_are_null_and_counted(legacy_shapes: ModuleType, tmp_path: Path) -> None:
    value = legacy_shapes.one_vs_eight(4)
    value["eventgpt"]["samples"][1]["s4_time"] = math.nan
    value["eventgpt"]["samples"][2]["s5_time"] = -math.inf
    value["videollava"]["stats"]["s3_time_avg"] = math.inf
    value["note"] = 'NaN and "Infinity" in a text, \\" too, stay'
    path = written(tmp_path, json.dumps(value))
    rows, problems = read(path)
    assert [entry.key for entry in rows[1].intervals] == ["stage12_time", "s3_time", "s5_time"]
    assert told(problems, "3 values are NaN or Infinity")
    assert told(problems, "eventgpt: s4_time is null", "1 of 8 rows: row 1")
    assert open_legacy(path).preview.head["note"] == value["note"]


@given(
    texts=st.lists(st.text(max_size=30), min_size=1, max_size=20),
    numbers=st.lists(st.sampled_from([math.nan, math.inf, -math.inf, 1.5, 3]), min_size=1, max_size=20),
)
def test_texts_stay_and_no_number_is_lost(texts: list[str], numbers: list[float], tmp_path: Path) -> None:
    value = {"around": {"texts": texts, "numbers": numbers}, "results": [{"t": text} for text in texts]}
    reading = JsonRows(written(tmp_path, json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")))
    rows = [row for place, _, row in reading.rows() if place == ("results",)]
    assert rows == [{"t": text} for text in texts]
    assert reading.around["around"]["texts"] == texts
    assert reading.around["around"]["numbers"] == [number if math.isfinite(number) else None for number in numbers]
    assert reading.not_numbers == sum(not math.isfinite(number) for number in numbers)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "cannot be read|no JSON"),
        ('{"results": [{"eventgpt": {"stage4_time": 1}}', "no JSON that can be read to its end"),
        ('{"results": [] } trailing', "no JSON"),
        (b'{"results": "\xff\xfe"}', "no JSON"),
        ("[" * 5000 + "]" * 5000, "nested too deep"),
        ('{"results": ' + '{"a": ' * 60 + "1" + "}" * 60 + "}", "nested more than"),
    ],
)
def test_damaged_and_enormous_files_are_refused_in_a_sentence(text: str | bytes, words: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=words) as caught:
        open_legacy(written(tmp_path, text))
    assert "\n" not in caught.value.sentence
    assert len(caught.value.sentence) < 400


def test_more_rows_than_a_session_can_hold_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_rows, "MOST_ROWS", 500)
    row = '{"eventgpt": {"stage4_time": 1}}'
    with pytest.raises(UserError, match="more than 500 rows"):
        open_legacy(written(tmp_path, f'{{"results": [{",".join([row] * 501)}]}}'))


WRONG: list[Any] = [None, "12", True, [], {}, -1, 1e300, [1, 2], {"a": 1}, "NaN", 10**15]


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every container of a file with every key of it; of lists the first entry only."""
    if isinstance(value, dict):
        for key in list(value):
            yield value, key
            yield from places(value[key])
    elif isinstance(value, list) and value:
        yield value, 0
        yield from places(value[0])


SHAPES = (
    *("one_vs_eight", "sample_rows", "five_stages", "end_to_end", "with_errors", "prefill_rows", "four_stages"),
    *("matched_answers", "shared_decoder", "word_estimates", "token_lists", "verified_drafts"),
)


@pytest.mark.parametrize("shape", SHAPES)
def test_anything_anywhere_may_be_wrong(shape: str, legacy_shapes: ModuleType, tmp_path: Path) -> None:
    value = getattr(legacy_shapes, shape)()
    for container, key in list(places(value)):
        kept = container[key]
        wrongs: tuple[Any, ...] = (None, "12", [], {}, -1, 1e300, 10**15)
        for wrong in wrongs:
            container[key] = wrong
            path = written(tmp_path, json.dumps(value))
            try:
                file = open_legacy(path)
            except UserError:  # what tells the family may be what is wrong
                continue
            problems = FileProblems()
            reader, rows = file.read(problems)
            recomputed = Recomputed(reader.published.statistics, reader.published.computed)
            for row in rows:
                recomputed.add(row)
            recomputed.compare(told := reader.published.told or {}, problems)
            assert recomputed.over_nothing(told) <= told.keys()
            assert json.dumps(recomputed.values(is_steady=False), allow_nan=False)
            assert all(sentence.endswith(".") for sentence in problems.sentences(file.preview.rows))
        container[key] = kept


@pytest.mark.parametrize("shape", ["one_vs_eight", "sample_rows", "five_stages", "end_to_end", "with_errors"])
@pytest.mark.parametrize("wrong", [None, 3, "row", [], [1], {}])
def test_a_row_may_be_anything(shape: str, wrong: Any, legacy_shapes: ModuleType, tmp_path: Path) -> None:
    value = getattr(legacy_shapes, shape)()
    rows = {
        "one_vs_eight": lambda: value["videollava"]["samples"],
        "sample_rows": lambda: value,
        "five_stages": lambda: value["errors"],
        "end_to_end": lambda: value["baseline_per_sample"],
        "with_errors": lambda: value["errors"],
    }[shape]()
    rows.append(wrong)
    found, problems = read(written(tmp_path, json.dumps(value)))
    assert found
    assert problems


@pytest.mark.parametrize("key", ["config", "eventgpt", "videollava", "datetime"])
@pytest.mark.parametrize("wrong", [None, 3, "x", [], {}])
def test_what_stands_around_the_rows_may_be_wrong(
    key: str, wrong: Any, legacy_shapes: ModuleType, tmp_path: Path
) -> None:
    value = legacy_shapes.one_vs_eight(3) | {key: wrong}
    assert read(written(tmp_path, json.dumps(value)))[0]


def test_seconds_that_are_milliseconds_are_not_believed(legacy_shapes: ModuleType, tmp_path: Path) -> None:
    value = legacy_shapes.one_vs_eight(3)
    value["videollava"]["samples"][0]["s4_time"] = 568.13
    rows, problems = read(written(tmp_path, json.dumps(value)))
    assert "s4_time" not in [entry.key for entry in rows[3].intervals]
    assert told(problems, "s4_time is more than 300 s", "was left out")


def test_totals_that_are_not_their_parts_are_told(legacy_shapes: ModuleType, tmp_path: Path) -> None:
    value = legacy_shapes.five_stages(3)
    value["results"][2]["eventgpt"]["total_time"] *= 1.5
    value["results"][1]["eventgpt"]["num_output_tokens"] = 40
    _, problems = read(written(tmp_path, json.dumps(value)))
    assert told(problems, "eventgpt: total_time is not the sum", "1 of 3 rows: row 2")
    assert told(problems, "number of tokens is not that of the token ids", "row 1")
