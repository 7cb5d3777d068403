"""`evprof doctor` tells what is broken and never breaks itself."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from evprof.cli.doctor import examination, gpu_checks, packages
from evprof.cli.terminal import display
from evprof.core.installation import EXTRAS
from scripted_engine import ScriptedEngine

FACTS = {
    "engine": {"device": "cpu", "torch": "2"},
    "window": {"qt": "6", "platform": "offscreen", "pyqtgraph": "0"},
    "quantization": {"bitsandbytes": True},
    "decoders": {"pyav": "14", "codecs": {"h264": True, "av1": False}},
}


@pytest.fixture
def examined(monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    """Answers of `_examine`; an int is an exit code, with a last line of errors."""
    answers: dict[str, object] = dict(FACTS)

    def ask(part):
        answer = answers[part]
        if isinstance(answer, int):
            return subprocess.CompletedProcess([], answer, "", "Traceback\nImportError: libEGL.so.1 is missing\n")
        if isinstance(answer, Exception):
            raise answer
        return subprocess.CompletedProcess([], 0, json.dumps(answer), "")

    monkeypatch.setattr(examination, "ask", ask)
    monkeypatch.setattr(display, "find_display", display.Display)
    # What is installed here may be a torch for CUDA, which the engine of these answers is not.
    monkeypatch.setattr(gpu_checks, "gpu_problems", lambda *_: [])
    return answers


def test_facts_and_problems(evprof, examined) -> None:
    document = evprof("doctor", "--json").document
    assert document["engine"] == FACTS["engine"]
    assert document["window"] == {"display": True, "libraries": FACTS["window"]}
    (problem,) = document["problems"]
    assert problem == {"problem": "These video codecs cannot be read: av1", "fix": "pip install --upgrade av"}


def test_a_broken_part_is_a_problem_with_its_reason(evprof, examined) -> None:
    examined["window"] = -11
    examined["engine"] = subprocess.TimeoutExpired("x", 1)
    found = evprof("doctor")
    assert found.code == 0
    assert "The examination of the window failed: ImportError: libEGL.so.1 is missing" in found.output
    assert "apt install" in found.output
    assert "The examination of the engine failed" in found.output


def test_a_display_that_does_not_answer_is_a_problem_with_its_remedy(evprof, examined, monkeypatch) -> None:
    found = display.Display(problem="DISPLAY=:9 does not answer (gone).", fix="do this")
    monkeypatch.setattr(display, "find_display", lambda: found)
    document = evprof("doctor", "--json").document
    assert not document["window"]["display"]
    problem = {"problem": "No window can open: DISPLAY=:9 does not answer (gone).", "fix": "do this"}
    assert problem in document["problems"]


def test_every_package_that_evprof_needs_is_looked_at() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = {re.split("[<>=]", line)[0].lower().replace("_", "-") for line in project["dependencies"]}
    assert needed == {name.lower().replace("_", "-") for name in packages.PACKAGES}


def test_every_extra_for_people_is_looked_at() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    for extra, names in EXTRAS.items():
        assert {re.split("[<>=;]", line)[0].strip() for line in extras[extra]} == set(names)


def test_folders_are_told_with_what_they_take(evprof, examined) -> None:
    from evprof.session.autosave import autosave_folder

    autosave_folder().mkdir(parents=True)
    (autosave_folder() / "a.evprof").write_bytes(bytes(2048))
    found = evprof("doctor", "--json").document["folders"]
    assert {"sessions", "data", "logs", "cache", "models"} <= found.keys()
    assert (found["sessions"]["files"], found["sessions"]["bytes"]) == (1, 2048)
    assert "(1 file, 2.00 KiB)" in evprof("doctor").output


def test_a_missing_package_is_named(evprof, examined, monkeypatch) -> None:
    monkeypatch.setattr(packages, "PACKAGES", ("torch", "no-such-package"))
    document = evprof("doctor", "--json").document
    assert document["packages"]["no-such-package"] is None
    assert {
        "problem": "The package no-such-package is not installed.",
        "fix": "pip install no-such-package",
    } in document["problems"]


def test_optional_libraries_are_told_and_are_no_problem(evprof, examined, monkeypatch) -> None:
    monkeypatch.setattr(packages, "EXTRAS", {"quant": ("numpy", "no-such-library")})
    document = evprof("doctor", "--json").document
    assert list(document["optional"]) == ["numpy", "no-such-library"]
    assert document["optional"]["numpy"][0].isdigit()
    assert document["optional"]["no-such-library"] is None
    assert len(document["problems"]) == 1
    lines = evprof("doctor").output.splitlines()
    (line,) = [line for line in lines if "no-such-library" in line]
    assert "not installed; install it with `pip install 'evprof[quant]'`" in line


def test_an_optional_library_that_does_not_load_is_a_problem(evprof, examined, monkeypatch) -> None:
    monkeypatch.setattr(packages, "EXTRAS", {"quant": ("numpy",)})
    examined["quantization"] = 1
    problems = evprof("doctor", "--json").document["problems"]
    assert {
        "problem": "The examination of the quantization failed: ImportError: libEGL.so.1 is missing",
        "fix": "pip install --force-reinstall 'evprof[quant]'",
    } in problems


def test_examining_for_real(evprof) -> None:
    found = evprof("_examine", "decoders")
    assert found.code == 0
    assert json.loads(found.output)["codecs"]["h264"] is True
    assert json.loads(found.output)["bundled_sample"] == {"frames": 8, "events": 22_565}


def test_a_bundled_model_answers(evprof, warm_engine, monkeypatch) -> None:
    monkeypatch.setattr("engines.start.make_engine", lambda: warm_engine)
    monkeypatch.setattr(warm_engine, "close", lambda: None)
    found = json.loads(evprof("_examine", "engine").output)
    assert "street" in found["answer"]
    assert found["gpu_architectures"] == importlib.import_module("torch").cuda.get_arch_list()


def test_a_model_that_does_not_answer_is_a_sentence(evprof, monkeypatch) -> None:
    class Broken(ScriptedEngine):
        def run(self, request, sink, stop) -> None:
            raise RuntimeError("no kernel")

    monkeypatch.setattr("engines.start.make_engine", Broken)
    found = evprof("_examine", "engine")
    assert (found.code, found.output) == (1, "")
    assert found.errors.endswith("\nevprof: The engine failed: RuntimeError: no kernel\n")


def test_examining_the_optional_libraries_for_real(evprof) -> None:
    pytest.importorskip("bitsandbytes")
    found = evprof("_examine", "quantization")
    assert found.code == 0
    assert json.loads(found.output)["bitsandbytes"] is True
