"""The Debian package: control files, and the three members of its archive."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

from installer.archives import tar

CONTROL = """\
Package: evprof
Version: {version}
Architecture: {architecture}
Maintainer: evprof maintainers <evprof@localhost>
Installed-Size: {installed_kb}
Depends: libc6 (>= {glibc})
Recommends: xdg-utils, libegl1, libgl1
Suggests: desktop-file-utils, shared-mime-info
Section: science
Priority: optional
Description: visual profiler for event-camera and video language models
 evprof loads an event-camera recording and the matching video, runs EventGPT
 and a Video-LLaVA-family model through one instrumented engine, and draws what
 happens while it happens.
 .
 Everything it needs is inside, torch's CPU build included; nothing is fetched
 from a network. evprof-cuda adds NVIDIA GPUs.
"""
"""It holds all it needs, so it depends on the C library alone. A window on a real display uses the machine's own
graphics libraries where they are there."""

PREINST = """\
#!/bin/sh
set -e
case "$1" in
  install|upgrade)
    if [ -f /opt/evprof/installed-files.txt ]; then
      echo "evprof: /opt/evprof was installed by the .run file; remove it first:" >&2
      echo "  sh /opt/evprof/uninstall.sh --uninstall" >&2
      exit 1
    fi
    for entry in /proc/[0-9]*/exe; do
      case "$(readlink "$entry" 2>/dev/null)" in
        /opt/evprof/*)
          echo "evprof is running: close it and start it again after this; until then it is a mixture." ;;
      esac
    done
    ;;
esac
exit 0
"""

POSTRM = """\
#!/bin/sh
set -e
case "$1" in
  purge)
    echo "evprof is removed. Sessions and settings of its users are kept, in each one's home:"
    echo "  ~/.local/share/evprof  sessions        ~/.config/evprof        settings"
    echo "  ~/.local/state/evprof  reports         ~/.cache/evprof         can be deleted at any time"
    ;;
  remove)
    # What Python may have written beside the modules; the packages' own files dpkg has removed.
    rm -rf /opt/evprof
    ;;
esac
exit 0
"""


def control(version: str, installed_kb: int, glibc: str, architecture: str = "amd64") -> str:
    """The control file."""
    return CONTROL.format(version=version, installed_kb=installed_kb, glibc=glibc, architecture=architecture)


def write_deb(out: Path, data: Path, files: Mapping[str, str], time: int, work: Path) -> None:
    """Writes the package of an already compressed `data` archive and control files by name."""
    folder = work / "control"
    folder.mkdir()
    for name, text in files.items():
        path = folder / name
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755 if text.startswith("#!") else 0o644)
    packed = work / "control.tar.xz"
    plain = subprocess.run(tar(folder, time, "."), stdout=subprocess.PIPE, check=True).stdout
    packed.write_bytes(subprocess.run(["xz", "--stdout"], input=plain, stdout=subprocess.PIPE, check=True).stdout)
    with out.open("wb") as file:
        file.write(b"!<arch>\n")
        for name, size, parts in (
            ("debian-binary", 4, [b"2.0\n"]),
            ("control.tar.xz", packed.stat().st_size, _pieces(packed)),
            ("data.tar.xz", data.stat().st_size, _pieces(data)),
        ):
            file.write(f"{name:<16}{time:<12}{0:<6}{0:<6}{'100644':<8}{size:<10}`\n".encode())
            for part in parts:
                file.write(part)
            if size % 2:
                file.write(b"\n")


def _pieces(path: Path) -> list[bytes]:
    with path.open("rb") as file:
        return list(iter(lambda: file.read(1 << 24), b""))
