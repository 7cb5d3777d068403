"""The self-extracting installer on a small bundle: install, upgrade, interruption, damage, uninstall."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from installer.archives import compress, tar
from installer.run_file import decompressor, write_run


def make_run(work: Path, version: str) -> Path:
    """A .run whose program prints its version; it needs 8 KB and holds one file that the next version lacks."""
    folder = work / f"bundle-{version}"
    program = folder / "root" / "opt" / "evprof"
    (program / "share" / "applications").mkdir(parents=True)
    (program / "VERSION").write_text(f"{version}\n")
    for name in ("evprof", "evprof-window"):
        (program / name).write_text(f"#!/bin/sh\necho {name} {version}\n")
        (program / name).chmod(0o755)
    (program / f"only-in-{version}").write_text("x")
    desktop = Path(__file__).parents[2] / "packaging" / "evprof.desktop"
    shutil.copy(desktop, program / "share" / "applications" / "evprof.desktop")
    (program / "share" / "mime" / "packages").mkdir(parents=True)
    (program / "share" / "mime" / "packages" / "evprof.xml").write_text("<x/>")
    data = folder / "data.tar.xz"
    compress(tar(folder / "root", 1_700_000_000, "./opt"), ("xz", "--stdout"), data)
    files = sum(path.is_file() for path in program.rglob("*"))
    out = work / f"evprof-{version}.run"
    values: dict[str, object] = {"VERSION": version, "INSTALLED_KB": 40, "FILES": files}
    write_run(out, data, decompressor(folder, 1_700_000_000), values)
    return out


def run(script: Path, *words: str, home: Path, path: str | None = None) -> subprocess.CompletedProcess[str]:
    environment = {"HOME": str(home), "PATH": path or os.environ["PATH"]}
    return subprocess.run(
        ["sh", str(script), *words], capture_output=True, text=True, timeout=120, env=environment, check=False
    )


@pytest.fixture(scope="module")
def installers(tmp_path_factory) -> tuple[Path, Path]:
    if shutil.which("xz") is None:
        pytest.skip("xz is not installed")
    work = tmp_path_factory.mktemp("installers")
    return make_run(work, "1.0.0"), make_run(work, "1.1.0")


def files_below(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir() or path.is_symlink())


def test_installs_upgrades_and_leaves_nothing(installers, tmp_path) -> None:
    prefix = tmp_path / "ä place with $ign"
    done = run(installers[0], "--prefix", str(prefix), home=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "100 %" in done.stdout
    says = subprocess.run([prefix / "bin" / "evprof"], capture_output=True, text=True, check=True).stdout
    assert says == "evprof 1.0.0\n"
    assert (prefix / "share" / "mime" / "packages" / "evprof.xml").exists()

    done = run(installers[1], "--prefix", str(prefix), home=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Upgraded from 1.0.0" in done.stdout
    says = subprocess.run([prefix / "bin" / "evprof"], capture_output=True, text=True, check=True).stdout
    assert says == "evprof 1.1.0\n"
    assert not list(prefix.rglob("only-in-1.0.0"))

    script = prefix / "lib" / "evprof" / "uninstall.sh"
    done = run(script, "--uninstall", "--prefix", str(prefix), home=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "~/.local/share/evprof" in done.stdout
    assert files_below(tmp_path) == []


def test_an_ordinary_user_needs_no_root(installers, tmp_path) -> None:
    # `id` says that somebody else than root is asking.
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "id").write_text("#!/bin/sh\necho 1000\n")
    (tools / "id").chmod(0o755)
    home = tmp_path / "home"
    home.mkdir()
    done = run(installers[0], home=home, path=f"{tools}:/usr/bin:/bin")
    assert done.returncode == 0, done.stderr
    assert (home / ".local" / "lib" / "evprof" / "VERSION").exists()
    assert (home / ".local" / "share" / "applications" / "evprof.desktop").exists()
    assert f"{home}/.local/bin is not in your PATH" in done.stdout
    script = home / ".local" / "lib" / "evprof" / "uninstall.sh"
    assert run(script, "--uninstall", home=home, path=f"{tools}:/usr/bin:/bin").returncode == 0
    assert list(home.iterdir()) == []


"""What the installer calls, without xz."""


@pytest.mark.parametrize("change", ["cut", "changed"])
def test_a_damaged_file_installs_nothing(installers, tmp_path, change) -> None:
    data = bytearray(installers[0].read_bytes())
    if change == "cut":
        del data[-100:]
    else:
        data[-100] ^= 1
    damaged = tmp_path / "damaged.run"
    damaged.write_bytes(data)
    done = run(damaged, "--prefix", str(tmp_path / "p"), home=tmp_path)
    assert done.returncode == 1
    assert {"cut": "is incomplete", "changed": "its checksum is wrong"}[change] in done.stderr
    assert not (tmp_path / "p").exists()


def test_an_interrupted_upgrade_leaves_the_old_version(installers, tmp_path) -> None:
    prefix = tmp_path / "p"
    assert run(installers[0], "--prefix", str(prefix), home=tmp_path).returncode == 0
    before = files_below(prefix)
    # A `tar` that ends its own installer in the middle of unpacking.
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "tar").write_text(f'#!/bin/sh\n{shutil.which("tar")} "$@"\nkill -TERM "$INSTALLER"\nsleep 5\n')
    (tools / "tar").chmod(0o755)
    starter = tmp_path / "starter.sh"
    starter.write_text(f'export INSTALLER=$$\nPATH={tools}:$PATH exec sh "{installers[1]}" --prefix "{prefix}"\n')
    done = run(starter, home=tmp_path)
    assert done.returncode == 130, (done.stdout, done.stderr)
    assert "what was installed before is unchanged" in done.stderr
    assert files_below(prefix) == before


def test_a_folder_of_somebody_else_is_left_alone(installers, tmp_path) -> None:
    program = tmp_path / "p" / "lib" / "evprof"
    program.mkdir(parents=True)
    (program / "thesis.txt").write_text("years of work")
    done = run(installers[0], "--prefix", str(tmp_path / "p"), home=tmp_path)
    assert done.returncode == 1
    assert "was not installed by this installer" in done.stderr
    assert (program / "thesis.txt").read_text() == "years of work"
