"""Makes the folder `evprof-cuda`: every wheel of assets/cuda/wheels.json, checked.

Usage: python packaging/addon/wheelhouse.py FOLDER [--python 3.11]     (needs an index that holds these wheels)

An interrupted download goes on where it was when the command is given again; what is there and whole stays.
`evprof doctor --install-cuda FOLDER` then works without a network.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path

sys.path.extend(str(Path(__file__).resolve().parents[above]) for above in (2, 1))

from addon.resolving import resolved
from evprof.cli.doctor.cuda import Wheel, WheelList, checked, locked_wheels
from evprof.core.errors import UserError

_BLOCK = 1 << 20

README = """The CUDA add-on of evprof

It makes evprof use NVIDIA GPUs. Copy this whole folder to the machine, then:

    evprof doctor --install-cuda FOLDER   (with sudo where evprof was installed for everybody)
    evprof doctor                         says whether the driver is new enough

and `evprof doctor --remove-cuda` to go back to the CPU. No network is needed.
The libraries are NVIDIA's and PyTorch's; each wheel holds its own licence.
"""


def make(
    folder: Path,
    wheels: Sequence[Wheel],
    locate: Callable[[Wheel], str],
    say: Callable[[str], None],
) -> None:
    """Puts every wheel into `folder`. `locate` says from where. Raises UserError, and OSError when a download ends."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, wheel in enumerate(wheels, 1):
        counted = f"[{number}/{len(wheels)}] {wheel.file}"
        if _is_whole(folder, wheel):
            say(f"{counted}: already there")
            continue
        say(f"{counted}: {wheel.size:,} bytes")
        unfinished = folder / f"{wheel.file}.unfinished"
        download(locate(wheel), unfinished, wheel.size)
        target = unfinished.replace(folder / wheel.file)
        try:
            checked(folder, wheel)
        except UserError:
            target.unlink()
            raise UserError(f"{wheel.file}: what the index gave is not the file of the list; it was removed.") from None
    (folder / "README.txt").write_text(README, encoding="utf-8")


def _is_whole(folder: Path, wheel: Wheel) -> bool:
    try:
        checked(folder, wheel)
    except UserError:
        return False
    return True


def download(url: str, target: Path, size: int) -> None:
    """Writes what `url` holds; goes on after what is there already, where the server can do that."""
    begun = target.stat().st_size if target.exists() else 0
    if begun >= size:
        return
    request = urllib.request.Request(url, headers={"Range": f"bytes={begun}-"} if begun else {})
    with urllib.request.urlopen(request, timeout=60) as source:
        goes_on = begun and getattr(source, "status", None) == 206
        with target.open("ab" if goes_on else "wb") as sink:
            shutil.copyfileobj(source, sink, _BLOCK)


def located(wheels: WheelList, python: str) -> Callable[[Wheel], str]:
    """Where this machine's pip would take each wheel from."""
    wanted = [f"{wheel.package}=={wheel.version}" for wheel in wheels.for_python(python)]
    urls = {entry["download_info"]["url"] for entry in resolved(wanted, python, is_alone=True)}
    by_name: dict[str, str] = {url.rsplit("/", 1)[1]: url for url in urls}

    def locate(wheel: Wheel) -> str:
        if wheel.file not in by_name:
            raise UserError(f"The index that pip asks here does not offer {wheel.file}; ask one that does.")
        return by_name[wheel.file]

    return locate


def main(words: Sequence[str]) -> int:
    """Makes the folder and says how large it is."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--python", default=f"{sys.version_info.major}.{sys.version_info.minor}")
    options = parser.parse_args(words)
    wheels = locked_wheels()
    try:
        make(options.folder, wheels.for_python(options.python), located(wheels, options.python), print)
    except UserError as error:
        raise SystemExit(error.sentence) from None
    except (OSError, urllib.error.URLError) as error:
        raise SystemExit(f"the download ended ({error}); give the same command again to go on") from None
    sizes = [path.stat().st_size for path in options.folder.iterdir()]
    print(f"{options.folder}: {len(sizes)} files, {sum(sizes):,} bytes, the largest {max(sizes):,}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
