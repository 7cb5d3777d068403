"""A list of samples: killed anywhere it goes on and ends as if nothing had happened; problems stop only their rows."""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from evprof.core.errors import UserError
from evprof.core.files.held_file import HeldFile
from evprof.loaders.events.opening import read_events
from evprof.loaders.manifests.manifest import read_manifest
from evprof.loaders.writers.npy import write_npy
from evprof.run.conversion import workers
from evprof.run.conversion.dataset import JOURNAL, LOCK, MANIFEST, DatasetEnd, convert_list, read_journal
from evprof.run.conversion.plan import plan_rows
from evprof.run.conversion.task import ConversionRecipe, Step, Task
from evprof.run.conversion.workers import Outcome
from made_conversions import ConversionNotes, some_events

ROWS = 40


@pytest.fixture
def listed(tmp_path: Path) -> Path:
    """A list of 40 recordings with two questions about each tenth."""
    folder = tmp_path / "data"
    folder.mkdir()
    rows = ["name,events,prompt,reference"]
    for number in range(ROWS):
        write_npy(folder / f"{number}.npy", iter([some_events(number)]))
        rows += [f"drive/{number},{number}.npy,Question {number}?,Answer"] * (1 + (number % 10 == 0))
    path = folder / "list.csv"
    path.write_text("\n".join(rows) + "\n")
    return path


def convert(
    path: Path, out: Path, recipe: ConversionRecipe, *, jobs: int = 1, overwrite: bool = False
) -> tuple[DatasetEnd, ConversionNotes]:
    watcher = ConversionNotes()
    plan = plan_rows(read_manifest(path).samples, out, recipe, None)
    pool = partial(workers.in_threads, jobs=jobs)
    return convert_list(plan, watcher, pool=pool, source=path, overwrite=overwrite), watcher


def tree(folder: Path) -> dict[str, bytes]:
    """All files but the journal, whose lines have the order of their ends."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != JOURNAL)
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def changed_at(folder: Path) -> dict[str, int]:
    return {str(path.relative_to(folder)): path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


def test_a_list_becomes_a_list(listed: Path, tmp_path: Path) -> None:
    end, watcher = convert(listed, tmp_path / "out", ConversionRecipe("npz"), jobs=3)
    assert (end.samples, len(end.written), end.failed, end.problems) == (44, 40, {}, [])
    assert watcher.counts == (40, 0)
    found = read_manifest(tmp_path / "out" / MANIFEST)
    before = read_manifest(listed)
    assert found.problems == ()
    assert [(sample.name, sample.prompt, sample.reference) for sample in found.samples] == [
        (sample.name, sample.prompt, sample.reference) for sample in before.samples
    ]
    for old, new in zip(before.samples, found.samples, strict=True):
        assert np.array_equal(read_events(str(new.events_path)).t_us, read_events(str(old.events_path)).t_us)
    assert not (tmp_path / "out" / LOCK).exists()


@pytest.mark.skipif(sys.platform == "win32", reason="sends POSIX signals")
@pytest.mark.parametrize("words", [["--to", "frames"], ["--to", "npz", "--compressed", "--jobs", "2"]])
def test_a_killed_conversion_goes_on(words: list[str], listed: Path, tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    whole, out = tmp_path / "whole", tmp_path / "killed"
    command = [sys.executable, "-m", "evprof", "convert", str(listed), *words]
    subprocess.run([*command, "-o", str(whole)], check=True, capture_output=True, timeout=300)
    codes = set()
    for _ in range(3):
        goal = chance.randrange(1, ROWS // 2)
        process = subprocess.Popen([*command, "-o", str(out)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while process.poll() is None and finished(out) < goal:
            time.sleep(0.001)
        process.kill()
        codes.add(process.wait())
        done = read_journal(out)
        times = changed_at(out)
    assert -signal.SIGKILL in codes
    last = subprocess.run([*command, "-o", str(out), "--json"], check=True, capture_output=True, timeout=300, text=True)
    kept = {name: time_ns for name, time_ns in times.items() if any(name.startswith(output) for output in done)}
    after = changed_at(out)
    assert {name: after[name] for name in kept} == kept
    assert f'"kept": {len(done)},' in last.stdout
    assert tree(out) == tree(whole)


def finished(out: Path) -> int:
    try:
        return (out / JOURNAL).read_bytes().count(b'"output"')
    except OSError:
        return 0


@pytest.mark.skipif(sys.platform == "win32", reason="sends POSIX signals")
def test_the_first_interrupt_stops_and_keeps(listed: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = [sys.executable, "-m", "evprof", "convert", str(listed), "--to", "frames", "-o", str(out), "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while process.poll() is None and finished(out) < 3:
        time.sleep(0.001)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=300)
    assert process.returncode == 130, errors
    assert "goes on" in errors
    assert '"stopped": true' in output
    assert not list(out.rglob("*.part"))
    found = read_manifest(out / MANIFEST)
    assert 3 <= len(found.samples) < 44
    assert found.problems == ()


def test_only_what_changed_is_done_again(listed: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    convert(listed, out, ConversionRecipe("npy"))
    first = changed_at(out)
    end, watcher = convert(listed, out, ConversionRecipe("npy"))
    assert (len(end.kept), watcher.outcomes) == (40, [])
    write_npy(listed.parent / "7.npy", iter([some_events(99)]))
    (out / "drive_3" / "events.npy").write_bytes(b"short")
    (out / "drive_4" / "events.npy").unlink()
    end, watcher = convert(listed, out, ConversionRecipe("npy"))
    assert sorted(outcome.task.sample.name for outcome in watcher.outcomes) == ["drive/3", "drive/4", "drive/7"]
    after = changed_at(out)
    redone = {name for name in first if name.startswith("drive") and after[name] != first[name]}
    assert redone == {f"drive_{number}/events.npy" for number in (3, 4, 7)}
    end, watcher = convert(listed, out, ConversionRecipe("npy", layout="structured"))
    assert len(watcher.outcomes) == 40
    end, watcher = convert(listed, out, ConversionRecipe("npy", layout="structured"), overwrite=True)
    assert len(watcher.outcomes) == 40


def test_what_a_kill_left_unfinished_is_removed(listed: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    convert(listed, out, ConversionRecipe("npy"))
    wanted = tree(out)
    (out / "drive_2" / ".evprof-0123456789abcdef.part").write_bytes(b"half")
    (out / "drive_4" / "my thesis.part").write_bytes(b"-")
    convert(listed, out, ConversionRecipe("npy"))
    assert tree(out) == wanted | {"drive_4/my thesis.part": b"-"}


def test_what_a_lost_worker_left_unfinished_is_removed(listed: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"

    def loses_a_worker(tasks: Sequence[Task], stop: threading.Event) -> Iterator[Outcome | None]:
        for task in tasks:
            task.output.parent.mkdir(parents=True, exist_ok=True)
            (task.output.parent / ".evprof-0123456789abcdef.part").write_bytes(b"half")
        yield from workers.in_threads(tasks, stop)

    convert_list(
        plan_rows(read_manifest(listed).samples, out, ConversionRecipe("npy"), None),
        ConversionNotes(),
        pool=loses_a_worker,
    )
    assert not list(out.rglob("*.part"))


def test_a_row_that_fails_stops_nothing_else(listed: Path, tmp_path: Path) -> None:
    (listed.parent / "5.npy").write_bytes(b"\x93NUMPY damaged")
    (listed.parent / "10.npy").write_bytes((listed.parent / "10.npy").read_bytes()[:500])
    end, _ = convert(listed, tmp_path / "out", ConversionRecipe("npy"), jobs=2)
    assert sorted(end.failed) == ["drive_10/events.npy", "drive_5/events.npy"]
    assert end.samples == 44 - 3
    assert [sentence.split(":")[0] for sentence in end.problems] == [
        *("Sample 7, 'drive/5'", "Sample 12, 'drive/10'", "Sample 13, 'drive/10 (2)'"),
    ]
    assert len(read_manifest(tmp_path / "out" / MANIFEST).samples) == 41
    # Mended, the rest follows.
    write_npy(listed.parent / "5.npy", iter([some_events(5)]))
    end, watcher = convert(listed, tmp_path / "out", ConversionRecipe("npy"))
    assert [outcome.error is None for outcome in watcher.outcomes] == [True, False]


def test_a_full_disk_ends_all_with_one_sentence(listed: Path, tmp_path: Path, monkeypatch) -> None:
    count = 0

    def sometimes(task: object, step: Step) -> object:
        nonlocal count
        count += 1
        if count > 5:
            raise workers.OutputFullError("out: cannot be written (No space left on device).")
        return original(task, step)  # type: ignore[arg-type]  # what it was called with

    original = workers.convert
    monkeypatch.setattr("evprof.run.conversion.workers.convert", sometimes)
    with pytest.raises(UserError, match="the same command then goes on"):
        convert(listed, tmp_path / "out", ConversionRecipe("npy"))
    assert count == 6
    monkeypatch.undo()
    end, _ = convert(listed, tmp_path / "out", ConversionRecipe("npy"))
    assert (len(end.kept), len(end.written)) == (5, 40)


def test_folders_with_other_things_are_left_alone(listed: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "thesis.tex").write_text("-")
    with pytest.raises(UserError, match="holds other things"):
        convert(listed, out, ConversionRecipe("npy"))
    end, _ = convert(listed, out, ConversionRecipe("npy"), overwrite=True)
    assert end.samples == 44
    assert (out / "thesis.tex").exists()
    (tmp_path / "file").write_text("-")
    with pytest.raises(UserError, match="is a file"):
        convert(listed, tmp_path / "file", ConversionRecipe("npy"))


def test_the_list_itself_and_its_sources_are_never_written_over(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    write_npy(tmp_path / "a" / "events.npy", iter([some_events(1)]))
    before = (tmp_path / "a" / "events.npy").read_bytes()
    path = tmp_path / "manifest.csv"
    path.write_text("name,events\na,a/events.npy\n")
    with pytest.raises(UserError, match="written over"):
        convert(path, tmp_path, ConversionRecipe("npy"), overwrite=True)
    other = tmp_path / "list.csv"
    path.rename(other)
    end, _ = convert(other, tmp_path, ConversionRecipe("npy"), overwrite=True)
    assert "written over" in end.failed["a/events.npy"]
    assert (tmp_path / "a" / "events.npy").read_bytes() == before


def test_two_at_once_into_one_folder_are_refused(listed: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    with HeldFile(out / LOCK):
        with pytest.raises(UserError, match="another conversion"):
            convert(listed, out, ConversionRecipe("npy"))
        assert (out / LOCK).exists()
    end, _ = convert(listed, out, ConversionRecipe("npy"))
    assert end.samples == 44
    shutil.rmtree(out)
