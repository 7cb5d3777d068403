"""Puts the licences of everything in a frozen program beside it, and a list of its parts (SBOM).

Usage: python packaging/licences/write.py BUNDLE     BUNDLE: the folder that PyInstaller made, dist/evprof

Writes BUNDLE/licences (README.txt, licences.json, a folder per part) and BUNDLE/sbom.cdx.json. Ends with 1 and names
every part whose licence is not known or not allowed; nothing is written then.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# What was put into a bundle in place of what this environment holds comes first: PyAV with its FFmpeg.
sys.path[:0] = [str(ROOT / "build" / "bundled"), str(ROOT), str(ROOT / "packaging")]

import evprof  # noqa: E402
from licences.contents import Component, archived_modules, components  # noqa: E402
from licences.policy import LicenceError, policy  # noqa: E402

PROGRAMS = ("evprof", "evprof-window")

README = """Licences of what is inside evprof {version}

evprof itself is under the Apache License 2.0 (evprof/LICENSE). Each part below is under its own licence, whose text
lies in the folder of its name. No part is under the GPL without an exception that allows this use.

Qt, PySide6 and Shiboken are used under the GNU Lesser General Public License 3, FFmpeg and some libraries of the
system under the LGPL 2.1 or later. They are shared libraries in files of their own, below _internal. You may replace
them by compatible versions of your own: put the file in the place of the old one. You may reverse engineer evprof as
far as it takes to debug such changes. FFmpeg was built without changes by packaging/ffmpeg/build.sh of evprof's
source; PyAV was changed in its version number alone. licences.json says where the source of each part is to be had.

{table}
"""


def write(bundle: Path, parts: Sequence[Component]) -> None:
    """Writes the folder, its list and the SBOM."""
    from licences.sbom import sbom_text

    folder = bundle / "licences"
    shutil.rmtree(folder, ignore_errors=True)
    listed = []
    own = folder / "evprof"
    own.mkdir(parents=True)
    shutil.copy(ROOT / "LICENSE", own / "LICENSE")
    for part in parts:
        place = folder / re.sub(r"[^\w.+-]", "_", part.name)
        texts = _copied(part, place)
        listed.append(
            {
                "name": part.name,
                "version": part.version,
                "licence": part.licence,
                "kind": part.kind,
                "source": part.source,
                "texts": [str(path.relative_to(folder)) for path in texts],
            }
        )
    width = max(len(f"{part.name} {part.version}") for part in parts)
    table = "\n".join(f"{f'{part.name} {part.version}':<{width}}  {part.licence}" for part in parts)
    (folder / "README.txt").write_text(README.format(version=evprof.__version__, table=table), encoding="utf-8")
    document = {"schema_version": 1, "evprof_version": evprof.__version__, "parts": listed}
    (folder / "licences.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    (bundle / "sbom.cdx.json").write_text(sbom_text(evprof.__version__, parts), encoding="utf-8")


def _copied(part: Component, place: Path) -> list[Path]:
    place.mkdir(parents=True, exist_ok=True)
    copies = []
    for text in part.texts:
        target = place / text.name
        number = 1
        while target in copies:
            number += 1
            target = place / f"{text.stem}-{number}{text.suffix}"
        shutil.copy(text, target)
        copies.append(target)
    return copies


def main(words: Sequence[str]) -> int:
    """Collects for the folder that is named."""
    if len(words) != 1:
        raise SystemExit((__doc__ or "").split("\n\n")[1])
    bundle = Path(words[0])
    try:
        programs = [program for name in PROGRAMS if (program := bundle / name).is_file()]
        modules = {name for program in programs for name in archived_modules(program)}
        parts = components(bundle / "_internal", modules, policy())
    except LicenceError as error:
        print(error, file=sys.stderr)
        return 1
    write(bundle, parts)
    kinds = sorted({part.kind for part in parts})
    counts = ", ".join(f"{sum(part.kind == kind for part in parts)} x {kind}" for kind in kinds)
    print(f"{bundle / 'licences'}: {len(parts)} parts ({counts}); {sum(len(part.texts) for part in parts)} texts")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
