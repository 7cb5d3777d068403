"""The options of `evprof run` about speculation, and the settings they make: who drafts, how much, and when."""

from __future__ import annotations

import argparse

from evprof.core.errors import USAGE, UserError
from evprof.core.speculation import (
    AFTERWARDS,
    BEGINNINGS,
    DRAFT_LENGTHS,
    KV,
    KV_ADAPTED,
    PAIRED_MODES,
    SPECULATIVE,
    VERIFICATIONS,
    SpeculationSettings,
)
from evprof.loaders.adapters import UNTRAINED, AdapterInfo, check_mode, drafter_of


def add_speculation_options(parser: argparse.ArgumentParser) -> None:
    """Adds them; the defaults are those of SpeculationSettings."""
    defaults = SpeculationSettings()
    group = parser.add_argument_group("speculation")
    group.add_argument(
        "--drafter",
        metavar="NAME|ADAPTER",
        help=f"who drafts: {', '.join(UNTRAINED)}, or a trained adapter's folder or bundled name (default: model)",
    )
    group.add_argument(
        "--adapter", metavar="ADAPTER", help="a trained adapter's folder or bundled name; its kind says who drafts"
    )
    group.add_argument(
        "--draft-length", choices=DRAFT_LENGTHS, default=defaults.length, help="of rounds (default: %(default)s)"
    )
    group.add_argument(
        "--draft-tree", metavar="N,N,…", default=defaults.tree, help="children by level, such as 3,2,1 (EAGLE only)"
    )
    group.add_argument(
        "--draft-begins", choices=BEGINNINGS, default=defaults.begins, help="parallel prefill: default %(default)s"
    )
    group.add_argument(
        "--hidden-tokens",
        type=int,
        metavar="N",
        help="parallel prefill: drafted inside (default: what there is time for)",
    )
    group.add_argument(
        "--verify", choices=VERIFICATIONS, default=defaults.verify, help="parallel prefill: default %(default)s"
    )
    group.add_argument(
        "--afterwards", choices=AFTERWARDS, default=defaults.afterwards, help="parallel prefill: default %(default)s"
    )
    group.add_argument("--no-judgements", action="store_true", help="keep no probabilities of drafted tokens")


def speculation_of(options: argparse.Namespace) -> SpeculationSettings:
    """The settings asked for. Raises UserError (exit code 2) for a drafter that nobody knows or that contradicts."""
    drafter, info = drafter_of(options.drafter, options.adapter)
    _check_mode(options, info)
    return SpeculationSettings(
        drafter=drafter,
        adapter=None if info is None else str(info.folder),
        length=options.draft_length,
        tree=options.draft_tree,
        judges=not options.no_judgements,
        begins=options.draft_begins,
        hidden=options.hidden_tokens,
        verify=options.verify,
        afterwards=options.afterwards,
    )


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
    if options.mode not in PAIRED_MODES:
        raise UserError(f"--{asked} says who drafts, and in mode {options.mode} nobody does.", exit_code=USAGE)
    if info is not None:
        check_mode(info, options.mode)
