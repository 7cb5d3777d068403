"""`evprof cuda`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from evprof.cli.command import Command, add_json_option
from evprof.cli.parser import CommandExample
from evprof.cli.terminal.console import Console
from evprof.core.errors import USAGE, UserError


class CudaCommand(Command):
    """Install or remove the CUDA add-on, which makes evprof use NVIDIA GPUs, without a network.

    The add-on is a folder of files, evprof-cuda, made where the packages can be downloaded and carried here. install
    checks every file and replaces the torch for CPUs; nothing is changed when one is damaged. remove brings the torch
    for CPUs back. Without an action: what is installed, and what the add-on of this version holds.
    """

    name = "cuda"
    examples = (
        CommandExample("evprof cuda", "say whether the add-on is installed, and what it holds"),
        CommandExample("evprof cuda install evprof-cuda", "install it from the folder that was brought here"),
        CommandExample("evprof cuda remove", "go back to the CPU"),
    )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """The action and its folder."""
        parser.add_argument("action", nargs="?", choices=("install", "remove"), help="what to do")
        parser.add_argument("folder", nargs="?", type=Path, metavar="DIR", help="the folder evprof-cuda to install")
        add_json_option(parser)

    def run(self, options: argparse.Namespace, console: Console) -> int:
        """Does it; each step is told on standard error."""
        from evprof.cli.cuda.wheels import locked_wheels

        if (options.action == "install") != (options.folder is not None):
            raise UserError("Give the folder of the add-on with install, and only there.", exit_code=USAGE)
        if options.action == "install":
            _install(options.folder, console)
        elif options.action == "remove":
            _remove(console)
        document = _document(locked_wheels())
        if console.is_json:
            console.document(document)
            return 0
        console.print(_sentence(document))
        return 0


def _install(folder: Path, console: Console) -> None:
    from evprof.cli.cuda import addon, environment
    from evprof.cli.cuda.wheels import locked_wheels

    wheels = locked_wheels()
    if not folder.is_dir():
        raise UserError(f"There is no folder '{folder}'; give the folder evprof-cuda that holds the wheels.")
    bundle = addon.bundle_folder()
    if bundle is None:
        environment.install(folder, wheels, console.note)
    else:
        addon.install(folder, bundle, wheels, console.note)


def _remove(console: Console) -> None:
    from evprof.cli.cuda import addon

    bundle = addon.bundle_folder()
    if bundle is None:
        raise UserError(
            "In an environment of pip, install a torch for CPUs from where you have one, then remove what it no longer "
            "needs: evprof doctor names the packages."
        )
    console.note("The CUDA add-on is removed." if addon.remove(bundle) else "There is no CUDA add-on here.")


def _document(wheels: Any) -> dict[str, Any]:
    from importlib import metadata

    from evprof.cli.cuda import addon
    from evprof.cli.cuda.wheels import running_python

    bundle = addon.bundle_folder()
    chosen = wheels.for_python(running_python())
    return {
        "schema_version": 1,
        "installed": None if bundle is None else addon.packages_folder(bundle) is not None,
        "torch": metadata.version("torch"),
        "add_on": {
            "torch": wheels.torch,
            "cuda": wheels.cuda,
            "files": len(chosen),
            "bytes": sum(wheel.size for wheel in chosen),
        },
    }


def _sentence(document: dict[str, Any]) -> str:
    from evprof.core.units import bytes_text

    add_on = document["add_on"]
    holds = (
        f"The add-on of this version is torch {add_on['torch']} for CUDA {add_on['cuda']}: {add_on['files']} files, "
        f"{bytes_text(add_on['bytes'])}."
    )
    if document["installed"] is None:
        return f"This environment holds torch {document['torch']}. {holds}"
    return f"The CUDA add-on is {'installed' if document['installed'] else 'not installed'}. {holds}"
