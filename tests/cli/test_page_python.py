"""The Python of pages runs as it is shown, in order with their commands, where the reader of a page stands."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import types
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest

from shown_commands import PAGES, REASONS, ROOT, commands_of, fill

NOT_INSTALLED = "needs a program of its own"
"""Why Python is shown and not tried, besides REASONS."""

_BLOCK = re.compile(r"(?:<!-- not tried: ([^>]*?) -->\n+)?^```(sh|python)\n(.*?)^```", re.DOTALL | re.MULTILINE)


class ShownStep(NamedTuple):
    """A block of Python, or one command; `reason` "" where it is tried."""

    is_python: bool
    text: str
    reason: str


def steps_of(text: str) -> list[ShownStep]:
    """What the reader of a page does, in order."""
    found = []
    for above, language, block in _BLOCK.findall(text):
        if language == "python":
            reason = next((reason for reason in (*REASONS, NOT_INSTALLED) if reason in above), "")
            found.append(ShownStep(True, block, reason))
        else:
            commands = commands_of(f"<!-- not tried: {above} -->\n```sh\n{block}```\n")
            found += [ShownStep(False, command.line, command.reason) for command in commands]
    return found


def steps_in(page: str) -> list[ShownStep]:
    """The same of a page by name."""
    return steps_of((ROOT / page).read_text(encoding="utf-8"))


SHOWING = [page for page in PAGES if any(step.is_python for step in steps_in(page))]
"""The pages that show Python."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The reader's folder, in which this checkout is found."""
    fill(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return tmp_path


@pytest.mark.whole
@pytest.mark.parametrize("page", SHOWING)
def test_the_python_of_a_page_works(page: str, folder: Path) -> None:
    for needed in ("torch", "pandas", "polars", "pyarrow"):
        pytest.importorskip(needed)
    module = types.ModuleType("shown")
    for number, step in enumerate(step for step in steps_in(page) if not step.reason):
        if step.is_python:
            exec(compile(step.text, f"{page}, step {number + 1}", "exec"), vars(module))
            continue
        words = [
            *shlex.split(step.text)[1:],
            *(["--max-new-tokens", "6", "--warmup", "0"] * ("evprof run" in step.text)),
        ]
        done = subprocess.run(
            [sys.executable, "-m", "evprof", *words], capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 0, f"{step.text}\n{done.stderr}"


def test_what_is_not_tried_says_why() -> None:
    found = Counter(step.reason for page in SHOWING for step in steps_in(page) if step.is_python and step.reason)
    assert dict(found) == {NOT_INSTALLED: 1}


def test_steps_are_read_in_order() -> None:
    text = "```sh\nevprof show a.evprof   # it\n```\n\n<!-- not tried: needs a GPU -->\n```python\nx = 1\n```\n"
    assert steps_of(text) == [ShownStep(False, "evprof show a.evprof", ""), ShownStep(True, "x = 1\n", "needs a GPU")]
