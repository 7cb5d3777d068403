"""Makes the installers of a frozen folder: trimmed, measured, as .deb, .run and .tar.zst.

Usage: python packaging/installer/make.py FOLDER OUT [--version X.Y.Z] [--only deb,run,portable] [--fast]
       FOLDER: what `make frozen` made, dist/evprof     OUT: where the installers go
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "packaging")]

import evprof  # noqa: E402
from installer.archives import XZ, ZSTD, compress, tar  # noqa: E402
from installer.deb import POSTRM, PREINST, control, write_deb  # noqa: E402
from installer.desktop_files import DEBIAN_PLACES, write_share  # noqa: E402
from installer.run_file import decompressor, write_run  # noqa: E402
from installer.sizes import sizes_by_package, table  # noqa: E402
from installer.trimming import newest_glibc, trim  # noqa: E402

KINDS = ("deb", "run", "portable")


def build_time() -> int:
    """The time that archived files bear: SOURCE_DATE_EPOCH, or that of the last commit."""
    given = os.environ.get("SOURCE_DATE_EPOCH")
    if given:
        return int(given)
    done = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True, check=False)
    return int(done.stdout) if done.stdout.strip() else 1_700_000_000


def complete(folder: Path, version: str) -> None:
    """Puts beside the programs what an installer spreads: version, licences, the files for desktop and shell."""
    (folder / "VERSION").write_text(f"{version}\n", encoding="utf-8")
    shutil.copy(ROOT / "LICENSE", folder / "LICENSE")
    shutil.rmtree(folder / "share", ignore_errors=True)
    write_share(folder / "share")
    # Ends the build where the licence of a part is not known or does not allow this.
    subprocess.run([sys.executable, str(ROOT / "packaging" / "licences" / "write.py"), str(folder)], check=True)


def stage(folder: Path, root: Path) -> tuple[int, int]:
    """Lays the program out below `root` as on a machine; how many KB and files the program's folder has."""
    program = root / "opt" / "evprof"
    program.parent.mkdir(parents=True)
    subprocess.run(["cp", "-al", str(folder), str(program)], check=True)
    share = root / "usr" / "share"
    for path in sorted((folder / "share").rglob("*")):
        place = path.relative_to(folder / "share").as_posix()
        for before, after in DEBIAN_PLACES.items():
            place = place.replace(before, after)
        if path.is_file():
            (share / place).parent.mkdir(parents=True, exist_ok=True)
            os.link(path, share / place)
    (share / "doc" / "evprof").mkdir(parents=True)
    os.link(folder / "LICENSE", share / "doc" / "evprof" / "copyright")
    binaries = root / "usr" / "bin"
    binaries.mkdir(parents=True)
    for name in ("evprof", "evprof-window"):
        (binaries / name).symlink_to(f"/opt/evprof/{name}")
    size = int(
        subprocess.run(["du", "-sk", str(program)], capture_output=True, text=True, check=True).stdout.split()[0]
    )
    return size, sum(path.is_file() and not path.is_symlink() for path in program.rglob("*"))


def main(words: list[str]) -> int:
    """Makes them and says how large each is and how long it took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--version", default=evprof.__version__)
    parser.add_argument("--only", default=",".join(KINDS), help="of deb,run,portable; default: all")
    parser.add_argument("--fast", action="store_true", help="pack quickly into larger files, to try an installer")
    options = parser.parse_args(words)
    folder, out, version = options.folder.resolve(), options.out.resolve(), options.version
    out.mkdir(parents=True, exist_ok=True)
    stamp, begun = build_time(), time.monotonic()
    xz, zstd = (("xz", "-1", "-T2", "-c"), ("zstd", "-3", "-T2", "-c")) if options.fast else (XZ, ZSTD)

    def note(text: str) -> None:
        print(f"{time.monotonic() - begun:6.0f} s  {text}", flush=True)

    note(trim(folder))
    complete(folder, version)
    print(table(sizes_by_package(folder), {}))
    made: list[Path] = []
    with tempfile.TemporaryDirectory(prefix="installer-", dir=out) as name:
        work = Path(name)
        installed_kb, files = stage(folder, work / "root")
        note(f"{files} files, {installed_kb * 1024 / 1e6:.0f} MB installed")
        data = work / "data.tar.xz"
        if "deb" in options.only or "run" in options.only:
            # One archive for both; the .run takes only ./opt/evprof out of it.
            compress(tar(work / "root", stamp, "./opt", "./usr"), xz, data)
            note("packed")
        if "deb" in options.only:
            made.append(out / f"evprof_{version}_amd64.deb")
            texts = {
                "control": control(version, installed_kb, newest_glibc(folder)),
                "preinst": PREINST,
                "postrm": POSTRM,
            }
            write_deb(made[-1], data, texts, stamp, work)
            note(made[-1].name)
        if "run" in options.only:
            made.append(out / f"evprof-{version}-linux-x86_64.run")
            values: dict[str, object] = {"VERSION": version, "INSTALLED_KB": installed_kb, "FILES": files}
            write_run(made[-1], data, decompressor(work, stamp), values)
            note(made[-1].name)
        if "portable" in options.only:
            made.append(out / f"evprof-{version}-linux-x86_64.tar.zst")
            portable = work / f"evprof-{version}"
            subprocess.run(["cp", "-al", str(folder), str(portable)], check=True)
            compress(tar(work, stamp, portable.name), zstd, made[-1])
            note(made[-1].name)
    sums = ""
    for path in made:
        with path.open("rb") as file:
            sums += f"{hashlib.file_digest(file, 'sha256').hexdigest()}  {path.name}\n"
        print(f"{path.stat().st_size / 1e6:8.1f} MB  {path.name}")
    (out / "SHA256SUMS").write_text(sums, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
