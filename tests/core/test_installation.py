"""What a person is told to do about a missing package: pip where there is one, and never in a bundle."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from evprof.core import installation


@pytest.fixture
def bundle(monkeypatch, tmp_path):
    """Makes this process look like a program of a bundle."""

    def be(name: str) -> Path:
        program = tmp_path / name
        monkeypatch.setattr(sys, "frozen", True, raising=False)
        monkeypatch.setattr(sys, "executable", str(program))
        return program

    return be


def test_from_source_pip_is_the_remedy() -> None:
    assert installation.how_to_add("av") == "install it with `pip install av`"
    assert installation.how_to_add("evprof[quant]") == "install it with `pip install 'evprof[quant]'`"
    assert installation.how_to_mend("av", "install --upgrade") == "pip install --upgrade av"
    assert not installation.is_without_qt()


@pytest.mark.parametrize("what", ["av", "hdf5plugin", "evprof[rosbag]", "evprof[quant]"])
def test_in_a_bundle_nobody_is_sent_to_pip(bundle, what) -> None:
    bundle("evprof")
    for told in (installation.how_to_add(what), installation.how_to_mend(what)):
        assert "pip" not in told
        assert told


def test_the_programs_of_a_bundle_find_each_other(bundle) -> None:
    program = bundle("evprof")
    assert installation.is_without_qt()
    assert installation.bundled_program(installation.WINDOW) == program.with_name("evprof-window")
    bundle("evprof-window")
    assert not installation.is_without_qt()
    assert installation.bundled_program(installation.CONSOLE) == program
