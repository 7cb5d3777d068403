"""Lists of samples in their own columns: formats, names, what is missing, and what the documents show."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from evprof.core.errors import UserError
from evprof.core.sample import Sample
from evprof.loaders.manifests.manifest import Manifest, is_manifest, read_manifest
from evprof.loaders.manifests.samples import COLUMNS
from evprof.loaders.probe import probe

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder with two recordings and two videos; nothing reads them."""
    for name in ("a.npy", "a.mp4", "b.npy", "b.mp4"):
        (tmp_path / name).write_bytes(b"\x93NUMPY, or so it looks")
    return tmp_path


def listed(folder: Path, text: str | bytes, name: str = "list.csv") -> Manifest:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_manifest(path)


def test_the_same_list_in_every_format(data: Path) -> None:
    wanted = (
        Sample(str(data / "a.npy"), str(data / "a.mp4"), "Where?", "first", "Here."),
        Sample(str(data / "b.npy"), None, "What are the key elements in this scene?", "second", None),
    )
    rows = [
        {"name": "first", "events": "a.npy", "video": "a.mp4", "prompt": "Where?", "reference": "Here."},
        {"name": "second", "events": "b.npy"},
    ]
    csv = "name,events,video,prompt,reference\nfirst,a.npy,a.mp4,Where?,Here.\nsecond,b.npy,,,\n"
    for text, kind in {
        csv: "csv",
        csv.replace(",", ";").replace("\n", "\r\n"): "csv",
        csv.replace(",", "\t"): "csv",
        json.dumps(rows): "json",
        "\n".join(json.dumps(row) for row in rows): "json",
    }.items():
        for encoding in ("utf-8", "utf-8-sig"):
            found = listed(data, text.encode(encoding), "no-suffix")
            assert found.samples == wanted, (text, encoding)
            assert (found.kind, found.rows) == (kind, 2)
            assert found.problems == (
                "1 sample without a question: 'What are the key elements in this scene?' is asked.",
            )
            assert is_manifest(found.path)
            assert probe(found.path) == "manifest"


def _jpeg() -> bytes:
    from io import BytesIO

    from PIL import Image

    file = BytesIO()
    Image.new("RGB", (8, 8)).save(file, "JPEG")
    return file.getvalue()


JPEG = _jpeg()


@pytest.mark.parametrize(
    ("field", "synonym"),
    [(field, name) for field in ("events", "prompt", "reference", "name") for name in COLUMNS[field]],
)
def test_columns_have_synonyms_whatever_their_case(data: Path, field: str, synonym: str) -> None:
    values = {"events": "a.npy", "video": "a.mp4", "prompt": "Who?", "reference": "Me.", "name": "n"}
    header = [synonym.title() if column == field else column for column in values]
    found = listed(data, f"{','.join(header)}\n{','.join(values.values())}\n")
    assert found.samples == (Sample(str(data / "a.npy"), str(data / "a.mp4"), "Who?", "n", "Me."),)
    assert found.problems == ()


def test_of_two_columns_that_say_the_same_the_preferred_one_counts(data: Path) -> None:
    found = listed(data, "id,events,name,colour\n7,a.npy,seven,red\n8,b.npy,eight,red\n")
    assert [sample.name for sample in found.samples] == ["seven", "eight"]
    assert found.problems == (
        "Column 'colour' is not known and is left out.",
        "Column 'id' is not known and is left out.",
    )


def test_names_are_unique(data: Path) -> None:
    rows = [{"events": "a.npy", "name": name} for name in ("x", "x", "x (2)", "x", 5, 5)]
    found = listed(data, json.dumps(rows), "l.json")
    names = [sample.name for sample in found.samples]
    assert names == ["x", "x (2)", "x (2) (2)", "x (3)", "5", "5 (2)"]


def test_without_a_name_the_file_gives_it_and_nobody_minds_two_questions_about_one(data: Path) -> None:
    (data / "far" / "away").mkdir(parents=True)
    (data / "far" / "away" / "clip.1.npz").touch()
    rows = [
        {"events": "./a.npy", "prompt": "One?"},
        {"events": "a.npy", "prompt": "Two?"},
        {"video": "b.mp4", "prompt": "Three?"},
        {"events": "far/away/clip.1.npz", "prompt": "Four?"},
        {"events": str(data / "b.npy"), "prompt": "Five?"},
    ]
    found = listed(data, json.dumps(rows), "l.json")
    last = "/".join((data / "b").parts[-3:])
    assert [sample.name for sample in found.samples] == ["a", "a (2)", "b", "far/away/clip.1", last]
    assert found.problems == ()


def test_what_is_missing_is_told_and_the_rest_stays(data: Path) -> None:
    (data / "frames").mkdir()
    found = listed(
        data,
        "events,video\na.npy,gone.mp4\ngone.npy,a.mp4\ngone.npy,gone.mp4\n,\nframes,frames\nb.npy,b.mp4\n ,b.mp4\n",
    )
    assert [(bool(sample.events_path), bool(sample.video_path)) for sample in found.samples] == [
        (True, False),
        (False, True),
        (True, False),
        (True, True),
        (False, True),
    ]
    assert found.rows == 6
    assert found.problems == (
        "Row 1: its video 'gone.mp4' is not there; the sample has only its events.",
        "Row 4: its video 'frames' is not there; the sample has only its events.",
        "Row 2: its events 'gone.npy' are not there; the sample has only its video.",
        "Row 3 is skipped, because its events 'gone.npy' are not there and its video 'gone.mp4' is not there.",
    )


def test_paths_start_from_the_folder_of_the_list_or_from_a_root(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (data / "lists").mkdir()
    text = "events,video\n../a.npy,../b.mp4\n"
    found = listed(data / "lists", text)
    assert Path(found.samples[0].events_path or "").samefile(data / "a.npy")
    assert Path(found.samples[0].video_path or "").samefile(data / "b.mp4")
    (data / "lists" / "flat.csv").write_text("events\na.npy\n")
    monkeypatch.chdir(data)
    rooted = read_manifest(Path("lists/flat.csv"), root=Path("."))
    assert rooted.samples[0].events_path == str(data / "a.npy")
    assert read_manifest("lists/flat.csv").samples == ()


def test_a_limit_ends_the_reading(data: Path) -> None:
    text = "events,name\n" + "".join(f"a.npy,n{number}\n" for number in range(500)) + '"never closed'
    (data / "long.csv").write_text(text)
    found = read_manifest(data / "long.csv", limit=3)
    assert [sample.name for sample in found.samples] == ["n0", "n1", "n2"]
    assert found.problems == ("Only the first 3 rows of the list were read.",)
    with pytest.raises(UserError, match=r"long\.csv: is no valid CSV in row 501"):
        read_manifest(data / "long.csv")
    (data / "all-gone.csv").write_text("events\n" + "gone.npy\n" * 500)
    unfound = read_manifest(data / "all-gone.csv", limit=3)
    assert (unfound.rows, unfound.samples) == (60, ())
    (data / "short.csv").write_text("events\na.npy\nb.npy\n")
    assert read_manifest(data / "short.csv", limit=2).problems == ()


@pytest.mark.parametrize(
    "text",
    [
        b'{"traceEvents": [{"ph": "X", "events": 1}]}',
        b"[1, 2, 3]",
        b'[{"id": 1, "event_data": "a.npy", "egpt_time": 1.5, "egpt_token_ids": [1]}]',
        b'{"eventgpt": {"samples": [{"events": 1}]}}',
        b'data = "list.csv"\nsamples = ["a"]\n[settings]\nmode = "draft"\n',
        b"t,x,y,p\n1,2,3,0\n",
        b"Dear Sir,\nthe events of last week\n",
        b"\x00\x01\x02\x03",
        b"",
    ],
)
def test_other_files_are_no_lists(data: Path, text: bytes) -> None:
    (data / "other").write_bytes(text)
    assert not is_manifest(data / "other")


@pytest.mark.parametrize("number", range(3))
def test_the_lists_that_the_page_shows_are_read(tmp_path: Path, number: int) -> None:
    page = (DOCS / "datasets.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```(csv|json)\n(.*?)```", page, re.DOTALL)
    form, text = blocks[number]
    assert len(blocks) == 3
    for folder in ("", "event_npy/", "mp4/"):
        for name in ("night/000001.npy", "night/000001.mp4", "day/000007.npy"):
            path = tmp_path / folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
    found = listed(tmp_path, text, f"list.{form}")
    first = found.samples[0]
    assert first.events_path.endswith("night/000001.npy")
    assert first.video_path is not None
    assert (first.prompt, first.reference) == ("What is crossing the road?", "A red car.")
    assert not any(word in problem for problem in found.problems for word in ("not there", "not known", "left out"))


def test_clips_are_cut_in_any_unit_and_told_apart_by_where_they_begin(data: Path) -> None:
    found = listed(
        data,
        "events,start_ms,duration_ms,video_offset_ms,video\na.npy,12500,50,-20.125,a.mp4\na.npy,12550,50,,\na.npy,,,,\n",
    )
    first, second, whole = found.samples
    assert (first.start_us, first.duration_us, first.video_offset_us) == (12_500_000, 50_000, -20_125)
    assert (second.start_us, second.duration_us, second.video_offset_us) == (12_550_000, 50_000, 0)
    assert not whole.is_clip
    assert [sample.name for sample in found.samples] == ["a 12.50 s", "a 12.55 s", "a"]
    assert found.problems == ()
    rows = [
        {"events": "a.npy", "name": "bus", "START_S": 0.1, "duration_us": "50000"},
        {"events": "b.npy", "name": "bus"},
    ]
    rows.append({"events": "a.npy", "name": "bus", "START_S": 0.1000005, "duration_us": 7})
    spelled = listed(data, json.dumps(rows), "l.json").samples
    assert [(sample.start_us, sample.duration_us) for sample in spelled] == [
        (100_000, 50_000),
        (None, None),
        (100_000, 7),
    ]
    assert [sample.name for sample in spelled] == ["bus", "bus (2)", "bus 0.10 s"]


@pytest.mark.parametrize(
    ("cells", "clause"),
    [
        ({"start_ms": "soon"}, "because its start_ms should be a time, not 'soon'"),
        ({"duration_s": "1e400"}, "because its duration_s should be a time"),
        ({"duration_s": True}, "because its duration_s should be a time"),
        ({"start_ms": -3}, "A clip starts at 0 ms or later, not at -3 ms"),
        ({"duration_ms": 0}, "A clip lasts longer than 0 ms"),
        ({"rectify": "gone.h5"}, "because its rectify 'gone.h5' is not there"),
        ({"video_times": ["x"]}, "its video_times should be a path, not a list"),
        ({"sequence": "nowhere"}, "its sequence 'nowhere' is not there"),
    ],
)
def test_a_row_whose_clip_cannot_be_is_left_out_and_told(data: Path, cells: dict[str, object], clause: str) -> None:
    found = listed(data, json.dumps([{"events": "a.npy"} | cells, {"events": "b.npy"}]), "l.json")
    assert [sample.name for sample in found.samples] == ["b"]
    assert found.problems[0].startswith("Row 1 is skipped, because")
    assert clause in found.problems[0]


def test_a_row_may_name_a_folder_with_a_recording_and_its_video(data: Path) -> None:
    import numpy as np

    folder = data / "drive"
    (folder / "frames").mkdir(parents=True)
    np.savez(folder / "scene.npz", x=[1, 2], y=[1, 2], t=[5_000_000, 6_000_000], p=[0, 1])
    for number in range(3):
        (folder / "frames" / f"{number}.jpg").write_bytes(JPEG)
    (folder / "image_timestamps.txt").write_text("5100000\n5200000\n5300000\n")
    for column in ("sequence", "events"):
        found = listed(data, f"{column},start_ms,duration_ms\ndrive,100,50\ndrive,150,50\n")
        sample = found.samples[0]
        assert sample.events_path == str(folder / "scene.npz")
        assert sample.video_path == str(folder / "frames")
        assert sample.video_times_path == str(folder / "image_timestamps.txt")
        assert (sample.video_offset_us, sample.start_us) == (100_000, 100_000)
        assert [sample.name for sample in found.samples] == ["drive 0.10 s", "drive 0.15 s"]
        assert found.problems == ()
        assert probe(found.path) == "manifest"
