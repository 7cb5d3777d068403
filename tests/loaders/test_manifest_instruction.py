"""EventGPT's instruction JSON: questions, answers, and the files of a dataset's folders."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evprof.core.sample import Sample
from evprof.loaders.manifests.manifest import Manifest, is_manifest, read_manifest
from evprof.loaders.manifests.samples import without_placeholders

Reader = Callable[..., Manifest]


def put(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()


def turns(*words: str) -> list[dict[str, str]]:
    return [{"from": ("human", "gpt")[place % 2], "value": value} for place, value in enumerate(words)]


@pytest.fixture
def reads(tmp_path: Path) -> Reader:
    """Writes entries beside a dataset's folders, which hold one clip in every form, and reads them."""
    put(tmp_path, "event_npy/drive/01.npy", "mp4/drive/01.mp4", "video/drive/01/000000.png")
    put(tmp_path, *(f"event_image/drive/01_{number}.png" for number in range(5)), "event_image_1f/drive/01_0.png")

    def read(*entries: Any, **choices: Any) -> Manifest:
        path = tmp_path / "EventGPT_Instruction_Subset.json"
        path.write_text(json.dumps(entries))
        assert is_manifest(path)
        return read_manifest(path, **choices)

    return read


ENTRY: dict[str, Any] = {
    "id": "9c2d",
    "split": "drives",
    "event_data": "drive/01.npy",
    "video_data": "drive/01",
    "video_type": "images",
    "conversations": turns("<event>\nWhat is it?", "A car."),
}


def test_an_entry_is_a_sample(tmp_path: Path, reads: Reader) -> None:
    found = reads(ENTRY)
    assert found.kind == "instruction"
    assert found.problems == ()
    assert found.samples == (
        Sample(
            str(tmp_path / "event_npy/drive/01.npy"),
            str(tmp_path / "mp4/drive/01.mp4"),
            "What is it?",
            "9c2d",
            "A car.",
        ),
    )


@pytest.mark.parametrize(
    ("asked", "cleaned"),
    [
        ("<event>\nWhat?", "What?"),
        ("What?\n<event>", "What?"),
        ("<image>\n<video>\nWhat?", "What?"),
        ("<ev_start><event><ev_end>\nWhat?", "What?"),
        ("In <event> what\nmoves?", "In what\nmoves?"),
        ("First.\n<EVENT>\nThen?", "First.\nThen?"),
        ("Is 3 <events> 4?", "Is 3 <events> 4?"),
        ("<event>", ""),
    ],
)
def test_placeholders_are_taken_out(asked: str, cleaned: str) -> None:
    assert without_placeholders(asked) == cleaned


def test_the_first_question_or_all_of_them(reads: Reader) -> None:
    entry = ENTRY | {"conversations": turns("<event>\nOne?", "1.", "Two?", "2.", "Three?")}
    first = reads(entry, ENTRY | {"id": "other"})
    assert [(sample.name, sample.prompt, sample.reference) for sample in first.samples] == [
        ("9c2d", "One?", "1."),
        ("other", "What is it?", "A car."),
    ]
    assert first.problems == ("2 later questions left out; --questions all takes them.",)
    every = reads(entry, ENTRY | {"id": "other"}, questions="all")
    assert [(sample.name, sample.prompt, sample.reference) for sample in every.samples[:3]] == [
        ("9c2d", "One?", "1."),
        ("9c2d#2", "Two?", "2."),
        ("9c2d#3", "Three?", None),
    ]
    assert len(every.samples) == 4
    assert every.problems == ("2 later questions: each is asked on its own, without the turns before it.",)


@pytest.mark.parametrize(
    ("changes", "prompt", "reference"),
    [
        ({"conversations": turns("", "")}, None, None),
        ({"conversations": []}, None, None),
        ({"conversations": turns("<event>", "Lonely.")}, None, "Lonely."),
        ({"conversations": turns("", ""), "query": "<event>\nAsked so?"}, "Asked so?", None),
        ({"conversations": turns("", "A."), "query": "Asked so?", "answer": "B."}, "Asked so?", "A."),
        ({"conversations": turns("Turn?", ""), "query": "Other?", "answer": "B."}, "Turn?", "B."),
        ({"conversations": [{"from": "gpt", "value": "Hello."}, *turns("Then?", "So.")]}, "Then?", "So."),
        ({"conversations": [*turns("One?"), *turns("Two?", "2.")]}, "One?", None),
        ({"conversations": [{"role": "user", "content": "Q?"}, {"role": "assistant", "content": "A."}]}, "Q?", "A."),
    ],
)
def test_who_asks_and_who_answers(
    reads: Reader, changes: dict[str, Any], prompt: str | None, reference: str | None
) -> None:
    found = reads(ENTRY | changes)
    assert found.samples[0].prompt == (prompt or "What are the key elements in this scene?")
    assert found.samples[0].reference == reference
    told = [problem for problem in found.problems if "without a question" in problem]
    assert bool(told) == (prompt is None)


def test_without_the_recording_frames_do(tmp_path: Path, reads: Reader) -> None:
    (tmp_path / "event_npy/drive/01.npy").unlink()
    assert reads(ENTRY).samples[0].events_path == str(tmp_path / "event_image/drive/01_*.png")
    for number in range(5):
        (tmp_path / f"event_image/drive/01_{number}.png").unlink()
    assert reads(ENTRY).samples[0].events_path == str(tmp_path / "event_image_1f/drive/01_*.png")


def test_a_video_is_looked_for_in_mp4_and_then_in_video(tmp_path: Path, reads: Reader) -> None:
    put(tmp_path, "video/drive/02.mp4", "event_npy/drive/02.npy", "video/drive/03.avi", "event_npy/drive/03.npy")
    second = ENTRY | {"id": 2, "event_data": "drive/02.npy", "video_data": "drive/02"}
    third = ENTRY | {"id": 3, "event_data": "drive/03.npy", "video_data": "drive/03.avi", "video_type": "video"}
    suffixed = ENTRY | {"id": 4, "video_data": "drive/01.mp4", "video_type": "mp4"}
    apart = ENTRY | {"id": 5, "video_data": "drive/none", "mp4_data": "drive/01.mp4"}
    found = reads(ENTRY, second, third, suffixed, apart)
    assert [sample.video_path and sample.video_path.removeprefix(f"{tmp_path}/") for sample in found.samples] == [
        "mp4/drive/01.mp4",
        "video/drive/02.mp4",
        "video/drive/03.avi",
        "mp4/drive/01.mp4",
        "mp4/drive/01.mp4",
    ]
    assert found.problems == ()


def test_what_is_missing_is_named(tmp_path: Path, reads: Reader) -> None:
    put(tmp_path, "event_npy/drive/02.npy", "mp4/drive/03.mp4")
    entries = [ENTRY | {"id": n, "event_data": f"drive/0{n}.npy", "video_data": f"drive/0{n}"} for n in (1, 2, 3, 4)]
    found = reads(*entries, {"id": 5, "conversations": turns("Q?")})
    assert [sample.name for sample in found.samples] == ["1", "2", "3"]
    assert found.rows == 5
    assert found.problems == (
        "Row 2: its video 'mp4/drive/02.mp4' is not there; the sample has only its events.",
        "Row 3: its events 'event_npy/drive/03.npy' are not there; the sample has only its video.",
        "Row 4 is skipped, because its events 'event_npy/drive/04.npy' are not there and its video "
        "'mp4/drive/04.mp4' is not there.",
        "Row 5 is skipped, because it names neither events nor a video.",
    )


def test_the_other_half_is_found_by_the_clip_and_missed_by_nobody(tmp_path: Path, reads: Reader) -> None:
    put(tmp_path, "event_npy/drive/02.npy")
    only_events = {"event_data": "drive/01.npy", "conversations": turns("Q?")}
    only_video = {"video_data": "drive/01", "conversations": turns("Q?")}
    alone = {"event_data": "drive/02.npy", "conversations": turns("Q?")}
    found = reads(only_events, only_video, alone)
    assert [(bool(sample.events_path), bool(sample.video_path)) for sample in found.samples] == [
        (True, True),
        (True, True),
        (True, False),
    ]
    assert [sample.name for sample in found.samples] == ["drive/01", "drive/01 (2)", "drive/02"]
    assert found.problems == ()
