"""A few damaged files for every parser; `make fuzz` feeds many, within limits of memory and time."""

from __future__ import annotations

import importlib.util
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evprof.core.errors import UserError
from example_counts import examples
from fuzz.run import fuzz, mutated
from fuzz.targets import TARGETS, Target, read_video

# What decodes in C is not let into this process: it has a process of its own below.
HERE = [name for name, target in TARGETS.items() if target.read is not read_video and "torch" not in target.needs]


def target_of(name: str) -> Target:
    target = TARGETS[name]
    missing = [need for need in target.needs if importlib.util.find_spec(need) is None]
    if missing:
        pytest.skip(f"without {missing}")
    return target


def place_of(target: Target, folder: Path) -> Path:
    return folder / (f"file{target.suffix}" if target.suffix.startswith(".") else target.suffix)


@pytest.mark.parametrize("name", HERE)
def test_good_files_are_read(tmp_path: Path, name: str) -> None:
    target = target_of(name)
    good = target.good()
    assert good
    for content in good:
        place_of(target, tmp_path).write_bytes(content)
        target.read(place_of(target, tmp_path))


@pytest.mark.filterwarnings("ignore::UserWarning:PIL")
@pytest.mark.parametrize("name", HERE)
@settings(max_examples=examples(0.5), derandomize=True)
@given(seed=st.integers(0, 2**32))
def test_damaged_files_are_read_or_refused_in_a_sentence(tmp_path: Path, name: str, seed: int) -> None:
    target = target_of(name)
    path = place_of(target, tmp_path)
    path.write_bytes(mutated(target.good()[:3], random.Random(seed)))
    try:
        target.read(path)
    except UserError as error:
        sentence = error.sentence
    else:
        sentence = "read"
    assert "\n" not in sentence


@pytest.mark.parametrize("name", ["ts", "mkv", "gif", "hdf5", "rosbag"])
def test_a_parser_runs_in_a_process_of_its_own(tmp_path: Path, name: str) -> None:
    """With limits of memory and time."""
    executions, findings = fuzz(name, 2, tmp_path, 1)
    assert int(executions) > 2
    assert not findings
