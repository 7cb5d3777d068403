"""`import evprof`: sessions as tables, runs of a pair, and what a notebook shows of them."""

from __future__ import annotations

import asyncio
import io
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import evprof
from evprof.cli import main
from evprof.cli.run.recorded_session import RunProgress
from evprof.cli.terminal import program
from evprof.core.records import STREAMS, column_kinds
from evprof.core.vocabulary.settings import SETTINGS
from evprof.export.tables import COLUMNS
from evprof.notebook.profiling import options_of
from scripted_process import engine_argv

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Has engine processes play a script."""

    def use(words: str) -> None:
        monkeypatch.setattr(program, "engine_argv", lambda: engine_argv(words))

    use("script:50")
    return use


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with two runs beside each other and a speculative one, as `profile` makes them."""
    folder = tmp_path_factory.mktemp("measured")
    with pytest.MonkeyPatch.context() as patch:
        for variable in ("XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
            patch.setenv(variable, str(folder))
        patch.setattr(program, "engine_argv", lambda: engine_argv("script:50"))
        path = evprof.profile(mode="side-by-side", warmup=0, quiet=True).save(folder / "kept.evprof")
        evprof.profile(mode="speculative", gamma=4, warmup=0, output=path, quiet=True).close()
    return path


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where everything is written."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def session(measured: Path, folder: Path) -> Any:
    """An open copy of the measured file."""
    shutil.copy(measured, folder / "kept.evprof")
    with evprof.open(Path("kept.evprof")) as found:
        yield found


def test_names_are_those_of_the_documents_and_tables(session: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(session.path), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert session.document == shown
    assert [run.document for run in session.runs] == shown["runs"]
    assert set(session.tables) == set(COLUMNS)
    for name, table in session.tables.items():
        assert ("session", *table.columns) == COLUMNS[name]
    for name, table in session.streams.items():
        assert table.columns == tuple(column_kinds(name))
    assert set(session.streams) == set(STREAMS)
    last = session.run(3)
    assert (last.mode, last.role, last.status, last.error) == ("speculative", "target", "finished", None)
    assert last.text == shown["runs"][2]["text"] != ""
    assert last.figures["time_to_first_token_ms"] == last.document["metrics"]["time_to_first_token_ms"]


def test_columns_are_arrays_of_one_kind(session: Any) -> None:
    tokens = session.run(3).tokens
    answer = tokens["piece"][tokens["origin"] != "rejected"]
    assert list(answer) == session.run(3).document["token_pieces"]
    assert tokens["token_id"].dtype == np.int64
    # Not in a round, so without one.
    assert np.isnan(session.run(1).tokens.to_pandas()["round"].astype(float)).all()
    assert session.rounds["hidden"].dtype == np.bool_
    assert session.rounds["accepted"].sum() == session.run(3).document["speculation"]["accepted"]
    with pytest.raises(ValueError, match="read-only"):
        tokens["token_id"][0] = 1
    assert len(session.tokens) == sum(len(run.tokens) for run in session.runs) == len(list(session.tokens))


@pytest.mark.parametrize(
    ("ask", "told"),
    [
        (lambda session: session.tokens["tokenid"], "'tokenid' is no column of tokens; did you mean token_id?"),
        (lambda session: session.tables["tokns"], "'tokns' is no table; did you mean tokens?"),
        (lambda session: session.run(3).streams["span"], "'span' is no stream; did you mean spans?"),
        (
            lambda session: session.run(3).figures["time_to_first_token"],
            "'time_to_first_token' is no figure; did you mean time_to_first_token_ms?",
        ),
        (lambda session: session.environment["devise"], "'devise' is no part of the environment; did you mean device?"),
    ],
)
def test_a_name_that_nobody_knows_is_told_with_the_nearest(session: Any, ask: Any, told: str) -> None:
    with pytest.raises(evprof.UserError) as caught:
        ask(session)
    assert caught.value.sentence == str(caught.value) == told
    assert isinstance(caught.value, KeyError), "what is looked up in brackets"
    assert session.tables.get("tokns") is None
    assert "tokns" not in session.tables


def test_a_table_is_the_same_for_pandas_arrow_polars_and_as_rows(session: Any) -> None:
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    for table in (*session.tables.values(), *session.streams.values()):
        arrow = table.to_arrow()
        frame = table.to_pandas()
        assert arrow.num_rows == len(frame) == len(table)
        assert arrow.column_names == list(frame.columns) == list(table.columns)
        assert arrow.to_pylist() == list(table)
        assert polars.DataFrame(table).shape == frame.shape
    assert isinstance(session.stages.to_pandas(), pandas.DataFrame)
    assert session.kv_cache.to_arrow().schema.field("bytes").type == "int64"


def test_closing_lets_go_and_takes_a_temporary_file_away(session: Any, scripted: Any) -> None:
    made = evprof.profile(mode="draft", warmup=0, quiet=True)
    run, path = made.runs[0], made.path
    assert path.exists()
    with made:
        assert len(made.tokens) > 0
    made.close()
    assert not path.parent.exists()
    for look in (lambda: made.tokens, lambda: made.runs, lambda: made.document, lambda: run.tokens, lambda: run.mode):
        with pytest.raises(evprof.UserError, match="is closed"):
            look()
    assert "closed" in repr(made)
    session.close()
    assert session.path.exists()


def test_a_session_that_is_forgotten_takes_its_temporary_file_along(scripted: Any) -> None:
    path = evprof.profile(mode="draft", warmup=0, quiet=True).path
    assert not path.exists()


def test_opening_writes_nothing_and_refuses_what_is_no_session(session: Any, folder: Path) -> None:
    before = session.path.read_bytes()
    with evprof.open(str(session.path)) as found:
        assert len(found.runs) == 3
    assert session.path.read_bytes() == before
    (folder / "no.evprof").write_text("no")
    for name in ("no.evprof", "missing.evprof"):
        with pytest.raises(evprof.UserError):
            evprof.open(folder / name)
    with pytest.raises(evprof.UserError, match="has no run 9; it has 1, 2, 3"):
        session.run(9)
    with pytest.raises(evprof.UserError, match="exists already"):
        session.save(folder / "no.evprof")


def test_settings_are_the_commands_own() -> None:
    """Every one can be asked for by its name, and is checked as the command checks it."""
    for key, entry in SETTINGS.items():
        value = not entry.default if entry.kind is bool else next((one for one in entry.known if one), None)
        if value is not None:
            assert getattr(options_of({key: value}), key) == value
    assert options_of({"alternatives": True}).alternatives is None
    assert options_of({"prompt": "-what?"}).prompt == "-what?"


@pytest.mark.parametrize(
    ("asked", "error", "said"),
    [
        ({"gama": 4}, TypeError, "no setting 'gama'; did you mean gamma"),
        ({"output_file": "x"}, TypeError, "no setting"),
        ({"gamma": 0}, evprof.UserError, "--gamma must be at least 1, not 0"),
        ({"mode": "speculativ"}, evprof.UserError, "did you mean speculative"),
        ({"max_new_tokens": "many"}, evprof.UserError, "must be a whole number, not 'many'"),
        ({"nvtx": 1}, evprof.UserError, "nvtx is True or False, not 1"),
        ({"events": "missing.npy"}, evprof.UserError, "there is no file or folder"),
        ({"draft": "evprof-tiny-evntgpt"}, evprof.UserError, "did you mean evprof-tiny-eventgpt"),
        ({"output": "kept.txt"}, evprof.UserError, "ends in .evprof"),
    ],
)
def test_what_cannot_be_is_refused_before_an_engine_starts(
    asked: dict[str, Any], error: type[Exception], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "engine_argv", lambda: pytest.fail("an engine was started"))
    with pytest.raises(error, match=said):
        evprof.profile(**asked, quiet=True)


class InterruptedStream(io.StringIO):
    """Standard error on which somebody presses Ctrl-C when a word is read."""

    def __init__(self, word: str) -> None:
        super().__init__()
        self._word = word

    def write(self, text: str) -> int:
        if self._word in text:
            self._word = "\0"
            os.kill(os.getpid(), signal.SIGINT)
        return super().write(text)


def interrupted_after_prefill(update: Callable[[RunProgress], None]) -> Callable[[RunProgress], None]:
    """The update of a progress, with Ctrl-C once the prefill is measured."""
    pressed: list[bool] = []

    def press(progress: RunProgress) -> None:
        update(progress)
        spans = [span for run in progress._book.runs.values() for span in run.stages()]
        if not pressed and any(span.name == "prefill" and span.is_settled for span in spans):
            pressed.append(True)
            os.kill(os.getpid(), signal.SIGINT)

    return press


@pytest.mark.skipif(sys.platform == "win32", reason="sends POSIX signals")
@pytest.mark.parametrize("has_loop", [False, True])
def test_an_interrupt_stops_and_keeps_also_where_a_loop_is_running(scripted, monkeypatch, has_loop: bool) -> None:
    scripted("script:0.5")
    monkeypatch.setattr(RunProgress, "update", interrupted_after_prefill(RunProgress.update))

    async def cell() -> evprof.Session:
        return evprof.profile(mode="target", warmup=0)

    found = asyncio.run(cell()) if has_loop else evprof.profile(mode="target", warmup=0)
    (run,) = found.runs
    assert run.status == "cancelled"
    assert run.figures["prefill_ms"] is not None
    assert "cancelled" in found._repr_html_()
    with pytest.raises(evprof.UserError, match="Run 1 cancelled"):
        found.raise_for_status()
    found.close()


@pytest.mark.skipif(sys.platform == "win32", reason="sends POSIX signals")
def test_the_second_interrupt_breaks_off_and_a_file_that_was_named_stays(scripted, folder: Path, monkeypatch) -> None:
    scripted("deaf:100:600")
    first = InterruptedStream("began")

    def write(text: str) -> int:
        if "stopping" in text:
            os.kill(os.getpid(), signal.SIGINT)
        return InterruptedStream.write(first, text)

    monkeypatch.setattr(first, "write", write)
    monkeypatch.setattr(sys, "stderr", first)
    with pytest.raises(KeyboardInterrupt):
        evprof.profile(mode="target", warmup=0, output=folder / "s.evprof")
    with evprof.open(folder / "s.evprof") as kept:
        assert [run.status for run in kept.runs] == ["cancelled"]


def test_an_engine_that_dies_leaves_a_failed_run_that_says_why(scripted: Any) -> None:
    scripted("lost")
    with evprof.profile(mode="draft", warmup=0, quiet=True) as found:
        assert [run.status for run in found.runs] == ["failed"]
        assert "GPU failed" in str(found.runs[0].error)
        with pytest.raises(evprof.UserError, match="GPU failed"):
            found.raise_for_status()


def test_a_session_shows_answers_and_figures_as_markup_without_scripts(session: Any) -> None:
    tree = ElementTree.fromstring(session._repr_html_())
    words = " ".join(tree.itertext())
    assert all(run.text[:60] in words for run in session.runs)
    assert "accepted / drafted" in words
    assert {element.tag for element in tree.iter()} <= {"table", "caption", "thead", "tbody", "tr", "th", "td"}


def test_words_of_others_are_no_markup() -> None:
    from evprof.notebook.tables import table_html

    tree = ElementTree.fromstring(table_html("x", ["a<b>", "n"], [["<script>alert(1)</script>", 1], [None, 2]]))
    assert not list(tree.iter("script"))
    assert "<script>alert(1)</script>" in "".join(tree.itertext())


_CLEAN = """
import sys, evprof
assert not {"numpy", "argparse", "sqlite3", "evprof.cli", "evprof.notebook"} & set(sys.modules), sys.modules.keys()
found = evprof.profile(mode="draft", max_new_tokens=2, warmup=0, quiet=True)
assert found.runs[0].status == "finished", found.runs[0].error
found.tokens.to_numpy(), found._repr_html_()
print(sorted({"torch", "transformers", "PySide6", "pandas", "pyarrow"} & set(sys.modules)))
"""


def test_a_real_run_leaves_this_process_free_of_torch() -> None:
    pytest.importorskip("torch")
    done = subprocess.run(
        [sys.executable, "-c", _CLEAN],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


@pytest.mark.leaves_threads
def test_a_run_in_this_process_measures_the_same_kinds_of_things(scripted: Any) -> None:
    pytest.importorskip("torch")
    with evprof.profile(mode="draft", max_new_tokens=2, warmup=0, in_process=True, quiet=True) as found:
        assert found.runs[0].status == "finished"
        assert found.environment["evprof"] == evprof.__version__
        assert len(found.runs[0].tokens) == 2
