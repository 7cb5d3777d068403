"""The window, the decoders and the bundled models."""

from __future__ import annotations

from typing import Any

from evprof.cli.doctor.examination import Examinations
from evprof.cli.doctor.problem import Problem
from evprof.core.installation import how_to_mend, is_bundle


def window_facts(examinations: Examinations, problems: list[Problem]) -> dict[str, Any]:
    """Whether this machine has a display, and whether the window's libraries load."""
    from evprof.cli.terminal.display import LIBRARIES, find_display, install_command

    display = find_display()
    libraries = f"install the libraries that Qt needs ({install_command(LIBRARIES[''])})"
    fix = how_to_mend("PySide6") if is_bundle() else libraries
    facts = examinations.facts("window", problems, fix)
    if display.problem and "window" in examinations:
        problems.append(Problem(f"No window can open: {display.problem}", display.fix))
    return {"display": not display.problem, "libraries": facts}


def decoder_facts(examinations: Examinations, problems: list[Problem]) -> dict[str, Any] | None:
    """Which video codecs can be read, and whether the bundled sample can."""
    facts = examinations.facts("decoders", problems, how_to_mend("av"))
    missing = [name for name, is_there in (facts or {}).get("codecs", {}).items() if not is_there]
    if missing:
        problems.append(
            Problem(f"These video codecs cannot be read: {', '.join(missing)}", how_to_mend("av", "install --upgrade"))
        )
    return facts


def model_facts(problems: list[Problem]) -> dict[str, bool]:
    """Which bundled models are there."""
    from engines import CATALOGUE, bundled_folder

    there = {entry.name: bundled_folder(entry.name) is not None for entry in CATALOGUE if not entry.is_random}
    problems += [
        Problem(f"The bundled model {name} is missing.", "install evprof again")
        for name, is_there in there.items()
        if not is_there
    ]
    return there
