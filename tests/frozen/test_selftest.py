"""What a frozen program must pass is passed by this one: demo, session, picture, doctor, engine process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SELFTEST = Path(__file__).parents[2] / "packaging" / "selftest.py"


def _run(*program: str, home: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "XDG_DATA_HOME": str(home), "XDG_CONFIG_HOME": str(home), "XDG_STATE_HOME": str(home)}
    return subprocess.run(
        [sys.executable, str(SELFTEST), *program],
        capture_output=True,
        text=True,
        timeout=300,
        env=environment,
        check=False,
    )


@pytest.mark.whole
def test_the_program_passes_its_selftest(tmp_path: Path) -> None:
    done = _run(sys.executable, "-m", "evprof", home=tmp_path)
    assert done.returncode == 0, done.stderr
    said = [line.partition(":")[0] for line in done.stdout.splitlines()]
    assert said == ["demo", "session", "window", "doctor", "engine process"]


def test_a_program_that_fails_does_not_pass(tmp_path: Path) -> None:
    done = _run(sys.executable, "-c", "raise SystemExit('nothing here works')", home=tmp_path)
    assert done.returncode == 1
    assert "nothing here works" in done.stderr
