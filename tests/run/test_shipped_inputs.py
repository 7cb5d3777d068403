"""Inputs on machines that do not see them: read in place where the content is the same, else copied once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from evprof.core.errors import UserError
from evprof.core.messages import RunEnded, RunStarted
from evprof.core.request import RunRequest
from evprof.core.run_info import FINISHED, PLACE
from evprof.core.sample import Sample
from evprof.core.vocabulary.generation import ModelChoice
from evprof.loaders.content import content_hash
from evprof.run.places import inputs
from evprof.run.places.engine_seat import EngineSeat, SeatTerms
from evprof.run.places.inputs import InputCopies, InputListing, OwnInputs
from scripted_process import engine_argv


class Elsewhere:
    """A source whose machine has the inputs below `root`, which this one does not see under their paths."""

    def __init__(self, root: Path, samples: list[Sample]) -> None:
        self._root = str(root)
        self._own = OwnInputs([self._there(sample) for sample in samples])
        self.pieces: list[str] = []

    def _there(self, sample: Sample) -> Sample:
        events, video = (
            path if path is None else self._root + path for path in (sample.events_path, sample.video_path)
        )
        return replace(sample, events_path=events, video_path=video)

    def listing(self, path: str) -> InputListing:
        return self._own.listing(self._root + path)

    def piece(self, path: str, name: str, offset: int) -> bytes:
        self.pieces.append(name)
        return self._own.piece(self._root + path, name, offset)


@pytest.fixture
def there(tmp_path: Path) -> Path:
    """A recording of three pieces, a folder of pictures, and a set of them."""
    root = tmp_path / "there"
    (root / "data/frames/deep").mkdir(parents=True)
    (root / "data/scene.npy").write_bytes(bytes(range(256)) * 10)
    for name in ("1.png", "2.png", "deep/3.png"):
        (root / "data/frames" / name).write_bytes(name.encode() * 100)
    return root


@pytest.mark.parametrize("path", ["/data/scene.npy", "/data/frames", "/data/frames/*.png"])
def test_what_is_not_seen_is_copied_once(there, tmp_path, monkeypatch, path):
    monkeypatch.setattr(inputs, "PIECE_BYTES", 1000)
    sample = Sample(events_path=path, name="s")
    source, folder = Elsewhere(there, [sample]), tmp_path / "copies"
    copies = InputCopies(source, folder)
    here = copies.sample_here(sample)
    assert here.events_path.startswith(str(folder))
    assert content_hash(here.events_path) == content_hash(f"{there}{path}")
    assert copies.sent_bytes == sum(source.listing(path).files.values())
    sent = len(source.pieces)
    again = InputCopies(source, folder)
    assert again.sample_here(sample) == copies.sample_here(sample) == here
    assert (len(source.pieces), again.sent_bytes) == (sent, 0), "another engine of the machine finds it there"
    assert [entry.name for entry in folder.iterdir() if entry.name.endswith(".part")] == []


@pytest.mark.parametrize(("content", "is_same"), [(b"same", True), (b"else", False), (b"longer", False)])
def test_the_content_decides_whether_it_is_read_in_place(tmp_path, content, is_same):
    (tmp_path / "here").mkdir()
    path = str(tmp_path / "here/scene.npy")
    Path(path).write_bytes(content)
    there = tmp_path / "there"
    (there / path.lstrip("/")).parent.mkdir(parents=True)
    Path(f"{there}{path}").write_bytes(b"same")
    sample = Sample(events_path=path)
    found = InputCopies(Elsewhere(there, [sample]), tmp_path / "copies").sample_here(sample)
    assert (found.events_path == path) is is_same
    assert Path(found.events_path).read_bytes() == b"same"


def test_only_inputs_of_the_suite_are_given(there):
    source = OwnInputs([Sample(events_path=f"{there}/data/scene.npy")])
    with pytest.raises(UserError, match="no input of this suite"):
        source.piece("/etc/passwd", "passwd", 0)


def test_a_name_that_leads_out_of_the_folder_is_refused(tmp_path):
    class Hostile:
        def listing(self, path: str) -> InputListing:
            return InputListing("sha256:0", True, {"../../out": 1})

        def piece(self, path: str, name: str, offset: int) -> bytes:
            return b"x"

    with pytest.raises(UserError, match="rename it"):
        InputCopies(Hostile(), tmp_path / "copies").sample_here(Sample(events_path="/nowhere/frames"))
    assert not (tmp_path / "out").exists()


def test_a_run_at_a_place_tells_the_paths_that_were_asked_for(there, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    sample = Sample("/data/scene.npy", "/data/frames", name="s")
    seat = EngineSeat(SeatTerms(lambda: engine_argv("script:400"), threads=1), Elsewhere(there, [sample]))
    try:
        request = RunRequest("side-by-side", sample, ModelChoice("draft"), ModelChoice("target"), cell="c")
        answer = seat.carry_out(request.to_json())
        assert (answer.lost, answer.is_cold, answer.sent_bytes > 2560) == (None, False, True)
        started = [message.info for message in answer.arrival.messages if isinstance(message, RunStarted)]
        assert {info.sample for info in started} == {sample}
        assert {info.environment[PLACE] for info in started} == {seat.describe()[PLACE]}
        assert {found.status for found in answer.arrival.messages if isinstance(found, RunEnded)} == {FINISHED}
    finally:
        seat.close()


def test_an_input_that_nobody_has_is_a_failed_run(there, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    sample = Sample("/data/gone.npy", name="s")
    seat = EngineSeat(SeatTerms(lambda: engine_argv("die"), threads=1), Elsewhere(there, [sample]))
    answer = seat.carry_out(RunRequest("draft", sample, ModelChoice("draft")).to_json())
    [ended] = [found for found in answer.arrival.messages if isinstance(found, RunEnded)]
    assert "gone.npy: cannot be read" in ended.error
    assert answer.lost is None
