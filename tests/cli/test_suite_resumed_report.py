"""A suite that was killed after some row and resumed holds what an uninterrupted one holds, but for timings."""

from __future__ import annotations

import os
import random
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from evprof.core.run_info import RUNNING
from evprof.core.run_log import RunBook
from evprof.export.report.data import Source, gather
from evprof.session.store import WRITER_GONE
from whole_session import load_session

pytest.importorskip("torch")

SUITE = ("one-vs-eight", "--limit", "2", "--repeat", "2", "-o", "out")
RUNS = 2 * 2 * 2 + 2
"""Rows, models of each, and the two warm-ups."""


@dataclass(frozen=True)
class Pair:
    """Both sessions; `killed_at`: how many runs were over when the second one's program was killed."""

    whole: Source
    resumed: Source
    folder: Path
    killed_at: int


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    """One suite measured in one go, and once more by a program that is killed and by one that goes on."""
    folder = tmp_path_factory.mktemp("resumed")
    seed = int(os.environ.get("EVPROF_TEST_SEED", "") or random.SystemRandom().randrange(1_000_000))
    dice = random.Random(seed)
    killed_at, delay = dice.randint(1, RUNS - 1), dice.random() * 0.15
    # pytest shows this when a test fails; the variable repeats it.
    print(f"EVPROF_TEST_SEED={seed}: killed {1000 * delay:.0f} ms after run {killed_at} of {RUNS}")
    for name in ("whole", "resumed"):
        (folder / name).mkdir()
    assert _suite(folder / "whole", folder).wait(300) == 0, _said(folder / "whole")
    victim = _suite(folder / "resumed", folder)
    try:
        _await_runs(folder / "resumed/out/suite.evprof", killed_at, victim)
        time.sleep(delay)
    finally:
        victim.kill()
        victim.wait(300)
    assert _suite(folder / "resumed", folder, "--resume").wait(300) == 0, _said(folder / "resumed")
    return Pair(_read(folder / "whole"), _read(folder / "resumed"), folder, killed_at)


def _suite(folder: Path, home: Path, *more: str) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HOME": str(home), "PYTHONPATH": os.pathsep.join(sys.path)}
    for variable in ("XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "HF_HOME"):
        environment[variable] = str(home / variable.lower())
    with (folder / "said.txt").open("ab") as said:
        words = [sys.executable, "-m", "evprof", "suite", *SUITE, *more]
        return subprocess.Popen(words, cwd=folder, env=environment, stdout=said, stderr=subprocess.STDOUT)


def _said(folder: Path) -> str:
    return (folder / "said.txt").read_text(errors="replace")[-2000:]


def _await_runs(session: Path, count: int, program: subprocess.Popen[bytes]) -> None:
    while _over(session) < count:
        assert program.poll() is None, "the suite ended before it could be killed"
        time.sleep(0.01)


def _over(session: Path) -> int:
    try:
        with closing(sqlite3.connect(f"{session.as_uri()}?mode=ro", uri=True)) as connection:
            found = connection.execute("SELECT count(*) FROM runs WHERE status != ?", (RUNNING,)).fetchone()
    except sqlite3.Error:
        return 0
    return int(found[0])


def _read(folder: Path) -> Source:
    session = load_session(folder / "out/suite.evprof")
    book = RunBook(session.recording)
    book.update()
    return Source(Path("out/suite.evprof"), list(book.runs.values()), session.environment, session.facts)


@pytest.mark.whole
def test_what_was_cut_off_is_kept_and_counts_nowhere(pair: Pair) -> None:
    cut_off = [run for run in pair.resumed.runs if (run.info.error or "").startswith(WRITER_GONE[:-1])]
    assert len(cut_off) <= 1
    data = gather([pair.resumed])
    assert data.failures == ()
    assert not {run.run_id for run in cut_off} & {run.run_id for run in (*data.runs, *data.warmups)}
    assert len(data.runs) == 8
    for name in ("report.md", "report.html"):
        written = (pair.folder / "resumed/out" / name).read_text()
        assert WRITER_GONE[:-1] not in written
        assert "8 of 8 planned, 0 failed" in written


@pytest.mark.whole
def test_what_was_generated_is_equal(pair: Pair) -> None:
    def answers(source: Source) -> list[Any]:
        return sorted(
            (
                run.info.cell,
                run.info.sample.name,
                run.info.repeat,
                run.info.role,
                run.info.text or "",
                [token.token_id for token in run.tokens],
                run.info.kv[run.info.role].measured_bytes,
                run.info.lengths[run.info.role].input,
            )
            for run in gather([source]).runs
        )

    assert len(answers(pair.whole)) == 8
    assert answers(pair.whole) == answers(pair.resumed)
