"""`evprof doctor`."""

from __future__ import annotations

import argparse
import contextlib
import platform
from dataclasses import asdict
from typing import Any

from evprof.cli.command import Command, add_json_option
from evprof.cli.doctor.examination import Examinations
from evprof.cli.doctor.folders import folder_facts, folder_text
from evprof.cli.doctor.machine import check_gpus, energy_devices, gpu_facts
from evprof.cli.doctor.packages import (
    QUANTIZATION,
    installed_parts,
    is_for_reading,
    optional_text,
    optional_versions,
    versions,
)
from evprof.cli.doctor.parts import decoder_facts, model_facts, window_facts
from evprof.cli.doctor.problem import Problem
from evprof.cli.parser import CommandExample
from evprof.cli.terminal.console import Console
from evprof.core.build import commit
from evprof.core.installation import how_to_mend
from evprof.version import __version__


class DoctorCommand(Command):
    """Say what this installation consists of, what does not work, and how to mend it.

    Versions, GPU, Qt and its platform, folders; the bundled sample is read and a bundled model answers. Problems do not
    change the exit code.
    """

    name = "doctor"
    examples = (
        CommandExample("evprof doctor", "look for what does not work here"),
        CommandExample("evprof doctor --json", "the same as JSON, to send to whoever helps"),
    )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Only --json."""
        add_json_option(parser)

    def run(self, options: argparse.Namespace, console: Console) -> int:
        """Examines every part, each on its own, so that a broken one hides no other."""
        from evprof.cli.terminal.facts import facts_lines

        console.note("Examining every part; the engine takes longest.")
        document = examine()
        if console.is_json:
            console.document(document)
            return 0
        shown = {name: value for name, value in document.items() if name not in ("schema_version", "problems")}
        shown["optional"] = {name: optional_text(name, version) for name, version in document["optional"].items()}
        shown["folders"] = {name: folder_text(facts) for name, facts in document["folders"].items()}
        for line in facts_lines(shown):
            console.print(line)
        console.print()
        for entry in document["problems"]:
            console.print(f"problem: {entry['problem']}\n    fix: {entry['fix']}")
        if document["only_reads_sessions"]:
            console.print(
                "This installation only reads sessions (show, compare, report, export, Python); "
                f"`{how_to_mend('evprof', 'install')}` adds the engine and the window."
            )
        if not document["problems"]:
            console.print("No problems found.")
        return 0


def examine() -> dict[str, Any]:
    """The document: every part's facts, and problems with their fixes."""
    problems: list[Problem] = []
    installed, optional = versions(problems), optional_versions()
    with contextlib.closing(Examinations(installed_parts(installed, optional))) as examinations:
        document: dict[str, Any] = {
            "schema_version": 1,
            "evprof_version": __version__,
            "commit": commit(),
            "python": platform.python_version(),
            "platform": platform.platform(),
            "only_reads_sessions": is_for_reading(installed),
            "packages": installed,
            "optional": optional,
            "gpu": gpu_facts(problems),
            "energy": energy_devices(problems),
            "models": model_facts(problems),
            "folders": folder_facts(problems),
            "decoders": decoder_facts(examinations, problems),
            "window": window_facts(examinations, problems),
            "engine": examinations.facts("engine", problems, how_to_mend("torch transformers")),
        }
        examinations.facts(QUANTIZATION, problems, how_to_mend("evprof[quant]"))
        check_gpus(document["engine"], problems)
    document["problems"] = [asdict(problem) for problem in problems]
    return document
