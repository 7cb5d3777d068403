"""`evprof adapter`."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from evprof.cli.command import Command
from evprof.cli.parser import CommandExample, add_command, add_commands
from evprof.cli.terminal.console import Console

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
    CommandExample(
        "evprof adapter train examples --kind lora --size rank=16 -o tuned --evaluate held-out.csv",
        "train changes of the draft and measure them",
    ),
)
_EVALUATE = (
    CommandExample("evprof adapter evaluate head held-out.csv", "measure it, and write that into its description"),
    CommandExample("evprof adapter evaluate evprof-tiny-eagle held-out.csv --no-write --json", "only measure it"),
)


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
        """The three sub-commands."""
        from evprof.cli.adapter import options as adapter_options

        choices = add_commands(parser, "action", is_required=True)
        for name, run, add_options, examples in (
            ("collect", _collect, adapter_options.add_collect_options, _COLLECT),
            ("train", _train, adapter_options.add_train_options, _TRAIN),
            ("evaluate", _evaluate, adapter_options.add_evaluate_options, _EVALUATE),
        ):
            entry = add_command(choices, name, run.__doc__ or "", examples)
            add_options(entry)
            entry.set_defaults(work=run)

    def run(self, options: argparse.Namespace, console: Console) -> int:
        """Carries the sub-command out; 130 when stopped."""
        work: Callable[[argparse.Namespace, Console], int] = options.work
        return work(options, console)


def _collect(options: argparse.Namespace, console: Console) -> int:
    """Have the target answer a list of samples, and keep both models' hidden states.

    The same command goes on with what is in DIR; examples made in another way are refused.
    """
    from evprof.cli.adapter.collect import collect

    return collect(options, console)


def _train(options: argparse.Namespace, console: Console) -> int:
    """Train an adapter on collected examples.

    All examples of a scene are either trained on or held back to judge the others. Training ends when its steps are
    done or nothing gets better; the best state is kept, with its curves and a model card.
    """
    from evprof.cli.adapter.train import train

    return train(options, console)


def _evaluate(options: argparse.Namespace, console: Console) -> int:
    """Measure an adapter on samples it was not trained on.

    Token match, cosine, acceptance by position, and speedups of decoding and end to end against plain decoding of the
    same samples, in interleaved runs. Samples it has seen are left out. What was measured goes into the adapter's
    description and model card.
    """
    from evprof.cli.adapter.evaluate import evaluate

    return evaluate(options, console)
