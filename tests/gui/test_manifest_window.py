"""Lists of samples in the window: listed on top, the first one shown, what is wrong said in one sentence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from evprof.core.errors import UserError
from evprof.loaders.bundled import bundled_samples
from ui.window.main_window import MainWindow

Wait = Callable[..., None]


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """A real recording, linked under many names."""
    return Path(bundled_samples()[0].events_path or "")


def write(folder: Path, recording: Path, count: int, tail: str = "") -> Path:
    for number in range(count):
        (folder / f"{number}.npy").symlink_to(recording)
    path = folder / "list.csv"
    rows = "".join(f"{number}.npy,Question {number}?,n{number}\n" for number in range(count))
    path.write_text(f"events,prompt,name\n{rows}{tail}")
    return path


def test_samples_of_a_list_stand_on_top(window: MainWindow, tmp_path: Path, recording: Path, wait_until: Wait) -> None:
    before = len(window.samples.samples)
    window.open_paths([str(write(tmp_path, recording, 3, "1.npy,Another question?,again\n"))])
    wait_until(lambda: not window.opener.is_busy)
    assert [sample.name for sample in window.samples.samples[:3]] == ["n0", "n1", "n2"]
    assert len(window.samples.samples) == before + 3
    assert window.messages.shown is None
    assert window.toolbar.sample.prompt == "Question 0?"
    assert window.toolbar.sample.events_path == str(tmp_path / "0.npy")
    window.open_paths([str(tmp_path / "list.csv")])
    wait_until(lambda: not window.opener.is_busy)
    assert len(window.samples.samples) == before + 3


def test_a_list_of_nothing_is_refused(window: MainWindow, tmp_path: Path, recording: Path, wait_until: Wait) -> None:
    path = write(tmp_path, recording, 0, "gone.npy,What?,\n")
    before = window.samples.samples
    with pytest.raises(UserError, match="no sample of the list can be used"):
        window.open_paths([str(path)], waits=True)
    window.open_paths([str(path)])
    wait_until(lambda: not window.opener.is_busy)
    assert window.messages.shown is not None
    assert window.samples.samples == before


def test_the_frames_of_one_clip_can_be_run(window: MainWindow, tmp_path: Path, wait_until: Wait) -> None:
    from evprof.loaders.clips import save_event_frames

    save_event_frames(bundled_samples()[0], 5, tmp_path / "drive")
    for path in sorted((tmp_path / "drive").iterdir()):
        path.rename(path.with_name(f"7_{int(path.stem[-2:])}.png"))
    (tmp_path / "list.csv").write_text("events\ndrive/7_*.png\n")
    window.open_paths([str(tmp_path / "list.csv")])
    wait_until(lambda: not window.opener.is_busy)
    assert window.toolbar.sample.events_path == str(tmp_path / "drive" / "7_*.png")
    assert window.toolbar.form.problem == ""
    for path in (tmp_path / "drive").iterdir():
        path.unlink()
    assert "is gone" in window.toolbar.form.problem
