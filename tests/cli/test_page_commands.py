"""Every command that a page shows runs, in order, in a folder of the page's own, with the bundled pair.

Models are loaded once and stay warm. Suites and trainings are made short; what is asked of them stays.
"""

from __future__ import annotations

import glob
import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import legacy_shapes
from evprof.cli import main
from evprof.cli.suite import command as suite_command
from evprof.loaders.videos.apart import decode_here
from shown_commands import PAGES, ROOT, ShownCommand, fill, shown_in

SHORTER = {
    ("run",): ("--max-new-tokens", "6", "--repeat", "1", "--warmup", "0"),
    ("suite",): ("--max-new-tokens", "4", "--repeat", "1", "--warmup", "0", "--limit", "1"),
    ("adapter", "collect"): ("--max-new-tokens", "8"),
    ("adapter", "train"): ("--steps", "2", "--validate-every", "1"),
    ("adapter", "evaluate"): ("--repeat", "1", "--max-new-tokens", "6"),
}
"""What commands are given besides, so that none takes long. Of an option that is given twice the last one counts."""

FEWER = ("--processes", "2")
"""Where several engine processes are asked for, each of which loads everything anew; two are several."""

ELSEWHERE = ("doctor",)
"""Commands that have tests of their own and take long."""

LEFT_OUT = {
    "needs a GPU": 8,
    "needs two GPUs": 3,
    "needs a cluster": 6,
    "needs a 7B checkpoint": 16,
    "takes minutes": 13,
    "opens the window": 3,
}
"""How many commands are shown and not tried, by reason. One more should be thought about."""

FIRST = ("README.md", "docs/first-ten-minutes.md")
"""Pages that everybody begins with: `make test` runs their commands, `make test-all` those of the others."""

SHOWING = [
    pytest.param(page, marks=() if page in FIRST else pytest.mark.whole, id=page) for page in PAGES if shown_in(page)
]


@pytest.fixture
def folder(computed: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the reader of a page stands: dataset.csv and the like lie there."""
    made = tmp_path / "reader"
    (made / "old").mkdir(parents=True)
    fill(made)
    (made / "results.json").write_text(json.dumps(legacy_shapes.five_stages()))
    (made / "old" / "benchmark_1frame_vs_8frames.json").write_text(json.dumps(legacy_shapes.one_vs_eight(6)))
    monkeypatch.setattr(suite_command, "machine_facts", lambda *_: {})  # seconds of measuring the machine's ceilings
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.chdir(made)
    return made


def words_of(command: ShownCommand) -> list[str]:
    """Its words as a shell hands them over, made shorter where it may be long."""
    words = [name for word in command.words for name in (sorted(glob.glob(word)) if "*" in word else [word])]
    more = next((options for start, options in SHORTER.items() if tuple(words[: len(start)]) == start), ())
    return [*words, *more, *(FEWER if FEWER[0] in words else ())]


def outcome_of(words: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Exit code, and the end of what was said. A process of its own draws the window: Qt must not meet torch."""
    if words[0] == "gui":
        done = subprocess.run(
            [sys.executable, "-m", "evprof", *words], capture_output=True, text=True, timeout=300, check=False
        )
        return done.returncode, done.stderr[-300:]
    code = main(words)
    decode_here()  # a command that decodes videos apart says so for its whole process, which here is not its own
    return code, capsys.readouterr().err[-300:]


@pytest.mark.logs_warnings
@pytest.mark.leaves_threads
@pytest.mark.parametrize("page", SHOWING)
def test_every_command_shown_works(page: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tried = [command for command in shown_in(page) if not command.reason and command.words[:1] != list(ELSEWHERE)]
    for command in tried:
        code, said = outcome_of(words_of(command), capsys)
        assert code == 0, f"{page}: {command.line}\n{said}"


@pytest.mark.parametrize("page", PAGES)
def test_a_page_that_names_the_scene_says_where_it_comes_from(page: str) -> None:
    shown = [command.line for command in shown_in(page)]
    first = next((number for number, line in enumerate(shown) if re.search(r"\bscene\.(npy|mp4)\b", line)), None)
    if first is None:
        return
    assert "evprof demo --copy-scene ." in (ROOT / page).read_text(encoding="utf-8")
    if not all(command.reason for command in shown_in(page) if "scene." in command.line):
        assert "evprof demo --copy-scene ." in shown[:first]


def test_what_is_not_tried_says_why() -> None:
    found = Counter(command.reason for page in PAGES for command in shown_in(page) if command.reason)
    assert dict(found) == LEFT_OUT
