"""The commands themselves: help, usage errors, the crash path, JSON and tables."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from evprof.cli.commands import COMMANDS
from evprof.cli.sessions.show import ShowCommand


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_help_is_the_docstring(evprof, command) -> None:
    found = evprof(command.name, "--help")
    assert found.code == 0
    assert " ".join(command.description().split()) in " ".join(found.output.split())


def test_the_list_holds_every_command_and_no_hidden_one(evprof) -> None:
    found = evprof("--help")
    assert found.code == 0
    listed = [line.split()[0] for line in found.output.splitlines() if line.startswith("    ") and line[4] != " "]
    assert [word for word in listed if word != "COMMAND"] == [command.name for command in COMMANDS]
    assert "_engine" not in found.output


def test_version(evprof) -> None:
    words = evprof("--version").output.split()
    assert words[:2] == ["evprof", _version()]
    assert words[2:3] in ([], ["(commit"])


def _version() -> str:
    return sys.modules["evprof"].__version__


@pytest.mark.logs_warnings
def test_a_defect_is_one_line_and_a_file(evprof, monkeypatch) -> None:
    def fail(self, options, console) -> int:
        raise ZeroDivisionError("by nothing")

    monkeypatch.setattr(ShowCommand, "run", fail)
    found = evprof("show", "x.evprof")
    assert found.code == 1
    (line,) = found.errors.splitlines()
    assert "ZeroDivisionError: by nothing" in line
    path = Path(line.split("the details are in ")[1].removesuffix(")."))
    assert "Traceback" in path.read_text()
    loud = evprof("show", "--debug", "x.evprof")
    assert loud.code == 1
    assert "Traceback" in loud.errors


@pytest.mark.parametrize(
    "words", [["export", "--format", "csv"], ["report"], ["compare"], ["session", "merge"], ["convert"], ["run"]]
)
def test_no_file_is_called_as_elsewhere_standard_output_is(evprof, session, words) -> None:
    given = [] if words == ["run"] else [session]
    found = evprof(*words, *given, "-o", "-")
    assert found.code == 2
    assert "must name a file or folder, not '-'" in found.errors
    assert not Path("-").exists()


def test_models_are_listed_with_what_they_read(evprof, tmp_path, monkeypatch) -> None:
    snapshot = tmp_path / "hub" / "models--someone--Video-LLaVA" / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text('{"model_type": "video_llava"}')
    (snapshot / "model.safetensors").write_bytes(b"12345")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    document = evprof("inspect", "--json").document
    by_name = {entry["name"]: entry for entry in document["models"]}
    assert by_name["evprof-tiny-eventgpt"]["reads"] == "events"
    assert by_name["someone/Video-LLaVA"]["bytes"] == 5
    assert by_name["random:7b-video-llava"]["place"] == "random weights"
    assert "random:160m-eventgpt" in evprof("inspect").output


def test_gui_without_a_display_says_what_to_do(evprof, monkeypatch) -> None:
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.delenv("QT_QPA_PLATFORM", raising=False)
    for words in ([], ["gui"]):
        found = evprof(*words)
        assert found.code == 1
        assert "demo --headless" in found.errors


def test_a_closed_pipe_is_no_defect() -> None:
    code = "import sys; from evprof.__main__ import main; sys.exit(main())"
    process = subprocess.Popen(
        [sys.executable, "-c", code, "inspect", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    process.stdout.close()
    assert process.wait(300) in (0, 1)
    assert process.stderr.read() == ""
    process.stderr.close()
