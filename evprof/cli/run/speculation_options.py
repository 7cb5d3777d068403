"""Who drafts, as the command line names it, and the mode that goes with it."""

from __future__ import annotations

import argparse
from dataclasses import replace

from evprof.cli.setting_options import settings_of
from evprof.core.errors import USAGE, UserError
from evprof.core.vocabulary.drafters import KV
from evprof.core.vocabulary.modes import KV_ADAPTED, SPECULATIVE, mode_of
from evprof.core.vocabulary.speculation import SpeculationSettings
from evprof.loaders.adapters import AdapterInfo, check_mode, drafter_of


def speculation_of(options: argparse.Namespace) -> SpeculationSettings:
    """The settings asked for. Raises UserError (exit code 2) for a drafter that nobody knows or that contradicts."""
    drafter, info = drafter_of(options.drafter, options.adapter)
    _check_mode(options, info)
    folder = None if info is None else str(info.folder)
    return replace(settings_of(options).speculation, drafter=drafter, adapter=folder)


def mode_by_drafter(options: argparse.Namespace) -> str | None:
    """The mode that naming a drafter asks for; None where none is named."""
    if options.drafter is None and options.adapter is None:
        return None
    _, info = drafter_of(options.drafter, options.adapter)
    return KV_ADAPTED if info is not None and info.kind == KV else SPECULATIVE


def _check_mode(options: argparse.Namespace, info: AdapterInfo | None) -> None:
    asked = next((name for name in ("drafter", "adapter") if getattr(options, name) is not None), None)
    if asked is None or options.mode is None:
        return
    if not mode_of(options.mode).is_paired:
        raise UserError(f"--{asked} says who drafts, and in mode {options.mode} nobody does.", exit_code=USAGE)
    if info is not None:
        check_mode(info, options.mode)
