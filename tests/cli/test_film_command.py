"""`evprof film`: a session's runs as a file that players open."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import av
import pytest

from evprof.cli.sessions.film import FilmProgress
from evprof.export.film import film
from evprof.view.columns import ShownModel


def test_the_last_run_is_filmed_unless_others_are_named(evprof: Any, session: Path, tmp_path: Path) -> None:
    found = evprof("film", session, "-o", tmp_path / "a.mp4", "--seconds", "1")
    assert found.code == 0, found.errors
    assert "saved" in found.errors
    assert evprof("film", session, "-o", tmp_path / "b.mp4", "--seconds", "1", "--runs", "1,2").code == 0
    pictures = []
    for name in ("a.mp4", "b.mp4"):
        with av.open(str(tmp_path / name)) as container:
            pictures.append([frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)])
    assert [len(film) for film in pictures] == [30, 30]
    assert (pictures[0][-1] != pictures[1][-1]).any()


@pytest.mark.parametrize("order", [(1, 2), (2, 1)])
def test_runs_stand_in_the_order_in_which_they_are_named(
    evprof: Any, session: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: tuple[int, int]
) -> None:
    filmed: list[int] = []

    def write_film(columns: Sequence[ShownModel], *_: object, **__: object) -> int:
        filmed.extend(column.run.run_id for column in columns)
        return 0

    monkeypatch.setattr(film, "write_film", write_film)
    assert evprof("film", session, "-o", tmp_path / "a.mp4", "--runs", ",".join(map(str, order))).code == 0
    assert filmed == list(order)


def test_what_cannot_be_meant_is_refused_in_a_sentence(evprof: Any, session: Path, tmp_path: Path) -> None:
    for words, sentence in (
        (("--runs", "9"), "there is no run 9 in this session"),
        (("--runs", "1-3"), "one run or two, not 3"),
        (("--seconds", "0"), "1 to 60 seconds"),
    ):
        found = evprof("film", session, "-o", tmp_path / "a.mp4", *words)
        assert found.code == 2
        assert sentence in found.errors
    assert evprof("film", session, "-o", tmp_path / "a.avi").code == 2
    assert evprof("film", session, "-o", session.with_suffix(".gif").parent / "no" / "a.gif").code == 1
    assert not list(tmp_path.glob("a.*"))


def test_ctrl_c_does_not_promise_what_it_does_not_keep(
    evprof: Any, session: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reach = FilmProgress.reach

    def reached(self: FilmProgress, done: int) -> None:
        reach(self, done)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(FilmProgress, "reach", reached)
    found = evprof("film", session, "-o", tmp_path / "a.mp4", "--seconds", "1")
    assert found.code == 130
    assert "nothing was written" in found.errors
    assert "stopping; nothing is kept (Ctrl-C again ends the program at once)" in found.errors
