"""The CUDA add-on: made from a list, and installed offline. Its wheels are tiny ones here."""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from addon.wheelhouse import download, make
from evprof.cli.doctor import cuda
from evprof.cli.doctor.cuda import Wheel, WheelList, locked_wheels, running_python
from evprof.core.errors import UserError

ROOT = Path(__file__).parents[2]
MORE = 900
PYTHON = sys.executable


def wheel_bytes(package: str, version: str, files: dict[str, str]) -> bytes:
    """A wheel of text files, as pip installs it."""
    buffer = io.BytesIO()
    info = f"{package}-{version}.dist-info"
    tag = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    contents = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n",
        f"{info}/WHEEL": tag,
    }
    contents[f"{info}/RECORD"] = "".join(f"{name},,\n" for name in [*contents, f"{info}/RECORD"])
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, text in contents.items():
            archive.writestr(name, text)
    return buffer.getvalue()


def listed(package: str, version: str, content: bytes) -> Wheel:
    """Its line of the list."""
    file = f"{package}-{version}-py3-none-any.whl"
    return Wheel(package, version, file, len(content), hashlib.sha256(content).hexdigest())


class Offer:
    """An index of two wheels, as files."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.contents = {
            "evprof_fake_torch": wheel_bytes(
                "evprof_fake_torch", "2.0", {"evprof_fake_torch/__init__.py": "IS = 'cuda'"}
            ),
            "evprof_fake_blas": wheel_bytes("evprof_fake_blas", "1.0", {"evprof_fake_blas.py": f"A = '{'x' * MORE}'"}),
        }
        versions = {"evprof_fake_torch": "2.0", "evprof_fake_blas": "1.0"}
        lines = [listed(name, versions[name], content) for name, content in self.contents.items()]
        only = Wheel("only", "1", "only.whl", 1, "", python=running_python())
        self.every = WheelList("2.0", "13.0", (*lines, only))
        self.wheels = tuple(lines)
        self.folder = folder
        for line in lines:
            (folder / line.file).write_bytes(self.contents[line.package])
        self.asked: list[str] = []

    def locate(self, wheel: Wheel) -> str:
        """Where a wheel is."""
        self.asked.append(wheel.package)
        return (self.folder / wheel.file).as_uri()


@pytest.fixture
def offer(tmp_path: Path) -> Offer:
    return Offer(tmp_path / "index")


@pytest.fixture
def wheelhouse(offer: Offer, tmp_path: Path) -> Path:
    folder = tmp_path / "evprof-cuda"
    make(folder, offer.wheels, offer.locate, lambda _: None)
    return folder


@pytest.fixture
def bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A frozen program's folder, with the torch it was frozen with."""
    folder = tmp_path / "frozen"
    (folder / "_internal" / "torch-2.0+cpu.dist-info").mkdir(parents=True)
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    monkeypatch.setattr(sys, "_MEIPASS", str(folder / "_internal"), raising=False)
    monkeypatch.setattr(sys, "executable", str(folder / "evprof"))
    return folder


def of_two(offer: Offer) -> WheelList:
    """The list as a machine of this Python sees it."""

    class OfTwo(WheelList):
        def for_python(self, version: str) -> tuple[Wheel, ...]:
            return offer.wheels

    return OfTwo("2.0", "13.0", offer.wheels)


def test_the_list_is_of_the_pinned_torch_and_every_python() -> None:
    found = locked_wheels()
    pins = dict(
        line.split("==") for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines() if "==" in line
    )
    assert found.torch == pins["torch"]
    for python in ("3.11", "3.12", "3.13"):
        wheels = found.for_python(python)
        assert len({wheel.package for wheel in wheels}) == len(wheels) >= 15
        assert {"torch", "triton", "nvidia-cublas", "nvidia-cuda-runtime"} <= {wheel.package for wheel in wheels}
        by_pin = {name.lower().replace("_", "-"): version for name, version in pins.items()}
        assert {wheel.package: wheel.version for wheel in wheels} == {
            wheel.package: by_pin[wheel.package] for wheel in wheels
        }
    for wheel in found.wheels:
        assert wheel.file.endswith(".whl")
        assert "/" not in wheel.file
        assert wheel.size > 0
        assert len(bytes.fromhex(wheel.sha256)) == 32
    with pytest.raises(UserError, match=r"made for Python 3\.11, 3\.12, 3\.13, and this is 3\.10"):
        found.for_python("3.10")


def test_making_goes_on_after_an_interruption(offer: Offer, tmp_path: Path) -> None:
    folder = tmp_path / "evprof-cuda"
    folder.mkdir()
    first, second = offer.wheels
    (folder / first.file).write_bytes(offer.contents[first.package])
    (folder / f"{second.file}.unfinished").write_bytes(offer.contents[second.package][:500])
    make(folder, offer.wheels, offer.locate, lambda _: None)
    assert offer.asked == [second.package]
    assert (folder / second.file).read_bytes() == offer.contents[second.package]
    offer.asked.clear()
    make(folder, offer.wheels, offer.locate, lambda _: None)
    assert offer.asked == []


def test_a_download_asks_for_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Answer(io.BytesIO):
        status = 206

    asked: list[Any] = []

    def urlopen(request, timeout):
        asked.append(request.get_header("Range"))
        return Answer(b"5678")

    monkeypatch.setattr("urllib.request.urlopen", urlopen)
    target = tmp_path / "file"
    target.write_bytes(b"01234")
    download("https://example.invalid/file", target, 9)
    assert (asked, target.read_bytes()) == (["bytes=5-"], b"012345678")


def test_another_file_than_the_list_says_is_not_kept(offer: Offer, tmp_path: Path) -> None:
    (offer.folder / offer.wheels[0].file).write_bytes(b"something else")
    with pytest.raises(UserError, match="is not the file of the list"):
        make(tmp_path / "evprof-cuda", offer.wheels, offer.locate, lambda _: None)
    assert not list((tmp_path / "evprof-cuda").iterdir())


def test_installing_into_the_frozen_program_and_removing(offer: Offer, wheelhouse: Path, bundle: Path) -> None:
    assert cuda.packages_folder(bundle) is None
    for _ in range(2):  # the second one replaces the first
        cuda.install(wheelhouse, lambda _: None, of_two(offer))
        packages = cuda.packages_folder(bundle)
        assert packages == bundle / "cuda" / "packages"
        assert (packages / "evprof_fake_torch" / "__init__.py").read_text(encoding="utf-8") == "IS = 'cuda'"
        assert [path.name for path in bundle.iterdir() if path.name.startswith("cuda")] == ["cuda"]
    assert cuda.remove(bundle)
    assert not cuda.remove(bundle)
    assert [path.name for path in bundle.iterdir()] == ["_internal"]


def test_an_add_on_of_another_torch_or_python_or_an_unfinished_one_is_not_used(bundle: Path) -> None:
    (bundle / "cuda" / "packages").mkdir(parents=True)
    assert cuda.packages_folder(bundle) is None
    mark = bundle / "cuda" / "addon.json"
    for text, is_used in (
        (json.dumps({"torch": "2.0", "python": running_python()}), True),
        (json.dumps({"torch": "1.9", "python": running_python()}), False),
        (json.dumps({"torch": "2.0", "python": "3.1"}), False),
        ("{", False),
        ("[]", False),
    ):
        mark.write_text(text, encoding="utf-8")
        assert (cuda.packages_folder(bundle) is not None) == is_used


def test_damaged_files_and_a_full_disk_change_nothing(offer: Offer, wheelhouse: Path, bundle: Path) -> None:
    paths = [wheelhouse / wheel.file for wheel in offer.wheels]
    with pytest.raises(UserError, match="are needed; make room there"):
        cuda.install_in_bundle(paths, bundle, {}, lambda _: None, spare_bytes=1 << 60)
    assert [path.name for path in bundle.iterdir()] == ["_internal"]
    cuda.install(wheelhouse, lambda _: None, of_two(offer))
    paths[1].write_bytes(paths[1].read_bytes()[:-1] + b"?")
    with pytest.raises(UserError, match=r"evprof_fake_blas.*is damaged or another file"):
        cuda.install(wheelhouse, lambda _: None, of_two(offer))
    assert cuda.packages_folder(bundle) is not None
    paths[1].unlink()
    with pytest.raises(UserError, match="is not there; copy the whole folder"):
        cuda.install(wheelhouse, lambda _: None, of_two(offer))


@pytest.mark.parametrize("name", ["../outside", "/outside", "a/../../outside", "..\\outside"])
def test_names_that_lead_away_are_refused(tmp_path: Path, name: str) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(name, "x")
    with zipfile.ZipFile(buffer) as archive, pytest.raises(UserError, match="leads elsewhere"):
        cuda.unpack(archive, tmp_path / "packages")
    assert not (tmp_path / "outside").exists()


def test_libraries_of_a_wheels_data_folder_are_unpacked_and_its_scripts_are_not(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("a-1.data/purelib/inside/lib.so", "x")
        archive.writestr("a-1.data/scripts/tool", "x")
    with zipfile.ZipFile(buffer) as archive:
        cuda.unpack(archive, tmp_path)
    assert [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()] == ["inside/lib.so"]


def test_the_frozen_programs_torch_is_the_add_ons(offer: Offer, wheelhouse: Path, bundle: Path) -> None:
    """What packaging/program.py does before torch is imported, in a process of its own."""
    cuda.install(wheelhouse, lambda _: None, of_two(offer))
    own = bundle / "_internal" / "evprof_fake_torch.py"
    own.write_text("IS = 'cpu'", encoding="utf-8")
    script = f"""
import runpy, sys
sys.frozen, sys._MEIPASS = True, {str(own.parent)!r}
sys.path.insert(0, sys._MEIPASS)
real, sys.executable = sys.executable, {str(bundle / "evprof")!r}
runpy.run_path({str(ROOT / "packaging" / "program.py")!r}, run_name="program")
import evprof_fake_torch
print(evprof_fake_torch.IS, "torch" in sys.modules)
"""
    environment = {"PYTHONPATH": str(ROOT), "PATH": ""}

    def printed() -> str:
        done = subprocess.run(
            [PYTHON, "-c", script], capture_output=True, text=True, env=environment, check=True, timeout=300
        )
        return done.stdout.strip()

    assert printed() == "cuda False"
    cuda.remove(bundle)
    assert printed() == "cpu False"


def test_an_environment_of_pip_is_left_to_pip(offer: Offer, wheelhouse: Path) -> None:
    with pytest.raises(UserError, match="pip install --no-index"):
        cuda.install(wheelhouse, lambda _: None, of_two(offer))
    with pytest.raises(UserError, match="with pip"):
        cuda.remove(None)


def test_the_options_of_doctor(evprof, offer: Offer, wheelhouse: Path, bundle: Path, monkeypatch) -> None:
    monkeypatch.setattr(cuda, "locked_wheels", lambda: of_two(offer))
    installed = evprof("doctor", "--install-cuda", wheelhouse)
    assert (installed.code, installed.output) == (0, "")
    assert installed.errors.endswith("The CUDA add-on is installed.\n")
    assert "The CUDA add-on is removed." in evprof("doctor", "--remove-cuda").errors
    assert evprof("doctor", "--install-cuda", wheelhouse, "--remove-cuda").code == 2
    assert evprof("doctor", "--install-cuda", wheelhouse / "nowhere").code == 1
    assert "use `evprof doctor --install-cuda" in evprof("cuda", "install", wheelhouse).errors
