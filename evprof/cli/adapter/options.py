"""The options of `evprof adapter`, by sub-command."""

from __future__ import annotations

import argparse
from pathlib import Path

from evprof.cli.command import add_json_option, add_ray_options
from evprof.cli.sample_options import add_list_options
from evprof.cli.setting_options import add_pair_options, add_setting
from evprof.core.vocabulary.drafters import TAUGHT_KINDS
from evprof.core.vocabulary.settings import SETTINGS

KEPT_POSITIONS = 32
"""Twice what a head looks back by default: about 1 MB an example of a 7B model, where eight pictures take 77."""


def add_collect_options(parser: argparse.ArgumentParser) -> None:
    """Adds what is collected, of whom, and where it goes."""
    parser.add_argument("manifest", metavar="MANIFEST", help="list of samples (CSV, JSON, TOML, instruction JSON)")
    parser.add_argument("-o", "--output", metavar="DIR", type=Path, required=True, help="folder of the examples")
    parser.add_argument("--overwrite", action="store_true", help="start over in a folder that holds examples")
    group = parser.add_argument_group("samples")
    add_list_options(group)
    group.add_argument(
        "--prompt", metavar="TEXT", action="append", help="ask this instead of the list's questions (repeatable)"
    )
    group = parser.add_argument_group("models")
    add_pair_options(group)
    group.add_argument("--no-draft", action="store_true", help="the target alone, which is enough for eagle and ngram")
    group.add_argument(
        "--keep-positions",
        type=int,
        metavar="N",
        default=KEPT_POSITIONS,
        help="with --no-draft: how much of the prompt's end is kept, at least the window of the head that is to learn "
        "from it; 0: all (default: %(default)s)",
    )
    group.add_argument(
        "--keep-layers",
        metavar="auto|N,N,N",
        default="",
        help="also keep what enters these layers of the target, which EAGLE-3 heads (train --size published=3) learn "
        "from; auto: the third, the middle one and the last but two (N is what enters layer N, counted from 0)",
    )
    for key in ("clip", "device", "dtype"):
        add_setting(group, SETTINGS[key])
    group = parser.add_argument_group("answers")
    for key in ("max_new_tokens", "frames", "event_frames"):
        add_setting(group, SETTINGS[key])
    add_ray_options(
        parser.add_argument_group("many GPUs and machines"),
        "collect on all GPUs",
        "without GPUs: a worker for every N CPU threads of a machine (default: one with all of them)",
    )
    add_json_option(parser)


def add_train_options(parser: argparse.ArgumentParser) -> None:
    """Adds what is trained, how, and where it goes."""
    parser.add_argument("data", metavar="DIR", type=Path, help="examples of evprof adapter collect")
    parser.add_argument("--kind", choices=TAUGHT_KINDS, required=True, help="what is trained")
    parser.add_argument("-o", "--output", metavar="ADAPTER", type=Path, required=True, help="folder of the adapter")
    parser.add_argument("--name", metavar="NAME", help="what it is called (default: its folder)")
    parser.add_argument("--overwrite", action="store_true", help="replace the adapter that is there")
    group = parser.add_argument_group("training")
    group.add_argument("--steps", type=int, metavar="N", default=2000, help="at most (default: %(default)s)")
    group.add_argument("--batch", type=int, metavar="N", default=8, help="answers per step (default: %(default)s)")
    group.add_argument(
        "--learning-rate", type=float, metavar="X", default=1e-3, help="the highest (default: %(default)s)"
    )
    group.add_argument(
        "--validation",
        type=float,
        metavar="SHARE",
        default=0.1,
        help="share of scenes held back (default: %(default)s)",
    )
    group.add_argument(
        "--validate-every", type=int, metavar="N", default=0, help="steps (default: a twentieth of them)"
    )
    group.add_argument(
        "--patience", type=int, metavar="N", default=5, help="validations without improvement (default: %(default)s)"
    )
    group.add_argument("--seed", type=int, metavar="N", default=0, help="of weights, order and split (default: 0)")
    group.add_argument(
        "--size",
        metavar="NAME=N",
        action="append",
        default=[],
        help="a size of the kind, such as rank=32 (repeatable)",
    )
    group.add_argument("--session", metavar="S.evprof", type=Path, help="session that the curves are saved in")
    group = parser.add_argument_group("evaluation", "as evprof adapter evaluate does it; without, the card says so")
    group.add_argument("--evaluate", metavar="MANIFEST|DIR", help="samples to measure the trained adapter on")
    _add_pairs(group)
    group = parser.add_argument_group("models", "default: those the examples were collected with")
    group.add_argument("--draft", metavar="MODEL", help="path of the draft, if it was moved")
    group.add_argument("--target", metavar="MODEL", help="path of the target, if it was moved")
    _add_machine(group, "float32")
    add_json_option(parser)


def add_evaluate_options(parser: argparse.ArgumentParser) -> None:
    """Adds what is evaluated on what."""
    parser.add_argument("adapter", metavar="ADAPTER", help="folder or bundled name of an adapter")
    parser.add_argument("samples", metavar="MANIFEST|DIR", help="list of samples, or examples of adapter collect")
    add_list_options(parser.add_argument_group("samples"))
    group = parser.add_argument_group("runs")
    _add_pairs(group)
    group.add_argument("--max-new-tokens", type=int, metavar="N", help="default: as when it was trained")
    group.add_argument("--draft", metavar="MODEL", help="path of the draft (default: as when it was trained)")
    group.add_argument("--target", metavar="MODEL", help="path of the target (default: as when it was trained)")
    _add_machine(group, "auto")
    parser.add_argument("--no-write", action="store_true", help="leave the adapter's folder as it is")
    add_json_option(parser)


def _add_pairs(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--gamma", type=int, metavar="N", default=5, help="tokens drafted per round (default: 5)")
    group.add_argument("--repeat", type=int, metavar="N", default=3, help="pairs of runs per sample (default: 3)")


def _add_machine(group: argparse._ArgumentGroup, dtype: str) -> None:
    add_setting(group, SETTINGS["device"], default="auto")
    add_setting(group, SETTINGS["dtype"], default=dtype)
