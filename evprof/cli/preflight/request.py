"""A request of `evprof run`, and the cells and samples of a suite, before anything is loaded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from evprof.cli.preflight.devices import check_device, check_needs_of_device
from evprof.cli.preflight.inputs import check_sample
from evprof.cli.preflight.models import check_models
from evprof.cli.preflight.places import check_file, check_folder
from evprof.core.errors import UserError
from evprof.core.request import RunRequest
from evprof.core.sample import Sample
from evprof.run.suites.cell import SuiteConfiguration

_MOST_SAMPLES = 50
"""Samples of a suite that are opened beforehand; opening thousands would take longer than it saves."""


def check_request(request: RunRequest) -> None:
    """Raises UserError for what cannot come to a measurement."""
    choices = [choice for choice in map(request.choice_of, request.roles) if choice is not None]
    for choice in choices:
        check_device(choice.device)
    check_needs_of_device(request.mode, request.settings, [choice.device for choice in choices])
    check_models(choice.name for choice in choices)
    if request.trace is not None:
        check_folder(Path(request.trace.folder), "--torch-trace")
    if request.snapshot is not None:
        check_file(Path(request.snapshot), "--memory-snapshot")
    check_sample(request.sample)


def check_cells(cells: Sequence[SuiteConfiguration]) -> None:
    """Raises UserError for a cell whose models or devices cannot be had."""
    for cell in cells:
        choices = [choice for role in cell.roles if (choice := cell.choice(role)) is not None]
        try:
            for choice in choices:
                check_device(choice.device)
            check_needs_of_device(cell.mode, cell.settings, [choice.device for choice in choices])
            check_models(choice.name for choice in choices)
        except UserError as error:
            raise UserError(f"Cell '{cell.label}': {error.sentence}", exit_code=error.exit_code) from None


def check_samples(samples: Sequence[Sample], tell: Callable[[str], None]) -> None:
    """Tells which of the first samples cannot be read, as their rows will fail. Raises UserError when none can."""
    looked_at = samples[:_MOST_SAMPLES]
    problems: list[UserError] = []
    for sample in looked_at:
        try:
            check_sample(sample)
        except UserError as error:
            problems.append(error)
            tell(f"sample '{sample.name}': {error.sentence}")
    if problems and len(problems) == len(samples):
        raise UserError(f"None of the {len(samples):,} samples can be read: {problems[0].sentence}")
