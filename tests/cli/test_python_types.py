"""What a checker of types, strict, is told of `import evprof`."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

_USE = """
import evprof

with evprof.open("a.evprof") as session:
    reveal_type(session)
    reveal_type(session.runs)
    reveal_type(session.run(1).figures)
    reveal_type(session.tokens)
    reveal_type(session.tokens["piece"])
    reveal_type(session.run(1).error)
reveal_type(evprof.profile(events="a", gamma=4, top_p=0.5, ignore_eos=True))
evprof.profile(in_process="no")
evprof.nothing
"""

_TOLD = (
    "evprof.notebook.session.Session",
    "tuple[evprof.notebook.session.Run, ...]",
    "Mapping[str, float | None]",
    "evprof.notebook.tables.DataTable",
    "numpy.ndarray[",
    "str | None",
    "evprof.notebook.session.Session",
)


def test_types_are_shipped_and_say_what_they_should(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    api = pytest.importorskip("mypy.api")
    assert (ROOT / "evprof" / "py.typed").is_file()
    (tmp_path / "use.py").write_text(_USE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MYPYPATH", str(ROOT))
    # Of the packages themselves nothing is told, as of installed ones.
    words = ["--strict", "--no-color-output", "--follow-imports=silent", "--config-file=", "use.py"]
    said, errors, _ = api.run([*words, f"--python-executable={sys.executable}"])
    lines = [line for line in said.splitlines() if line.startswith("use.py")]
    revealed = [line.partition('Revealed type is "')[2] for line in lines if "Revealed" in line]
    assert len(revealed) == len(_TOLD), said + errors
    assert all(told in line for told, line in zip(_TOLD, revealed, strict=True)), revealed
    (first, second) = (line for line in lines if ": error:" in line)
    assert 'incompatible type "str"; expected "bool"' in first
    assert 'has no attribute "nothing"' in second
