"""`evprof adapter`."""

from __future__ import annotations

import argparse
from pathlib import Path

from evprof.cli.command import Command, CommandExample, add_command, add_commands
from evprof.cli.options import add_json_option, add_list_options, add_pair_options, add_ray_options, add_setting
from evprof.cli.terminal.console import Console
from evprof.core.vocabulary.drafters import TAUGHT_KINDS
from evprof.core.vocabulary.settings import SETTINGS

_COLLECT = (
    CommandExample("evprof adapter collect dataset.csv -o examples", "collect with the bundled pair"),
    CommandExample(
        "evprof adapter collect dataset.csv -o examples --target checkpoints/Video-LLaVA-7B --no-draft --device cuda",
        "collect of one model, on a GPU",
    ),
    CommandExample("evprof adapter collect dataset.csv -o examples --ray local", "collect on all GPUs of this machine"),
)
_TRAIN = (
    CommandExample("evprof adapter train examples --kind eagle -o head", "train a head on the target's hidden states"),
    CommandExample("evprof adapter train examples --kind lora --size rank=16 -o tuned", "train changes of the draft"),
)
_EVALUATE = (
    CommandExample("evprof adapter evaluate head held-out.csv", "measure it, and write that into its description"),
    CommandExample("evprof adapter evaluate evprof-tiny-eagle held-out.csv --no-write --json", "only measure it"),
)


_COLLECT_TEXT = """Have the target answer a list of samples, and keep both models' hidden states.

    The same command goes on with what is in DIR; examples made in another way are refused.
    """

_TRAIN_TEXT = """Train an adapter on collected examples.

    All examples of a scene are either trained on or held back to judge the others. Training ends when its steps are
    done or nothing gets better; the best state is kept, with its curves and a model card.
    """

_EVALUATE_TEXT = """Measure an adapter on samples it was not trained on.

    Token match, cosine, acceptance by position, and speedups of decoding and end to end against plain decoding of the
    same samples, in interleaved runs. Samples it has seen are left out. What was measured goes into the adapter's
    description and model card.
    """


class AdapterCommand(Command):
    """Teach drafters on your own data: collect, train, evaluate.

    collect has the target answer every sample of a list and keeps both models' hidden states, in a folder
    of safetensors. train makes an adapter of it: eagle, a head on the target's hidden states; hidden, a map from the
    draft's hidden states to the target's; lora, low-rank changes of the draft; ngram, counts of the target's answers;
    kv, a map from the draft's cache to the target's, which is lossy. evaluate measures one on samples it has not seen.

    After Ctrl-C, or worse, collect goes on where it was; train keeps the best state there was.
    """

    name = "adapter"
    examples = (
        CommandExample("evprof adapter collect dataset.csv -o examples", "collect the target's answers"),
        CommandExample("evprof adapter train examples --kind eagle -o head", "train a drafter on them"),
        CommandExample("evprof adapter evaluate head held-out.csv", "measure it on other samples"),
        CommandExample("evprof run --drafter head", "use it"),
    )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        choices = add_commands(parser, "action", is_required=True)
        for name, text, add_options, examples in (
            ("collect", _COLLECT_TEXT, _add_collect_options, _COLLECT),
            ("train", _TRAIN_TEXT, _add_train_options, _TRAIN),
            ("evaluate", _EVALUATE_TEXT, _add_evaluate_options, _EVALUATE),
        ):
            add_options(add_command(choices, name, text, examples))

    def run(self, options: argparse.Namespace, console: Console) -> int:
        from evprof.cli.adapter.collect import collect
        from evprof.cli.adapter.evaluate import evaluate
        from evprof.cli.adapter.train import train

        actions = {"collect": collect, "evaluate": evaluate, "train": train}
        return actions[options.action](options, console)


KEPT_POSITIONS = 32
"""Twice what a head looks back by default: about 1 MB an example of a 7B model, where eight pictures take 77."""


def _add_collect_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("manifest", metavar="MANIFEST", help="list of samples (CSV, JSON, instruction JSON)")
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


def _add_train_options(parser: argparse.ArgumentParser) -> None:
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
    group = parser.add_argument_group("models", "default: those the examples were collected with")
    group.add_argument("--draft", metavar="MODEL", help="path of the draft, if it was moved")
    group.add_argument("--target", metavar="MODEL", help="path of the target, if it was moved")
    _add_machine(group, "float32")
    add_json_option(parser)


def _add_evaluate_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("adapter", metavar="ADAPTER", help="folder or bundled name of an adapter")
    parser.add_argument("samples", metavar="MANIFEST|DIR", help="list of samples, or examples of adapter collect")
    add_list_options(parser.add_argument_group("samples"))
    group = parser.add_argument_group("runs")
    add_setting(group, SETTINGS["gamma"], default=SETTINGS["gamma"].default)
    group.add_argument("--repeat", type=int, metavar="N", default=3, help="pairs of runs per sample (default: 3)")
    group.add_argument("--max-new-tokens", type=int, metavar="N", help="default: as when it was trained")
    group.add_argument("--draft", metavar="MODEL", help="path of the draft (default: as when it was trained)")
    group.add_argument("--target", metavar="MODEL", help="path of the target (default: as when it was trained)")
    _add_machine(group, "auto")
    parser.add_argument("--no-write", action="store_true", help="leave the adapter's folder as it is")
    add_json_option(parser)


def _add_machine(group: argparse._ArgumentGroup, dtype: str) -> None:
    add_setting(group, SETTINGS["device"], default="auto")
    add_setting(group, SETTINGS["dtype"], default=dtype)
