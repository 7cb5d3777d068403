"""What the bundle leaves out, what it must keep, and the files by which a desktop and dpkg know it."""

from __future__ import annotations

import ast
import configparser
import importlib
import importlib.util
import re
import tarfile
from pathlib import Path
from xml.etree import ElementTree

import pytest

from frozen.contents import FAMILIES, is_wanted, modules_below, torch_tests
from frozen.libraries import FALLBACK
from installer.archives import tar
from installer.deb import POSTRM, PREINST, control, write_deb
from installer.desktop_files import mime_type
from installer.trimming import can_be_mapped

PACKAGING = Path(__file__).parents[2] / "packaging"


def folder_of(package: str) -> Path:
    found = importlib.util.find_spec(package)
    assert found.submodule_search_locations
    return Path(found.submodule_search_locations[0])


@pytest.mark.parametrize(
    "place",
    [
        *("torch/lib/libtorch_cpu.so", "torch/bin/torch_shm_manager", "hdf5plugin/plugins/libh5blosc.so"),
        *("PySide6/Qt/plugins/platforms/libqxcb.so", "PySide6/Qt/plugins/platforms/libqoffscreen.so"),
        *("PySide6/Qt/plugins/platforms/libqwayland.so", "assets/models/evprof-tiny-eventgpt/model.safetensors"),
        *("tensorboard/webfiles.zip", "torch_tb_profiler/static/index.html", "torch-2.0.dist-info/METADATA"),
    ],
)
def test_kept(place) -> None:
    assert is_wanted(place)


def test_every_model_that_the_engine_imports_comes_along() -> None:

    imported = {
        (node.module or "", alias.name)
        for path in (PACKAGING.parent / "engines").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "transformers"
        for alias in node.names
    }
    assert ("transformers", "LlamaConfig") in imported
    modules = {getattr(importlib.import_module(module), name).__module__ for module, name in imported}
    families = {module.split(".")[2] for module in modules if module.startswith("transformers.models.")}
    assert {"llama", "clip"} <= families <= set(FAMILIES)


def test_torch_keeps_of_its_tests_what_it_imports_at_its_start() -> None:
    torch = folder_of("torch")
    left_out = set(torch_tests(torch))
    named = re.compile(r"^(?:from|import) (torch\.testing\._internal\.[\w.]+)", re.MULTILINE)
    # These two read every module of torch that is imported whenever torch is.
    for path in (torch / "_refs" / "__init__.py", torch / "utils" / "checkpoint.py"):
        assert not left_out & set(named.findall(path.read_text(encoding="utf-8")))
    kept = set(modules_below(torch, left_out))
    assert {"torch", "torch.testing._internal.common_dtype", "torch.optim.adam"} <= kept
    assert "torch.testing._internal.common_utils" not in kept


def test_libraries_are_loaded_after_those_they_need() -> None:
    place = {name: number for number, name in enumerate(FALLBACK)}
    for name, needed in (
        *(
            ("libGLX.so.0", "libxcb.so.1"),
            ("libEGL.so.1", "libGLdispatch.so.0"),
            ("libGL.so.1", "libGLX.so.0"),
            ("libxcb.so.1", "libXau.so.6"),
        ),
        *(("libXdmcp.so.6", "libbsd.so.0"), ("libbsd.so.0", "libmd.so.0")),
        ("libwayland-cursor.so.0", "libwayland-client.so.0"),
    ):
        assert place[needed] < place[name]


def test_the_desktop_entry_has_what_the_standard_asks_for() -> None:
    reader = configparser.RawConfigParser(strict=True, delimiters=("=",))
    reader.optionxform = str  # type: ignore[assignment, method-assign] # keys are case-sensitive
    reader.read(PACKAGING / "evprof.desktop", encoding="utf-8")
    assert reader.sections() == ["Desktop Entry"]
    entry = dict(reader["Desktop Entry"])
    assert entry["Type"] == "Application"
    assert entry["Exec"] == "evprof gui %F"
    assert entry["Terminal"] == "false"
    for key in ("Categories", "MimeType"):
        assert entry[key].endswith(";")
    assert ElementTree.fromstring(mime_type())[0].get("type") == entry["MimeType"].rstrip(";")
    known = {"Type", "Name", "GenericName", "Comment", "Exec", "Icon", "Terminal", "StartupNotify"}
    assert set(entry) <= known | {"Categories", "MimeType"}


def test_a_debian_package_is_an_archive_of_three(tmp_path) -> None:
    data = tmp_path / "data.tar.xz"
    data.write_bytes(b"abc")
    texts = {"control": control("1.2.3", 4567, "2.36"), "preinst": PREINST, "postrm": POSTRM}
    write_deb(tmp_path / "x.deb", data, texts, 1_700_000_000, tmp_path)
    packed = (tmp_path / "x.deb").read_bytes()
    assert packed.startswith(b"!<arch>\ndebian-binary   1700000000")
    assert packed.endswith(b"3         `\nabc\n")
    start = packed.index(b"control.tar.xz")
    size = int(packed[start + 48 : start + 58])
    (tmp_path / "control.tar.xz").write_bytes(packed[start + 60 : start + 60 + size])
    with tarfile.open(tmp_path / "control.tar.xz") as archive:
        assert sorted(archive.getnames()) == [".", "./control", "./postrm", "./preinst"]
        assert archive.getmember("./postrm").mode & 0o111


def test_the_same_files_give_the_same_archive(tmp_path) -> None:
    import subprocess

    found = []
    for name in ("one", "two"):
        folder = tmp_path / name
        folder.mkdir()
        for file in ("b", "a") if name == "one" else ("a", "b"):
            (folder / file).write_text(file)
        found.append(subprocess.run(tar(folder, 1_700_000_000, "."), capture_output=True, check=True).stdout)
    assert found[0] == found[1]


def test_a_library_whose_segments_are_not_aligned_is_not_taken(tmp_path) -> None:
    source = Path(importlib.util.find_spec("_ssl").origin or "")
    data = bytearray(source.read_bytes())
    good = tmp_path / "good.so"
    good.write_bytes(data)
    assert can_be_mapped(good)
    start = int.from_bytes(data[0x20:0x28], "little")
    size, count = int.from_bytes(data[0x36:0x38], "little"), int.from_bytes(data[0x38:0x3A], "little")
    for number in range(count):
        at = start + number * size
        if int.from_bytes(data[at : at + 4], "little") == 1:
            data[at + 8 : at + 16] = (int.from_bytes(data[at + 8 : at + 16], "little") + 8).to_bytes(8, "little")
    bad = tmp_path / "bad.so"
    bad.write_bytes(data)
    assert not can_be_mapped(bad)
