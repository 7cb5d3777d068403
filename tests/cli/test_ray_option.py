"""`--ray`: what suites, conversions and collections leave is what one process leaves."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evprof.cli.suite import command, machines
from evprof.cli.terminal import program
from evprof.core.events import EventArray
from evprof.core.run_info import PLACE
from evprof.loaders.bundled import bundled_samples
from evprof.loaders.writers.frames import write_manifest
from evprof.loaders.writers.npy import write_npy
from evprof.session.opened import open_session
from scripted_process import engine_argv

Evprof = Callable[..., Any]


@pytest.fixture
def listed(tmp_path: Path) -> Path:
    """A list of four recordings."""
    for number in range(4):
        generator = np.random.default_rng(number)
        columns = [generator.integers(0, limit, 5_000) for limit in (64, 48, 50_000, 2)]
        events = EventArray.from_columns(columns[0], columns[1], np.sort(columns[2]), columns[3])
        write_npy(tmp_path / f"{number}.npy", [events])
    path = tmp_path / "list.csv"
    path.write_text("name,events\n" + "".join(f"{number},{number}.npy\n" for number in range(4)))
    return path


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.npz")}


@pytest.mark.whole
def test_a_list_is_converted_by_a_cluster_of_this_machine(evprof, listed: Path, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert evprof("convert", listed, "-o", "alone", "--to", "npz").code == 0
    # In a process of its own, as a person has it: Ray keeps the token of its first cluster until its process ends.
    words = ["convert", str(listed), "-o", "spread", "--to", "npz", "--ray", "local", "--json"]
    done = subprocess.run([sys.executable, "-m", "evprof", *words], capture_output=True, check=True, text=True)
    assert "listens to nobody else" in done.stderr
    document = json.loads(done.stdout)
    assert (document["samples"], document["written"], document["failed"]) == (4, 4, 0)
    assert files(tmp_path / "spread") == files(tmp_path / "alone")
    assert len(files(tmp_path / "alone")) == 4


@pytest.mark.whole
def test_examples_are_collected_by_a_cluster_of_this_machine(evprof: Evprof, tmp_path: Path) -> None:
    write_manifest(tmp_path / "two.csv", bundled_samples()[:2])
    words = ["adapter", "collect", str(tmp_path / "two.csv"), "--max-new-tokens", "4", "--frames", "1"]
    words += ["--event-frames", "1", "--device", "cpu", "--json", "-o", str(tmp_path / "spread")]
    refused = evprof(*words, "--ray-threads", "2")
    assert (refused.code, "--ray-threads belongs to --ray" in refused.errors) == (2, True)
    # In a process of its own, as a person has it.
    done = subprocess.run(
        [sys.executable, "-m", "evprof", *words, "--ray", "local", "--ray-threads", "1"],
        capture_output=True,
        check=True,
        text=True,
    )
    assert "collecting: 2 examples" in done.stderr
    document = json.loads(done.stdout)
    assert (document["examples"], document["before"], document["failed"]) == (2, 0, [])
    again = evprof(*words)
    assert (again.code, again.document["before"], again.document["settings"]) == (0, 2, document["settings"])


def test_one_recording_needs_no_cluster(evprof: Evprof, listed: Path, tmp_path: Path) -> None:
    found = evprof("convert", tmp_path / "0.npy", "-o", tmp_path / "a.npz", "--ray", "local")
    assert (found.code, "--ray is for lists of samples" in found.errors) == (2, True)
    found = evprof("convert", listed, "-o", tmp_path / "out", "--to", "npz", "--ray-threads", "2")
    assert (found.code, "--ray-threads belongs to --ray" in found.errors) == (2, True)


@pytest.mark.whole
def test_a_suite_is_measured_by_a_cluster_of_this_machine(evprof, anything_goes, tmp_path, monkeypatch) -> None:
    class Room:
        def past_context(self, _: Any) -> None:
            return None

        def family_of(self, name: str) -> str:
            return "eventgpt" if "eventgpt" in name else "video_llava"

    monkeypatch.setattr(program, "engine_argv", partial(list, engine_argv("script:200")))
    monkeypatch.setattr(command, "make_room", Room)
    monkeypatch.setattr(command, "machine_facts", lambda *_: {"ceilings": [], "models": {}})
    monkeypatch.setattr(machines, "fits_beside", lambda *_: True)
    grid = tmp_path / "grid.toml"
    grid.write_text('repeat = 2\n[settings]\nmax_new_tokens = 4\ndevice = "cpu"\n[axes]\nmode = ["draft", "target"]\n')
    found = evprof("suite", grid, "-o", tmp_path / "out", "--limit", 2, "--ray", "local", "--ray-threads", 1, "--json")
    assert found.code == 0, found.errors
    assert found.document["counts"] == {"planned": 8, "finished": 8, "failed": 0, "missing": 0}
    runs = open_session(Path(found.document["session"])).runs.values()
    assert all(run.info.environment[PLACE] for run in runs)
