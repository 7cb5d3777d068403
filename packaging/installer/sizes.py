"""How large the frozen folder is, by package.

Usage: python packaging/installer/sizes.py FOLDER [BEFORE]      BEFORE: a table written earlier by this program
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

SMALLEST_MB = 1.0
"""Smaller packages are told together."""

_BELONGS_TO = {
    **dict.fromkeys(("av.libs",), "av"),
    **dict.fromkeys(("numpy.libs",), "numpy"),
    **dict.fromkeys(("pillow.libs", "PIL"), "pillow"),
    **dict.fromkeys(("h5py.libs",), "h5py"),
    **dict.fromkeys(("sentencepiece.libs",), "sentencepiece"),
    **dict.fromkeys(("shiboken6",), "PySide6"),
    **dict.fromkeys(("lib-dynload", "base_library.zip"), "Python"),
}


def sizes_by_package(folder: Path) -> dict[str, int]:
    """Bytes by package, largest first. Modules that are in the programs' archives count for the programs."""
    found: Counter[str] = Counter()
    for path in folder.rglob("*"):
        if path.is_symlink() or not path.is_file():
            continue
        parts = path.relative_to(folder).parts
        if parts[0] == "_internal":
            parts = parts[1:]
        name = parts[0]
        if (len(parts) == 1 and name.startswith("libpython")) or name.startswith("python3"):
            name = "Python"
        elif name.endswith(".dist-info"):
            name = "metadata of packages"
        elif len(parts) == 1 and ".so" in name:
            name = "libraries of the system"
        found[_BELONGS_TO.get(name, name)] += path.stat().st_size
    return dict(found.most_common())


def table(sizes: dict[str, int], before: dict[str, float]) -> str:
    """A line per package in MB, with what it was before where that is known."""
    names = dict.fromkeys([*sizes, *before])
    rows = [(name, sizes.get(name, 0) / 1e6, before.get(name)) for name in names]
    shown = [row for row in rows if max(row[1], row[2] or 0) >= SMALLEST_MB]
    rest = [row for row in rows if row not in shown]
    shown.append(("all others", sum(row[1] for row in rest), sum(row[2] or 0 for row in rest) if before else None))
    shown.append(("total", sum(sizes.values()) / 1e6, sum(before.values()) if before else None))
    return "\n".join(
        f"{name:<28}{size:>9.1f} MB" + (f"{was or 0:>12.1f} MB before" if before else "") for name, size, was in shown
    )


def main(words: list[str]) -> int:
    """Prints the table."""
    if len(words) not in (1, 2):
        print(__doc__, file=sys.stderr)
        return 2
    before = {}
    if len(words) == 2:
        for line in Path(words[1]).read_text(encoding="utf-8").splitlines():
            name, size = line[:28].strip(), line[28:].split()
            if size and name != "total":
                before[name] = float(size[0])
    print(table(sizes_by_package(Path(words[0])), before))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
