"""Facts of a session, and of its runs, that nobody of us wrote: ignored or told in a sentence, by every command."""

from __future__ import annotations

import json
import re
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from evprof.cli import main
from evprof.core.recording import RecordLog
from evprof.core.request import RunRequest
from evprof.core.sample import Sample
from evprof.core.vocabulary.generation import ModelChoice
from evprof.run.session_writer import SessionWriter
from scripted_engine import ScriptedEngine
from scripted_pair import Script
from sealed import seal

HTML = "<script>alert(1)</script><img src=x onerror=alert(2)>"
CONTROL = "\x00\x1b[31mred\x07\u202e"
_NOT_PRINTED = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f]")


def deep(levels: int) -> Any:
    value: Any = HTML
    for _ in range(levels):
        value = [value]
    return value


def _filled(names: str, value: Any) -> dict[str, Any]:
    return dict.fromkeys(names.split(), value)


VALUES: dict[str, Any] = {
    "nothing": None,
    "true": True,
    "a number": 7,
    "a huge number": 10**40,
    "not a number": float("nan"),
    "infinity": float("inf"),
    "a text": "text",
    "html": HTML,
    "control characters": CONTROL,
    "a lone surrogate": "\ud800",
    "a long text": "é|`#\n" * 25_000,
    "a path": "../../../etc/passwd",
    "a list": [1, None, HTML, {}, [[]], float("nan")],
    "a long list": [HTML] * 1_250,
    "a table": {HTML: {CONTROL: [HTML]}, "": None},
    "a deep list": deep(500),
}
FACTS = ("suite", "ceilings", "models", "imports", "views", "marks")
SHAPES: dict[str, Callable[[Any], Any]] = {
    "suite": lambda value: _filled(
        "name title command manifest repeat warmup order cells samples problems planned_runs fingerprint", value
    ),
    "ceilings": lambda value: [
        _filled("device dtype copy_bytes_s read_bytes_s matmul_flops_s threads cache_bytes", value),
        value,
    ],
    "models": lambda value: {
        "tiny": {"text": value, "vision": value, "parameters": value, "context_limit": value, "capacity": [value]},
        HTML: value,
    },
    "imports": lambda value: [
        _filled(
            "path family rows runs failed "
            "warmups problems statistics recomputed without_warmup "
            "config covers totals names written_at",
            value,
        ),
        value,
    ],
    "marks": lambda value: [
        _filled("run_id start_ns end_ns note", value),
        {"run_id": 1, "start_ns": 0, "end_ns": 10**9, "note": value},
        value,
    ],
    "views": lambda value: {
        "v": {"sessions": [""], "columns": [["", 1, "draft", value]], "baseline": value, "basis": value},
        HTML: value,
    },
}


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two configurations, three runs of each."""
    recording = RecordLog()
    engine = ScriptedEngine(Script(), speed=1000.0)
    request = RunRequest(
        "side-by-side", Sample("e.npy", "v.mp4"), ModelChoice("draft"), ModelChoice("target"), repeat=3, cell="both"
    )
    engine.run(request, recording, threading.Event())
    path = tmp_path_factory.mktemp("hostile") / "s.evprof"
    with SessionWriter(recording, path):
        pass
    return path


@pytest.fixture
def changed(session: Path, tmp_path: Path) -> Callable[..., Path]:
    """A copy with other facts and other infos of all runs."""

    def change(facts: dict[str, Any], infos: dict[str, Any] | None = None) -> Path:
        path = tmp_path / "s.evprof"
        path.write_bytes(session.read_bytes())
        with closing(sqlite3.connect(path)) as connection:
            for key, value in facts.items():
                connection.execute("INSERT OR REPLACE INTO session VALUES (?, ?, 0)", (key, json.dumps(value)))
            for run_id, text in connection.execute("SELECT run_id, info FROM runs").fetchall():
                info = json.dumps({**json.loads(text), **(infos or {})})
                connection.execute("UPDATE runs SET info = ? WHERE run_id = ?", (info, run_id))
            connection.commit()
        seal(path)
        return path

    return change


def commands(path: Path) -> Iterator[tuple[str, ...]]:
    folder = path.parent
    yield "report", str(path), "-o", str(folder / "r.md")
    yield "report", str(path), "-o", str(folder / "r.html")
    yield "compare", str(path)
    yield "compare", str(path), "--json"
    yield "compare", str(path), "--view", "v"
    yield "show", str(path)
    yield "show", str(path), "--json"
    for number, (kind, name) in enumerate(
        (("chrome", "t.json"), ("csv", "rows.csv"), ("csv", "tables"), ("json", "d.json"))
    ):
        yield "export", str(path), "--format", kind, "-o", str(folder / f"{number}-{name}")


def survives(path: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, int]:
    """Runs every command; the exit codes. Fails for a defect, an endless one, and for what reaches a screen or page."""
    codes = {}
    for words in commands(path):
        capsys.readouterr()
        code = main(list(words))
        said = capsys.readouterr()
        assert code in {0, 1, 2}, words
        assert "a defect of evprof" not in said.err, (words, said.err)
        assert "Traceback" not in said.err
        assert not _NOT_PRINTED.search(said.out + said.err), words
        if code:
            assert "evprof: " in said.err, words
            assert len(said.err) < 5_000
        codes[" ".join(words[:1])] = code
    for name in ("r.md", "r.html"):
        written = path.parent / name
        if written.exists():
            page = written.read_text(encoding="utf-8")
            assert len(page) < 2_000_000
            assert not _NOT_PRINTED.search(page)
            assert "<script>alert" not in (page if name == "r.html" else re.sub(r"(?s)```.*?```", "", page))
    for name in ("0-t.json", "3-d.json"):
        if (path.parent / name).exists():
            json.loads((path.parent / name).read_text(), parse_constant=pytest.fail)
    return codes


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_facts_of_another_kind_cost_themselves_alone(changed, capsys, value) -> None:
    codes = survives(changed({f"fact:{key}": value for key in FACTS}), capsys)
    # What is nested without end is no session of ours any more.
    refused = int(value == deep(500))
    assert (codes["report"], codes["show"], codes["export"]) == (refused,) * 3


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_parts_of_facts_of_another_kind(changed, capsys, value) -> None:
    codes = survives(changed({f"fact:{key}": shape(value) for key, shape in SHAPES.items()}), capsys)
    refused = int(value == deep(500))
    assert (codes["report"], codes["export"]) == (refused, refused)


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_runs_that_say_odd_things_of_themselves(changed, capsys, value) -> None:
    free = {
        "sample": {"name": value, "prompt": value, "events": value, "video": value, "reference": value, HTML: value},
        "settings": {"max_new_tokens": value, "frames": value, HTML: value, "input": value},
        "environment": {"threads": value, "gpu": value, "gpu_end": {"clocks_mhz": value}, HTML: value},
    }
    survives(changed({"environment": {"device": value, "torch": value, HTML: value}}, free), capsys)


@pytest.mark.parametrize("value", [text for text in VALUES.values() if isinstance(text, str)])
def test_texts_of_runs_are_texts_and_nothing_else(changed, capsys, value: str) -> None:
    infos = {"cell": value, "text": value, "warnings": [value], "error": value, "started_at": value, "mode": value}
    imported = {"path": value, "family": value, "row": -1, "figures": {value: float("nan")}, "notes": [value] * 50}
    survives(changed({}, infos), capsys)
    survives(changed({}, {**infos, "imported": imported}), capsys)
    survives(changed({}, {**infos, "status": "failed"}), capsys)
