"""`evprof bench gpu`: every GPU check and figure in one go, or the plan of it."""

from __future__ import annotations

import argparse
import io
from dataclasses import replace
from pathlib import Path
from typing import Any

from evprof.cli.bench.gpu_report import gpu_blocks
from evprof.cli.terminal import program
from evprof.cli.terminal.blocks import print_blocks
from evprof.cli.terminal.console import Console
from evprof.core.errors import USAGE, UserError
from evprof.run.gpu_bench.driver import has_gpu
from evprof.run.gpu_bench.driving import GpuBench, measure_gpu
from evprof.run.gpu_bench.plan import MOST_S, GpuSection, chosen_sections
from evprof.run.gpu_bench.targets import is_fused_proven
from evprof.run.processes.interrupts import stop_flag

SIZES = ("tiny", "7b")

_CPU_PATIENCE = 10
"""Times as long as on a GPU: the plan's seconds are a GPU machine's, and nobody waits for one here."""


def measure(options: argparse.Namespace, console: Console) -> dict[str, Any]:
    """The document, which also lies in `--out`. Ctrl-C ends the section at work and keeps what was measured.

    Raises UserError (exit code 2) without a folder and for words that mean nothing.
    """
    if options.out is None:
        raise UserError("bench gpu needs a folder for what it measures; name it with --out.", exit_code=USAGE)
    if options.shape not in (None, *SIZES):
        raise UserError(f"--shape of bench gpu is {' or '.join(SIZES)}, not {options.shape}.", exit_code=USAGE)
    sections = chosen_sections(options.only)
    if options.device.startswith("cpu") or not has_gpu():
        sections = [replace(section, limit_s=_CPU_PATIENCE * section.limit_s) for section in sections]

    def argv(section: GpuSection) -> list[str]:
        size = [] if options.shape is None else ["--shape", options.shape]
        where = ["--device", options.device, "--dtype", options.dtype, *size]
        return program.program_argv("_gpu-section", section.name, *where, "--limit", str(section.limit_s))

    with stop_flag() as stop:
        document = measure_gpu(GpuBench(sections, argv, Path(options.out), gpu_page), stop, console.note)
    if is_fused_proven(document):
        _note_proven(document, console)
    return document


def _note_proven(document: dict[str, Any], console: Console) -> None:
    """From now on `--step auto` takes the fused step here."""
    from engines.decoder.fused_proof import note_proven
    from engines.hardware.device import choose_device

    try:
        path = note_proven(choose_device(document["settings"]["device"]))
    except OSError as error:
        console.warn(f"That the fused step is right here could not be noted: {error.strerror or error}.")
    else:
        console.note(
            f"The fused step was right at every context and in every test: --step auto takes it here ({path})."
        )


def gpu_page(document: dict[str, Any]) -> str:
    """gpu.md."""
    page = io.StringIO()
    print_blocks(gpu_blocks(document), Console(page), is_markdown=True)
    return page.getvalue()


def tell_plan(options: argparse.Namespace, console: Console) -> None:
    """Prints the sections with their seconds and the reckoning behind these, and starts nothing."""
    sections = chosen_sections(options.only)
    if console.is_json:
        plan = [section.to_json() for section in sections]
        console.document({"schema_version": 1, "benchmark": "gpu", "plan": plan, "most_s": MOST_S})
        return
    for section in sections:
        console.print(f"{section.name}: {section.title}, at most {section.limit_s} s")
        console.wrapped(section.reckoning, "    ", "    ")
    console.print(f"together at most {sum(section.limit_s for section in sections)} s")
