"""Set-up: one search of the system, one sentence for what is missing, nothing done twice."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from packaging.specifiers import SpecifierSet

import install_packages
from frozen.libraries import FALLBACK
from requirements import ROOT, alone, name_of, required


def test_extras_bring_what_they_name() -> None:
    plain, dev = required(), required(["dev"])
    assert set(plain) < set(dev)
    assert len(dev) == len(set(dev))
    assert set(required(["quant"])) - set(plain) <= set(dev)
    assert not [line for line in dev if line.startswith("evprof[")]
    assert {"torch", "pyside6-essentials"} <= {name_of(line) for line in plain}
    with pytest.raises(KeyError):
        required(["none-such"])


def test_what_is_installed_alone_is_told_apart() -> None:
    by_itself = {name_of(line) for line in alone(["dev"])}
    assert by_itself
    assert by_itself.isdisjoint(name_of(line) for line in required(["dev"]))
    assert alone() == alone(["quant"]) == []


def test_set_up_brings_every_library_that_comes_along() -> None:
    script = (ROOT / "packaging" / "setup.sh").read_text()
    pairs = re.findall(r"(lib\S+\.so\.\d+):(\S+)", script)
    assert {library for library, _ in pairs} >= set(FALLBACK)
    assert len(pairs) == len(dict(pairs))


def test_what_is_pinned_can_be_had_with_debians_python() -> None:
    """Debian 12 has 3.11.2, and some packages ask for a later 3.11."""
    pins = {name_of(line) for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line}
    asked = {
        found.name: next(iter(found.metadata.get_all("Requires-Python") or [""]))
        for found in metadata.distributions()
        if name_of(found.name) in pins
    }
    assert len(asked) > 50
    assert [
        name for name, versions in asked.items() if versions and not SpecifierSet(versions).contains("3.11.2")
    ] == []


@pytest.mark.parametrize("code", [0, 3])
def test_a_failing_installer_ends_set_up_with_a_sentence(monkeypatch: Any, capfd: Any, code: int) -> None:
    installer = [sys.executable, "-c", f"import sys; print(sys.argv[-1]); sys.exit({code})"]
    monkeypatch.setattr(install_packages, "install_command", lambda _: (installer, dict(os.environ)))
    assert install_packages.main(["quant"]) == install_packages.main([]) == code
    found = capfd.readouterr()
    assert found.out.split() == [".[quant]", "."]
    assert ("could not be installed" in found.err) == bool(code)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout under a name with a space and an accent, and a system of scripts in its `system` folder."""
    place = tmp_path / "mes données" / "evprof"
    (place / "packaging").mkdir(parents=True)
    for name in ("pyproject.toml", "constraints.txt", "packaging/setup.sh", "packaging/install_packages.py"):
        shutil.copy(ROOT / name, place / name)
    system = tmp_path / "system"
    system.mkdir()
    for tool in ("bash", "cat", "cksum", "uname", "awk", "grep", "rm", "mktemp", "dirname", "env"):
        (system / tool).symlink_to(shutil.which(tool) or tool)
    script(system / "id", 'case "$*" in *-u*) echo 1000;; esac')
    script(system / "sudo", "exit 1")
    script(system / "apt-get", "exit 0")
    script(system / "ldconfig", "echo libEGL.so.1")
    return place


def script(path: Path, body: str) -> None:
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


def set_up(checkout: Path, *extras: str) -> subprocess.CompletedProcess[str]:
    system = checkout.parents[1] / "system"
    return subprocess.run(
        [str(system / "bash"), str(checkout / "packaging" / "setup.sh"), *extras],
        env={"PATH": str(system), "LANG": "C"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )


def test_all_that_is_missing_is_told_at_once(checkout: Path) -> None:
    done = set_up(checkout, "dev")
    assert done.returncode == 1
    (sentence,) = done.stderr.splitlines()
    assert sentence.startswith("Some system packages are missing. Run this once, then repeat:  sudo apt-get install ")
    missing = sentence.partition("install ")[2].split()
    assert {"python3", "python3-venv", "python3-dev", "g++", "libxcb-cursor0"} <= set(missing)
    assert "libegl1" not in missing


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_is_the_cause_told(checkout: Path) -> None:
    checkout.chmod(0o555)
    try:
        assert "cannot be written by this user" in set_up(checkout).stderr
    finally:
        checkout.chmod(0o755)


def test_what_is_ready_stays_as_it_is_until_it_changes(checkout: Path) -> None:
    """The environment is a fake one whose Python does nothing; a package less makes it another."""
    system = checkout.parents[1] / "system"
    script(system / "ldconfig", "exit 1")
    python = (
        'case "$*" in\n*"-m venv"*) mkdir -p .venv/bin .venv/lib/python3.11/site-packages/a.dist-info'
        ' && cp "$0" .venv/bin/python;;\n*install_packages*) echo "installing:" "$@";;\n'
        "*--version*) echo Python;;\nesac"
    )
    script(system / "python3", python)
    for tool in ("mkdir", "cp"):
        (system / tool).symlink_to(shutil.which(tool) or tool)
    assert "installing: packaging/install_packages.py" in set_up(checkout).stdout
    assert set_up(checkout).stdout == ""
    # More than is there; what was there stays.
    assert "install_packages.py quant" in set_up(checkout, "quant").stdout
    assert set_up(checkout, "quant").stdout == set_up(checkout).stdout == ""
    (checkout / ".venv/lib/python3.11/site-packages/a.dist-info").rmdir()
    again = set_up(checkout).stdout
    assert "install_packages.py quant" in again
    assert "Creating" not in again
    # A folder that was moved.
    moved = checkout.with_name("elsewhere")
    checkout.rename(moved)
    assert "Creating .venv" in set_up(moved).stdout
