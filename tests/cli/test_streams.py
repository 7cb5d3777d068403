"""Standard streams that are closed, full or left by their reader, and homes that cannot be written: never a defect."""

from __future__ import annotations

import errno
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from driven_command import DRIVER, TESTS, saved_tokens
from evprof.cli import main
from evprof.cli.run.recorded_session import read_runs
from evprof.cli.terminal.crash import report_crash, sentence_of, write_report
from evprof.core.files import user_folders
from evprof.loaders.bundled import bundled_sample

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="closes POSIX descriptors")

Evprof = Callable[..., Any]


@pytest.fixture
def command(tmp_path: Path) -> list[str]:
    """A short run of an engine without models, in a process of its own; its session is s.evprof."""
    video = bundled_sample().video_path
    driver = DRIVER.format(tests=TESTS, engine="rate").replace(":200:3600", ":200:0.3")
    return [sys.executable, "-c", driver, "run", "--video", str(video), "-o", str(tmp_path / "s.evprof")]


def redirected(command: list[str], how: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """The command as a shell starts it with `how`, which may be `>&-`."""
    words = ["sh", "-c", f'exec "$@" {how}', "sh", *command]
    return subprocess.run(words, check=False, capture_output=True, text=True, timeout=300, **options)


def is_saved(tmp_path: Path) -> bool:
    return [run.info.status for run in read_runs(str(tmp_path / "s.evprof"))] == ["finished"]


def test_closed_output_is_an_output_that_nobody_wants(command: list[str], tmp_path: Path) -> None:
    found = redirected(command, ">&-")
    assert (found.returncode, found.stdout) == (0, "")
    assert "session saved" in found.stderr
    assert is_saved(tmp_path)


def test_closed_errors_cost_nothing_but_their_lines(command: list[str], tmp_path: Path) -> None:
    found = redirected([*command, "--json"], "2>&-")
    assert found.returncode == 0
    assert json.loads(found.stdout)["runs"][0]["status"] == "finished"
    assert is_saved(tmp_path)


def test_a_full_output_is_one_sentence(command: list[str], tmp_path: Path) -> None:
    found = redirected(command, ">/dev/full")
    assert found.returncode == 1
    (line,) = [line for line in found.stderr.splitlines() if line.startswith("evprof:")]
    assert line == "evprof: The result could not be written to standard output (No space left on device)."
    assert is_saved(tmp_path)


@pytest.mark.parametrize("words", ["--version", "run --help"])
def test_a_full_output_is_told_by_every_command(words: str) -> None:
    found = redirected([sys.executable, "-m", "evprof", *words.split()], ">/dev/full")
    assert found.returncode == 1
    assert found.stderr == "evprof: The result could not be written to standard output (No space left on device).\n"


def test_a_run_without_a_reader_of_its_progress_goes_on_until_ctrl_c(command: list[str], tmp_path, wait_until) -> None:
    """`evprof run … 2>&1 | head`."""
    command[2] = DRIVER.format(tests=TESTS, engine="rate")
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        assert process.stdout is not None
        wait_until(lambda: saved_tokens(tmp_path / "s.evprof") > 10)
        process.stdout.close()
        saved = saved_tokens(tmp_path / "s.evprof")
        wait_until(lambda: saved_tokens(tmp_path / "s.evprof") > saved)
        process.send_signal(2)
        assert process.wait(300) in (1, 130)
    (run,) = read_runs(str(tmp_path / "s.evprof"))
    assert run.info.status == "cancelled"
    assert len(run.tokens) > 10


@pytest.mark.parametrize("words", [["run", "--max-new-tokens", "1"], ["demo", "--headless"]])
def test_a_home_that_takes_nothing(evprof, scripted, words: list[str], monkeypatch) -> None:
    for variable in ("XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(variable)
    monkeypatch.setenv("HOME", "/dev/null/home")
    found = evprof(*words)
    assert found.code == 1
    (line,) = found.errors.splitlines()
    assert line.endswith("name one with -o.")
    assert "defect" not in line


def test_nobody_without_a_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user whom the system does not know, without HOME."""

    def unknown() -> Path:
        raise RuntimeError("Could not determine home directory.")

    for variable in ("XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(variable)
    monkeypatch.setattr(Path, "home", unknown)
    assert user_folders.data_folder() == Path("/.local/share/evprof")


def test_a_name_that_no_disk_takes(evprof: Evprof, scripted: None, tmp_path: Path) -> None:
    found = evprof("run", "--mode", "draft", "-o", tmp_path / f"{'x' * 300}.evprof")
    assert found.code == 1
    (line,) = found.errors.splitlines()
    assert line.endswith("(File name too long); choose another name.")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            OSError(errno.ENAMETOOLONG, "File name too long", "x" * 9),
            "'xxxxxxxxx' cannot be used (File name too long).",
        ),
        (PermissionError(13, "Permission denied", "/x/y"), "'/x/y' cannot be used (Permission denied)"),
        (OSError(28, "No space left on device"), "A file cannot be used (No space left on device)."),
        (FileNotFoundError(2, "No such file", "/gone/y"), "'/gone/y' cannot be used (No such file or directory)"),
        (ModuleNotFoundError("No module named 'av'", name="av.video"), "package 'av.video' is missing"),
        (MemoryError(), "Memory ran out"),
        (FileNotFoundError(2, "No such file", str(Path(user_folders.__file__).with_name("x.json"))), None),
        (ModuleNotFoundError("No module named 'evprof.x'", name="evprof.x"), None),
        (ValueError("x"), None),
    ],
)
def test_what_is_no_defect_is_a_sentence(error: Exception, said: str | None) -> None:
    found = sentence_of(error)
    assert found is None if said is None else said in str(found)


def test_a_package_that_is_gone_is_told(evprof: Evprof, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "evprof.cli.commands", None)
    assert "defect" in evprof("models").errors  # ours: a defect
    monkeypatch.undo()
    monkeypatch.setattr("evprof.cli.run_words", lambda _: __import__("absent_package"))
    found = evprof("models")
    assert found.code == 1
    assert found.errors == (
        "evprof: The Python package 'absent_package' is missing; `pip install evprof` adds what this installation "
        "lacks.\n"
    )


def test_a_crash_is_reported_where_nothing_can_be_written(monkeypatch, capsys) -> None:
    monkeypatch.setattr("tempfile.gettempdir", lambda: "/dev/null/tmp")
    monkeypatch.setattr("evprof.cli.terminal.crash.log_folder", lambda: Path("/dev/null/state"))
    assert write_report(ValueError("x"), "run") is None
    assert report_crash(ValueError("y\udcff"), ["run"]) == 1
    assert "could not be saved" in capsys.readouterr().err


def test_a_crash_is_reported_where_nobody_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    class Gone(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    def broken(_: list[str]) -> int:
        raise ValueError("x")

    monkeypatch.setattr("evprof.cli.run_words", broken)
    for stream in (Gone(), None):
        monkeypatch.setattr(sys, "stderr", stream)
        assert main(["inspect"]) == 1
    assert os.fstat(2)
