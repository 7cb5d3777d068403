"""`evprof doctor` tells what is broken and never breaks itself."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from evprof.cli import doctor

FACTS = {
    "engine": {"device": "cpu", "torch": "2"},
    "window": {"qt": "6", "platform": "offscreen", "pyqtgraph": "0"},
    "quantization": {"hqq": True},
    "decoders": {"pyav": "14", "codecs": {"h264": True, "av1": False}},
}


@pytest.fixture
def examined(monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    """Answers of `_examine`; an int is an exit code, with a last line of errors."""
    answers: dict[str, object] = dict(FACTS)

    def ask(part, **variables):
        answer = answers[part]
        if isinstance(answer, int):
            return subprocess.CompletedProcess([], answer, "", "Traceback\nImportError: libEGL.so.1 is missing\n")
        if isinstance(answer, Exception):
            raise answer
        return subprocess.CompletedProcess([], 0, json.dumps(answer), "")

    monkeypatch.setattr(doctor, "ask", ask)
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.delenv("QT_QPA_PLATFORM", raising=False)
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
    assert "The window does not work: ImportError: libEGL.so.1 is missing" in found.output
    assert "apt install" in found.output
    assert "The engine does not work" in found.output


def test_every_package_that_evprof_needs_is_looked_at() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = {re.split("[<>=]", line)[0].lower().replace("_", "-") for line in project["dependencies"]}
    assert needed == {name.lower().replace("_", "-") for name in doctor.PACKAGES}


def test_a_missing_package_is_named(evprof, examined, monkeypatch) -> None:
    monkeypatch.setattr(doctor, "PACKAGES", ("numpy", "no-such-package"))
    document = evprof("doctor", "--json").document
    assert document["packages"]["no-such-package"] is None
    assert {
        "problem": "The package no-such-package is not installed.",
        "fix": "pip install no-such-package",
    } in document["problems"]


def test_optional_libraries_are_told_and_are_no_problem(evprof, examined, monkeypatch) -> None:
    monkeypatch.setattr(doctor, "OPTIONAL", ("numpy", "no-such-library"))
    document = evprof("doctor", "--json").document
    assert list(document["optional"]) == ["numpy", "no-such-library"]
    assert document["optional"]["numpy"][0].isdigit()
    assert document["optional"]["no-such-library"] is None
    assert len(document["problems"]) == 1
    lines = evprof("doctor").output.splitlines()
    (line,) = [line for line in lines if "no-such-library" in line]
    assert line.endswith("not installed: pip install 'evprof[quant]'")


def test_an_optional_library_that_does_not_load_is_a_problem(evprof, examined, monkeypatch) -> None:
    monkeypatch.setattr(doctor, "OPTIONAL", ("numpy",))
    examined["quantization"] = 1
    problems = evprof("doctor", "--json").document["problems"]
    assert {
        "problem": "The quantization does not work: ImportError: libEGL.so.1 is missing",
        "fix": "pip install --force-reinstall 'evprof[quant]'",
    } in problems


def test_examining_for_real(evprof) -> None:
    found = evprof("_examine", "decoders")
    assert found.code == 0
    assert json.loads(found.output)["codecs"]["h264"] is True


def test_examining_the_optional_libraries_for_real(evprof) -> None:
    pytest.importorskip("hqq")
    found = evprof("_examine", "quantization")
    assert found.code == 0
    assert json.loads(found.output)["hqq"] is True
