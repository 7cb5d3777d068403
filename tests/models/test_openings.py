"""What files hold and what is opened of them together, without a window; what file dialogs offer."""

from __future__ import annotations

from pathlib import Path

from evprof.core.sample import Sample
from evprof.loaders.bundled import bundled_sample
from ui.samples.openings import OpeningPath, look_at, opening_of

EVENTS, VIDEO = OpeningPath("/d/drive.raw", "events"), OpeningPath("/d/drive.mp4", "video")
OTHER = OpeningPath("/d/other.npy", "events")
BAD = OpeningPath("/d/notes.md", problem="/d/notes.md: is of no known kind.")


def halves(samples: tuple[Sample, ...]) -> list[tuple[str | None, str | None]]:
    return [(sample.events_path, sample.video_path) for sample in samples]


def test_one_half_may_complete_what_is_open() -> None:
    assert opening_of([EVENTS]).half == EVENTS
    assert opening_of([VIDEO, BAD]).half == VIDEO


def test_several_belong_together_by_name() -> None:
    found = opening_of([OTHER, EVENTS, VIDEO, OpeningPath("/d/alone.mp4", "video")])
    assert halves(found.samples) == [("/d/other.npy", None), ("/d/drive.raw", "/d/drive.mp4"), (None, "/d/alone.mp4")]


def test_everything_at_once_is_said_in_a_line() -> None:
    found = opening_of(
        [OpeningPath("/a.evprof", "session"), OpeningPath("/b.json", "legacy"), OpeningPath("/c.json", "legacy"), BAD]
    )
    assert (found.sessions, found.results) == (("/a.evprof",), ("/b.json", "/c.json"))
    assert found.problems == ((BAD.problem, "bad"),)


def test_what_cannot_be_opened_is_a_short_sentence(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("nothing")
    found = look_at(str(tmp_path / "notes.md"))
    assert found.kind == ""
    assert found.problem == f"{tmp_path / 'notes.md'}: is of no known kind."


def test_a_bundled_folder_is_a_sequence() -> None:
    folder = Path(bundled_sample().events_path or "").parent
    found = look_at(str(folder))
    assert found.kind == "sequence"
    assert found.samples[0].events_path == bundled_sample().events_path
    assert "taken to begin together" in found.problem
    assert "--video" not in found.problem
    assert found.tone == "warn"
