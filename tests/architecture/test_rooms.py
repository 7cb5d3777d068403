"""The rooms of the house: no circle of imports, and no folder that nobody overlooks."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("evprof", "engines", "ui", "assets")
MOST_FILES = 25


def imports() -> dict[str, set[str]]:
    """Module -> modules that it imports anywhere in it, or names in a string to import them later."""
    graph = grimp.build_graph(*PACKAGES)
    found = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    for module in found:
        place = ROOT / module.replace(".", "/")
        path = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
        tree = ast.parse(path.read_text(encoding="utf-8"))
        words = {
            node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)
        }
        found[module] |= {word for word in words & found.keys() if "." in word}
    return found


def circles(graph: Mapping[str, set[str]]) -> Iterator[list[str]]:
    """Groups of modules of which each imports each, by way of others or not."""
    reached = {module: _reached(graph, module) for module in graph}
    groups = {
        frozenset(other for other in reached[module] if module in reached[other])
        for module in graph
        if module in reached[module]
    }
    return (sorted(group) for group in groups)


def _reached(graph: Mapping[str, set[str]], start: str) -> set[str]:
    found: set[str] = set()
    waiting = [start]
    while waiting:
        new = graph[waiting.pop()] - found
        found |= new
        waiting += new
    return found


def test_no_modules_import_each_other_in_a_circle() -> None:
    assert list(circles(imports())) == []


def test_a_circle_would_be_seen() -> None:
    assert list(circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}})) == [["a", "b", "c"]]


@pytest.mark.parametrize("package", PACKAGES)
def test_no_folder_holds_more_files_than_one_can_overlook(package: str) -> None:
    counted = Counter(path.parent for path in (ROOT / package).rglob("*.py"))
    assert {str(folder): count for folder, count in counted.items() if count > MOST_FILES} == {}
