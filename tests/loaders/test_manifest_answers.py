"""Right answers, choices, tasks, turns and pictures of a list, in evprof's own columns and as others publish theirs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from evprof.core.sample import Sample
from evprof.core.vocabulary.scoring import ExpectedAnswer
from evprof.loaders.manifests.cells import expected_of
from evprof.loaders.manifests.manifest import Manifest, is_manifest, read_manifest
from evprof.loaders.videos.opening import open_video
from evprof.loaders.writers.frames import write_manifest


def read(folder: Path, rows: list[dict[str, Any]], name: str = "list.jsonl", **choices: Any) -> Manifest:
    (folder / "a.npy").touch()
    (folder / name).write_text("\n".join(json.dumps(row) for row in rows))
    assert is_manifest(folder / name)
    return read_manifest(folder / name, **choices)


@pytest.mark.parametrize(
    ("cells", "reference", "expected"),
    [
        ({"answer": "A red car."}, "A red car.", None),
        ({"answer": 3}, "3", None),
        ({"answer": ["two", "2", "two"]}, "two", ExpectedAnswer(("2",))),
        (
            {"answer": "two", "answers": "2|a pair", "task": "count"},
            "two",
            ExpectedAnswer(("2", "a pair"), task="count"),
        ),
        ({"choices": ["car", "bus"], "answer": "B"}, "bus", ExpectedAnswer((), ("car", "bus"), 1)),
        ({"options": {"A": "car", "B": "bus"}, "answer": "(a)"}, "car", ExpectedAnswer((), ("car", "bus"), 0)),
        ({"options": "A. car|B. bus", "answer": "Bus"}, "bus", ExpectedAnswer((), ("car", "bus"), 1)),
        ({"options": '["1", "2"]', "answer": "2"}, "2", ExpectedAnswer((), ("1", "2"), 1)),
        ({"options": ["car", "bus"], "answer_index": 0, "answer": "B"}, "car", ExpectedAnswer((), ("car", "bus"), 0)),
        ({"options": ["car", "bus"]}, None, ExpectedAnswer((), ("car", "bus"))),
    ],
)
def test_right_answers_are_read(tmp_path, cells, reference, expected):
    found = read(tmp_path, [{"events": "a.npy", "question": "Which?", **cells}])
    (sample,) = found.samples
    assert (sample.reference, sample.expected) == (reference, expected)
    assert found.problems == ()


def test_a_written_list_gives_the_same_samples(tmp_path):
    rows: list[dict[str, Any]] = [
        {"events": "a.npy", "name": "one", "question": "Which?", "choices": ["car", "bus"], "answer": "B", "task": "v"},
        {"events": "a.npy", "name": "two", "question": "How many?", "answer": "two", "answers": ["2", "a | b"]},
        {"events": "a.npy", "name": "three", "question": "What?"},
    ]
    samples = read(tmp_path, rows).samples
    write_manifest(tmp_path / "again.csv", samples)
    assert read_manifest(tmp_path / "again.csv").samples == samples


MMSPEC = {
    "id": "img_000002",
    "image": "general_vqa/img_000002.png",
    "turns": ["What is shown?", "How is it supported?", "What is behind it?"],
    "category": "A place by a lake",
    "topic": "general vqa",
}


def test_mmspecs_list_is_read_as_it_is_published(tmp_path):
    place = tmp_path / "images" / "general_vqa"
    place.mkdir(parents=True)
    Image.new("RGB", (24, 16), (200, 30, 30)).save(place / "img_000002.png")
    (sample,) = read(tmp_path, [MMSPEC], "mmspec.jsonl").samples
    assert (sample.name, sample.prompt, sample.task) == ("img_000002", "What is shown?", "general vqa")
    assert sample.video_path == str(place / "img_000002.png")
    assert not sample.is_scored
    every = read(tmp_path, [MMSPEC], "mmspec.jsonl", questions="all")
    assert [(one.name, one.prompt, one.task) for one in every.samples] == [
        ("img_000002", "What is shown?", "general vqa"),
        ("img_000002#2", "How is it supported?", "general vqa"),
        ("img_000002#3", "What is behind it?", "general vqa"),
    ]
    assert any("each is asked on its own, without the turns before it" in problem for problem in every.problems)
    video = open_video(sample.video_path)
    assert (video.info().frames, video.info().width, video.info().height) == (1, 24, 16)


def test_eventbenchs_entries_are_read(tmp_path):
    (tmp_path / "gesture").mkdir()
    (tmp_path / "gesture" / "01.npz").touch()
    entry = {
        "id": "g1",
        "event_data": "gesture/01.npz",
        "event_data_type": "gesture_recognition_EB_hand",
        "question": "<event>\nWhich gesture?",
        "options": ["A. wave", "B. fist"],
        "answer": "A",
    }
    spoken = {
        "id": "g2",
        "event_data": "gesture/01.npz",
        "data_type": "obj_counting",
        "conversations": [{"from": "human", "value": "<event>\nHow many?"}, {"from": "gpt", "value": "two"}],
    }
    found = read(tmp_path, [entry, spoken], "bench.json")
    assert found.problems == ()
    one, two = found.samples
    assert one.events_path == str(tmp_path / "gesture/01.npz")
    assert one.prompt.startswith("Which gesture?\nA. wave\nB. fist\n")
    assert one.expected == ExpectedAnswer((), ("wave", "fist"), 0, "gesture_recognition_EB_hand")
    assert (two.reference, two.task) == ("two", "obj_counting")


@pytest.mark.parametrize(
    ("cells", "clause"),
    [
        ({"choices": 7}, "it has 1 choices, not 2 to 26"),
        ({"choices": [str(n) for n in range(5000)]}, "it has 5,000 choices, more than 100"),
        ({"choices": ["a", ["b"]]}, "its choices should be a text, not a list"),
        ({"choices": ["car", "bus"], "answer": "Z"}, "its answer 'Z' is none of its choices"),
        ({"choices": ["car", "bus"], "answer": 9}, "its answer '9' is none of its choices"),
        ({"answer": [{"deep": 1}]}, "its answer should be a text, not a table"),
        ({"answers": ["x" * 90_000, "y" * 90_000]}, "its answers have more than 100,000 characters"),
        ({"task": ["a"]}, "its task should be a text, not a list"),
        ({"turns": "Which?"}, "its turns should be a list, not a text"),
        ({"turns": ["Which?"] * 2000}, "it has 2,000 turns, more than 1,000"),
    ],
)
def test_a_row_with_an_odd_answer_is_skipped(tmp_path, cells, clause):
    found = read(tmp_path, [{"events": "a.npy"}, {"events": "a.npy", "question": "Which?", **cells}])
    assert len(found.samples) == 1
    assert f"Row 2 is skipped, because {clause}." in found.problems


ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=True) | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["reference", "answers", "choices", "right_choice", "task"]), ODD))
def test_any_cells_give_an_answer_that_a_session_keeps(cells):
    try:
        reference, expected = expected_of(cells)
    except ValueError:
        return
    sample = Sample(reference=reference, expected=expected)
    assert Sample.from_facts(json.loads(json.dumps(sample.facts()))) == sample
