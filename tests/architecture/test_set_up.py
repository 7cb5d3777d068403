"""Set-up: what is installed, and what is installed alone."""

from __future__ import annotations

import re
from importlib import metadata

import pytest
from packaging.specifiers import SpecifierSet

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
