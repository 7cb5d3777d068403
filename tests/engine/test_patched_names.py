"""The names that tests for a GPU import, read from modules and patch exist: a dead one fails without a GPU, too."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parent
FILES = sorted(FOLDER.glob("test_*cuda*.py"))
PATCHERS = ("setattr", "delattr", "patch")
_MISSING = object()


def resolved(dotted: str) -> Any:
    """The module, or what lies in one, that a dotted name means; `_MISSING` where nothing has this name."""
    parts = dotted.split(".")
    for count in range(len(parts), 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:count]))
        except ModuleNotFoundError:
            continue
        for name in parts[count:]:
            found = getattr(found, name, _MISSING)
        return found
    return _MISSING


def imported(tree: ast.AST) -> dict[str, str]:
    """Dotted names by the names that a file gives them."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            names |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            for alias in node.names:
                package = alias.name.split(".")[0]
                names[alias.asname or package] = alias.name if alias.asname else package
    return names


def used(tree: ast.AST) -> Iterator[str]:
    """All imported names, with the attributes read from them or patched in them, and names patched as texts."""
    names = imported(tree)
    yield from names.values()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and (read := ast.unparse(node)).split(".")[0] in names:
            yield _whole(read, names)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in PATCHERS:
            match node.args:
                case [ast.Constant(str(dotted)), *_]:
                    yield dotted
                case [ast.Name() | ast.Attribute() as owner, ast.Constant(str(name)), *_]:
                    if (patched := ast.unparse(owner)).split(".")[0] in names:
                        yield f"{_whole(patched, names)}.{name}"


def _whole(dotted: str, names: dict[str, str]) -> str:
    first, _, rest = dotted.partition(".")
    return ".".join(filter(None, (names[first], rest)))


def missing(text: str) -> list[str]:
    """Names that a file of tests uses and that do not exist; attributes of what a call returns are left out."""
    names = {name for name in used(ast.parse(text)) if "(" not in name and "[" not in name}
    return sorted(name for name in names if resolved(name) is _MISSING)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_nothing_is_missing(path: Path) -> None:
    assert missing(path.read_text(encoding="utf-8")) == []


def test_a_dead_name_is_found() -> None:
    assert missing(
        "from engines.kernels import tuning\n"
        "from engines.kernels.tuning import tune, gone_1\n"
        "monkeypatch.setattr(tuning, '_gone_2', None)\n"
        "monkeypatch.setattr('engines.kernels.tuning.gone_3', None)\n"
        "monkeypatch.setattr('engines.gone_4.tune', None)\n"
        "tuning.gone_5(tuning.tune)\n"
    ) == [
        "engines.gone_4.tune",
        "engines.kernels.tuning._gone_2",
        "engines.kernels.tuning.gone_1",
        "engines.kernels.tuning.gone_3",
        "engines.kernels.tuning.gone_5",
    ]
