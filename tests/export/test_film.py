"""Films of runs: as many pictures at the times they should have, words when they were known, nothing half written."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageSequence

from evprof.core.errors import UserError
from evprof.core.records import DRAFT, TARGET, FrameRecord, TokenRecord
from evprof.core.run_info import ImportedFacts
from evprof.core.run_log import RunLog
from evprof.core.sample import Sample
from evprof.core.text import join_pieces
from evprof.export.film.canvas import HEIGHT, WIDTH, FilmCanvas
from evprof.export.film.film import Film, write_film
from evprof.export.film.scene import SafeScene
from evprof.export.film.words import laid_out, spoken
from evprof.loaders.bundled import bundled_sample
from evprof.view.columns import ShownModel

ANSWER = (slice(420, 600), slice(0, WIDTH))
"""Where the words are, in rows and columns."""

pieces = st.lists(st.sampled_from([" a", " bus", "es", "", " ", "<0xE2>", "<0x82>", "<0xAC>", "<0xFF>", "\n", " ⁇ "]))


def token(piece: str, t_ns: int = 0) -> TokenRecord:
    return TokenRecord(1, TARGET, 0, 5, "target", -1, t_ns, piece)


@given(pieces)
def test_what_tokens_add_is_the_text(found: list[str]) -> None:
    added = [text for _, text in spoken([token(piece) for piece in found])]
    whole = join_pieces(found)
    # Bytes that are no character yet are left out at the very end alone.
    assert whole.startswith("".join(added))
    assert set(whole[len("".join(added)) :]) <= {"\ufffd"}


@given(st.lists(st.text("ab ", min_size=1, max_size=9)), st.integers(3, 30), st.integers(1, 6))
def test_lines_hold_what_fits_and_keep_the_words(texts: list[str], width: int, lines: int) -> None:
    words = [(token(text, number), text) for number, text in enumerate(texts)]
    placed, is_whole = laid_out(words, width, lines, len)
    assert all(one.line < lines and one.width == len(one.text) for one in placed)
    assert all(one.left + one.width <= width or one.left == 0 or not one.text.startswith(" ") for one in placed)
    assert [one.t_ns for one in placed] == sorted(one.t_ns for one in placed)
    shown, meant = ("".join(text.split()) for text in ("".join(one.text for one in placed), "".join(texts)))
    assert shown == meant if is_whole else meant.startswith(shown)


@pytest.fixture
def columns(played_pair: list[RunLog]) -> list[ShownModel]:
    return [ShownModel(run, run.info.role) for run in played_pair]


@pytest.fixture
def played_pair() -> list[RunLog]:
    """The scripted engine's two runs of the bundled sample, side by side."""
    from evprof.core.recording import RecordLog
    from evprof.core.request import RunRequest
    from evprof.core.run_book import RunBook
    from evprof.core.vocabulary.generation import ModelChoice
    from scripted_engine import ScriptedEngine

    recording = RecordLog()
    choice = ModelChoice("scripted")
    request = RunRequest("side-by-side", bundled_sample(), choice, choice, first_run_id=1, group_id=1)
    ScriptedEngine(speed=2000).run(request, recording, threading.Event())
    book = RunBook(recording)
    book.update()
    return list(book.runs.values())


def decoded(path: Path) -> Iterator[tuple[float, Any]]:
    with av.open(str(path)) as container:
        for frame in container.decode(video=0):
            assert frame.pts is not None
            assert frame.time_base is not None
            yield float(frame.pts * frame.time_base), frame.to_ndarray(format="rgb24")


def brightness(picture: np.ndarray[Any, Any]) -> float:
    """How much is written where the words are."""
    return float((picture[ANSWER].max(axis=2) > 150).mean())


def test_an_mp4_has_every_picture_at_its_time_and_the_words(columns: list[ShownModel], tmp_path: Path) -> None:
    reached: list[tuple[int, int]] = []
    path = tmp_path / "a.mp4"
    count = write_film(columns, path, seconds=2, reached=lambda *at: reached.append(at))
    pictures = list(decoded(path))
    assert count == len(pictures) == 60
    assert [round(time * 30, 3) for time, _ in pictures] == list(range(60))
    assert pictures[0][1].shape == (HEIGHT, WIDTH, 3)
    assert reached == [(place, 60) for place in range(1, 61)]
    assert brightness(pictures[0][1]) == 0
    assert brightness(pictures[-1][1]) > 0.005
    assert list(tmp_path.iterdir()) == [path]


def test_a_gif_lasts_as_long_and_has_the_words(columns: list[ShownModel], tmp_path: Path) -> None:
    path = tmp_path / "a.gif"
    assert write_film(columns, path, seconds=2) == 20
    with Image.open(path) as film:
        shown = [(frame.info["duration"], np.asarray(frame.convert("RGB"))) for frame in ImageSequence.Iterator(film)]
    assert sum(duration for duration, _ in shown) == 2000
    words = slice(270, 380)
    assert (shown[0][1][words] > 150).sum() == 0
    assert (shown[-1][1][words] > 150).sum() > 100


def test_a_word_is_there_from_its_moment_on(columns: list[ShownModel]) -> None:
    shown = columns[1]
    zero = shown.run.info.start_ns or 0
    moment = shown.run.tokens[2].t_ns - zero
    canvas = FilmCanvas([shown], moment * 2, "")
    before, then, later = (
        np.asarray(canvas.picture(t_ns, [(None, "")]))[ANSWER] for t_ns in (moment - 1, moment, moment + 1)
    )
    assert (before != then).any()
    assert (then == later).all()


def test_one_clock_leads_scene_and_runs(columns: list[ShownModel], monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    at = SafeScene.at
    monkeypatch.setattr(SafeScene, "at", lambda self, moment_us: asked.append(moment_us) or at(self, moment_us))
    film = Film(columns[:1], 1)
    assert len(list(film.pictures())) == 30
    assert asked == [moment // 1000 for moment in film.moments_ns]
    assert film.moments_ns[0] == 0
    assert film.moments_ns[-1] == film.moments_ns[-3] == film.last_ns


def test_pictures_are_made_when_they_are_wanted(columns: list[ShownModel], monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    picture = FilmCanvas.picture
    monkeypatch.setattr(FilmCanvas, "picture", lambda self, t_ns, at: made.append(t_ns) or picture(self, t_ns, at))
    pictures = Film(columns, 60).pictures()
    next(pictures)
    next(pictures)
    assert len(made) == 2
    pictures.close()  # type: ignore[attr-defined]  # a generator


def test_files_are_shown_and_where_they_are_gone_what_the_run_kept(played_pair: list[RunLog]) -> None:
    run = played_pair[0]
    with SafeScene(run, DRAFT) as scene:
        early = scene.at(20_000)
        assert early is not None
        assert scene.note == "events of the last 10 ms"
        assert scene.at(10**7) is not None
        assert scene.note.startswith("ended at")
    run.info.sample = Sample("/gone/a.npy", "/gone/b.mp4", "?", "scene")
    with SafeScene(run, DRAFT) as scene:
        kept = scene.at(0)
        assert (kept is None) == (not run.frames.get(DRAFT))
    run.frames[DRAFT] = [FrameRecord(1, DRAFT, 0, 0, 9, "", b"no picture")]
    with SafeScene(run, DRAFT) as scene:
        assert scene.at(0) is None


@pytest.mark.parametrize("ending", [".mp4", ".gif"])
def test_a_film_that_is_stopped_leaves_nothing(columns: list[ShownModel], tmp_path: Path, ending: str) -> None:
    stop = threading.Event()

    def reached(done: int, _count: int) -> None:
        if done == 3:
            stop.set()

    with pytest.raises(UserError, match="cancelled") as caught:
        write_film(columns, tmp_path / f"a{ending}", seconds=3, reached=reached, stop=stop)
    assert caught.value.exit_code == 130
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_filmed_is_refused(columns: list[ShownModel], tmp_path: Path) -> None:
    with pytest.raises(UserError, match="1 to 60 seconds"):
        write_film(columns, tmp_path / "a.mp4", seconds=61)
    with pytest.raises(UserError, match=r"name it 'a\.mp4'"):
        write_film(columns, tmp_path / "a.avi")
    empty = ShownModel(RunLog(replace(columns[0].run.info, start_ns=None)), DRAFT)
    with pytest.raises(UserError, match="nothing to film"):
        write_film([empty], tmp_path / "a.mp4")
    with pytest.raises(UserError, match="cannot be written"):
        write_film(columns, tmp_path / "nowhere" / "a.mp4", seconds=1)


def test_without_x264_mpeg4_does(columns: list[ShownModel], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evprof.loaders.writers.encoder.encoder_name", lambda: "mpeg4")
    write_film(columns, tmp_path / "a.mp4", seconds=1)
    with av.open(str(tmp_path / "a.mp4")) as container:
        assert container.streams.video[0].codec_context.name == "mpeg4"
    assert [Fraction(time).limit_denominator(1000) for time, _ in decoded(tmp_path / "a.mp4")] == [
        Fraction(place, 30) for place in range(30)
    ]


def test_words_whose_moments_nobody_measured_are_not_shown(columns: list[ShownModel]) -> None:
    shown = columns[1]
    assert FilmCanvas([shown], 10**9, "").columns[0].counts(10**9)
    shown.run.info.imported = ImportedFacts("results.json", "script", 1)
    assert FilmCanvas([shown], 10**9, "").columns[0].counts(10**9) == ""
