"""What is planned for a list of samples, under which names, and what the samples become."""

from __future__ import annotations

import json
import tempfile
import unicodedata
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evprof.core.errors import UserError
from evprof.core.sample import Sample
from evprof.run.conversion.dataset import JOURNAL, JournalEntry, is_done, read_journal
from evprof.run.conversion.plan import LONGEST_BYTES, FolderNames, converted, plan_rows, safe_name
from evprof.run.conversion.task import ConversionRecipe, Written

OUT = Path("out")
PAIR = Sample(events_path="/d/e.npy", video_path="/d/v.mp4", name="pair")


@given(st.lists(st.text(max_size=300), max_size=30))
def test_folder_names_are_safe_and_different(names: list[str]) -> None:
    makes = FolderNames()
    found = [makes.next(name) for name in names]
    assert len({unicodedata.normalize("NFKC", name).casefold() for name in found}) == len(found)
    for name in found:
        assert name.strip(". ") == name != ""
        assert not set(name) & set('/\\:*?"<>|\0\n')
        assert len(name.encode("utf-8")) <= LONGEST_BYTES + 8
        assert name not in (".", "..", "manifest.csv", "conversion.jsonl")
    assert found == [name for makes in [FolderNames()] for name in map(makes.next, names)]


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("drive/000001", "drive_000001"),
        ("../../etc/passwd", "etc_passwd"),
        ("a 12.50 s", "a_12.50_s"),
        ("..", "sample"),
        ("", "sample"),
        ("夜の道", "夜の道"),
    ],
)
def test_names(name: str, wanted: str) -> None:
    assert safe_name(name) == wanted


@pytest.mark.parametrize(
    ("to", "only", "wanted"),
    [
        ("npy", None, ["pair/events.npy"]),
        ("npy", "events", ["pair/events.npy"]),
        ("npy", "video", ["pair/events.npy"]),
        ("mp4", None, ["pair/video.mp4"]),
        ("mp4", "events", ["pair/events.mp4"]),
        ("frames", None, ["pair/event-frames", "pair/video-frames"]),
        ("frames", "video", ["pair/video-frames"]),
    ],
)
def test_which_halves_are_read(to: str, only: str | None, wanted: list[str]) -> None:
    plan = plan_rows([PAIR], OUT, ConversionRecipe(to), only)
    assert list(plan.tasks) == wanted
    sources = {output: task.source for output, task in plan.tasks.items()}
    if to == "npy":
        assert sources == {wanted[0]: "video" if only == "video" else "events"}


def test_what_cannot_be_converted_is_a_problem_of_its_row() -> None:
    alone = [Sample(video_path="/d/v.mp4", name="v"), Sample(events_path="/d/e.npy", name="e")]
    plan = plan_rows(alone, OUT, ConversionRecipe("npy"), None)
    assert "--only video" in (plan.rows[0].problem or "")
    assert plan.rows[1].problem is None
    plan = plan_rows(alone, OUT, ConversionRecipe("mp4"), None)
    assert plan.rows[0].problem is None
    assert plan.rows[1].problem == "has no video."


def test_what_rows_share_is_converted_once() -> None:
    samples = [replace(PAIR, name=str(number), prompt=str(number)) for number in range(50)]
    samples.append(replace(PAIR, name="clip", start_us=0, duration_us=5))
    plan = plan_rows(samples, OUT, ConversionRecipe("frames"), None)
    assert list(plan.tasks) == [f"{name}/{half}-frames" for name in ("0", "clip") for half in ("event", "video")]
    assert len({row.outputs for row in plan.rows}) == 2


def became(sample: Sample, to: str, only: str | None, starts_us: dict[str, int]) -> Sample:
    plan = plan_rows([sample], OUT, ConversionRecipe(to), only)
    written = {output: Written("events", 1, starts_us=starts_us[task.source]) for output, task in plan.tasks.items()}
    return converted(plan.rows[0], plan, written)


CLIP = replace(PAIR, start_us=10_000, duration_us=20_000, video_offset_us=3_000)


@pytest.mark.parametrize(
    ("to", "only", "starts_us", "clip"),
    [
        # The first event left lies at 10.3 ms, the first frame left at 3 + 7 = 10 ms.
        ("frames", None, {"events": 10_300, "video": 7_000}, (None, None, -300)),
        # The new zero is 10.3 ms: the video began 7.3 ms before it, and the clip ends 19.7 ms after it.
        ("npy", None, {"events": 10_300}, (0, 19_700, -7_300)),
        ("mp4", None, {"video": 7_000}, (10_000, 20_000, 10_000)),
        # The first simulated event, 7.5 ms into the video, is the new zero.
        ("npy", "video", {"video": 7_500}, (0, 30_000 - 10_500, -7_500)),
        ("mp4", "events", {"events": 10_300}, (10_000, 20_000, 10_300)),
    ],
)
def test_clocks_of_what_was_cut(to, only, starts_us, clip) -> None:
    found = became(CLIP, to, only, starts_us)
    assert (found.start_us, found.duration_us, found.video_offset_us) == clip
    assert (found.events_path == CLIP.events_path) == (to == "mp4")
    assert found.video_times_path == (str(OUT / "pair/video-frames/times.txt") if to == "frames" else None)


def test_clocks_of_a_video_alone() -> None:
    alone = became(replace(CLIP, events_path=None), "mp4", None, {"video": 7_000})
    assert (alone.start_us, alone.duration_us, alone.video_offset_us) == (None, None, 0)


def test_a_key_changes_with_the_recipe_and_the_source(tmp_path: Path) -> None:
    path = tmp_path / "e.npy"
    path.write_bytes(b"one")
    sample = Sample(events_path=str(path), name="a")

    def key(recipe: ConversionRecipe, of: Sample = sample) -> str:
        return next(iter(plan_rows([of], OUT, recipe, None).tasks.values())).key()

    before = key(ConversionRecipe("npy"))
    assert before == key(ConversionRecipe("npy"), replace(sample, name="b", prompt="?"))
    others = {
        key(ConversionRecipe("npy", layout="structured")),
        key(ConversionRecipe("npz")),
        key(ConversionRecipe("npy"), replace(sample, start_us=1)),
    }
    path.write_bytes(b"three")
    others.add(key(ConversionRecipe("npy")))
    assert len(others | {before}) == 5


def test_a_journal_counts_only_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "events.npy").write_bytes(b"12345")
    entry = JournalEntry("a/events.npy", "k", Written("events", 5, events=1, notes=("n",)))
    gone = JournalEntry("b/events.npy", "k", Written("events", 5))
    lines = [{"evprof_conversion": 1}, entry.to_json(), gone.to_json()]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (tmp_path / JOURNAL).write_text(text + '{"output": "c/events.npy", "key": "k", "wri')
    entries = read_journal(tmp_path)
    assert entries == {"a/events.npy": entry, "b/events.npy": gone}
    assert is_done(tmp_path, "a/events.npy", entry, "k")
    assert not is_done(tmp_path, "a/events.npy", entry, "other")
    assert not is_done(tmp_path, "b/events.npy", gone, "k")
    (tmp_path / "a" / "events.npy").write_bytes(b"1234")
    assert not is_done(tmp_path, "a/events.npy", entry, "k")


@given(st.binary(max_size=400))
def test_any_journal_is_read_or_refused(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for head in (b"", b'{"evprof_conversion": 1}\n'):
            (Path(folder) / JOURNAL).write_bytes(head + content)
            try:
                assert "a" not in read_journal(Path(folder))
            except UserError:
                continue
