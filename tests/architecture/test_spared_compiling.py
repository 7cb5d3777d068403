"""What the window's start leaves uncompiled, or takes compiled from a file, is the same in all else."""

from __future__ import annotations

import marshal
import re
import sys
from pathlib import Path

import pytest

from apart import run_apart
from ui.style.late_patterns import LONG, putting_off_patterns

_CLASSES = """
import dataclasses
from ui.style.late_methods import put_off_methods
if {is_late}:
    put_off_methods()
    put_off_methods()

@dataclasses.dataclass(frozen=True, order=True)
class Fixed:
    name: str
    size: int = 1

@dataclasses.dataclass(slots=True)
class Loose:
    parts: list = dataclasses.field(default_factory=list)

class Heir(Fixed):
    pass

def outcome(work):
    try:
        return repr(work())
    except Exception as error:
        return type(error).__name__ + ": " + str(error)

a, b, c = Fixed("a"), Fixed("a", 1), Fixed("b", size=2)
for work in (
    lambda: (a == b, a == c, a != c, a < c, a >= c, hash(a) == hash(b), {{a: 1}}[b], a == "a"),
    lambda: Heir("x") == Heir("x"), lambda: Heir("x") == Fixed("x"), lambda: hash(Heir("x")) == hash(Heir("x")),
    lambda: (a, Heir("h"), Loose([1])), lambda: dataclasses.replace(a, size=3), lambda: dataclasses.asdict(c),
    lambda: setattr(a, "name", "z"), lambda: setattr(Heir("x"), "size", 2), lambda: delattr(a, "name"),
    lambda: setattr(a, "other", "z"), lambda: hash(Loose()), lambda: Loose() == Loose(), lambda: a < 3, lambda: Fixed(),
    lambda: (Fixed.__eq__.__qualname__, Fixed.__hash__.__name__, Loose.__eq__.__qualname__),
):
    print(outcome(work))
    print(outcome(work))
"""


def test_methods_that_are_compiled_late_do_what_they_do_otherwise() -> None:
    late, at_once = (run_apart(_CLASSES.format(is_late=is_late)) for is_late in (True, False))
    assert late == at_once


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="that dataclasses compiles a class's methods at once")
def test_a_method_is_compiled_when_it_is_first_called_and_once() -> None:
    code = (
        "import dataclasses\ncompiled = []\ncreate = dataclasses._create_fn\n"
        "def tell(name, *given, **named):\n    compiled.append(name)\n    return create(name, *given, **named)\n"
        "dataclasses._create_fn = tell\nfrom ui.style.late_methods import put_off_methods\nput_off_methods()\n"
        "@dataclasses.dataclass(frozen=True)\nclass Point:\n    x: int\n"
        "print(compiled)\na, b = Point(1), Point(1)\nprint(a == b, b == a, {a, b} == {a}, repr(a) == repr(b))\n"
        "print(sorted(compiled))"
    )
    first, *rest = run_apart(code).splitlines()
    assert first == "['__init__']"
    assert rest == ["True True True True", "['__eq__', '__hash__', '__init__', '__repr__']"]


_START = """
import builtins
compile_anew, compiled = builtins.compile, []
def tell(source, name, *given, **named):
    compiled.append(str(name))
    return compile_anew(source, name, *given, **named)
builtins.compile = tell
from ui.style.source_reading import spare_sources
spare_sources()
print(sum(name.startswith("shibokensupport") for name in compiled), builtins.compile is tell)
from PySide6.QtCore import QObject
try:
    QObject().setParent(3)
except TypeError as error:  # worded by what was compiled
    print(" ".join(str(error).split()))
"""


def test_the_code_of_pyside_s_modules_is_kept_from_one_start_to_the_next(tmp_path: Path) -> None:
    first, second = (run_apart(_START, PYTHONPYCACHEPREFIX=str(tmp_path)).splitlines() for _ in range(2))
    assert first[0] != "0 True"
    assert second[0] == "0 True"
    assert first[1:] == second[1:]
    assert "Supported signatures" in second[1]


def test_damaged_code_is_made_anew(tmp_path: Path) -> None:
    first = run_apart(_START, PYTHONPYCACHEPREFIX=str(tmp_path))
    (kept,) = tmp_path.rglob("*.pyside")
    whole = kept.read_bytes()
    for damaged in (b"", whole[: len(whole) // 2], b"N"):
        kept.write_bytes(damaged)
        assert run_apart(_START, PYTHONPYCACHEPREFIX=str(tmp_path)) == first
        assert marshal.loads(kept.read_bytes()) == marshal.loads(whole)


def test_nothing_is_kept_where_python_is_to_write_no_code(tmp_path: Path) -> None:
    run_apart(_START, PYTHONPYCACHEPREFIX=str(tmp_path), PYTHONDONTWRITEBYTECODE="1")
    assert list(tmp_path.rglob("*")) == []


def test_long_patterns_are_compiled_when_they_are_used_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    compile_now, compiled = re.compile, []

    def tell(pattern: str, flags: int = 0) -> re.Pattern[str]:
        compiled.append(pattern)
        return compile_now(pattern, flags)

    monkeypatch.setattr(re, "compile", tell)
    long = "(a | b)* # " + "x" * LONG
    with putting_off_patterns():
        late, short = re.compile(long, re.VERBOSE), re.compile("c")
        split = late.split
    assert re.compile is tell
    assert compiled == ["c"]
    assert short.findall("cc") == ["c", "c"]
    plain = compile_now(long, re.VERBOSE)
    assert [late.fullmatch(text) is None for text in ("abba", "abc")] == [False, True]
    assert split("xaby", maxsplit=1) == plain.split("xaby", maxsplit=1)
    assert compiled == ["c", long]


_IMPORTS = """
import builtins, re
imports, compile_now, lengths = builtins.__import__, re.compile, []
def tell(pattern, flags=0):
    lengths.append(len(pattern))
    return compile_now(pattern, flags)
re.compile = tell
from ui.style.source_reading import spare_sources
spare_sources()
print(builtins.__import__ is imports, max(lengths) < 2000)
"""


def test_pyside_s_core_is_loaded_without_its_long_patterns_and_leaves_imports_to_python() -> None:
    assert run_apart(_IMPORTS) == "True True"
