"""Makes and measures the bundled models: ``python packaging/make_pair.py all``, or one step of it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import assets

ASSETS = Path(assets.__file__).parent
SEED = 7
HELD_OUT_SCENES = 40


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python packaging/make_pair.py", description="Make and measure the bundled tiny models."
    )
    parser.add_argument("--seed", type=int, default=SEED, help="where all chance comes from (default: %(default)s)")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("all", help="samples, train, evaluate and adapters, one after the other, into assets")
    samples = commands.add_parser("samples", help="write the bundled samples and the held-out scenes")
    samples.add_argument("--out", type=Path, default=ASSETS)
    train = commands.add_parser("train", help="train both models from the seed")
    train.add_argument("--out", type=Path, default=ASSETS / "models")
    train.add_argument("--work", type=Path, default=Path("build/tiny"), help="scenes and towers are kept here")
    evaluate = commands.add_parser(
        "evaluate",
        help="entropy, repeats, accuracy by kind of question and acceptance, on held-out scenes and productions",
    )
    evaluate.add_argument("--scenes", type=int, default=HELD_OUT_SCENES)
    evaluate.add_argument("--models", type=Path, default=ASSETS / "models")
    evaluate.add_argument("--json", action="store_true", help="print one JSON document instead of tables")
    scenes = commands.add_parser("scenes", help="write scenes and a list of them, to try evprof adapter on")
    scenes.add_argument("--count", type=int, default=40, help="default: %(default)s")
    scenes.add_argument("--held-out", action="store_true", help="scenes that nothing was trained on")
    scenes.add_argument("--workers", type=int, default=1, help="processes (default: %(default)s)")
    scenes.add_argument("-o", "--out", type=Path, required=True)
    adapters = commands.add_parser("adapters", help="train and evaluate the bundled adapters")
    adapters.add_argument("--out", type=Path, default=ASSETS / "adapters")
    adapters.add_argument("--work", type=Path, default=Path("build/adapters"), help="scenes and examples are kept here")
    adapters.add_argument("--kinds", nargs="+", help="default: those that are bundled")
    adapters.add_argument("--evaluate-only", action="store_true", help="leave weights as they are, write cards anew")
    arguments = parser.parse_args()
    if arguments.command != "all":
        return step(arguments)
    for words in (["samples"], ["train"], ["evaluate"], ["adapters"]):
        step(parser.parse_args(["--seed", str(arguments.seed), *words]))
    return 0


def step(arguments: argparse.Namespace) -> int:
    """Do one step; the exit code."""
    if arguments.command == "samples":
        from bundled_pair.samples import write_samples

        for path in write_samples(arguments.out, arguments.seed):
            print(path)
    elif arguments.command == "train":
        from bundled_pair.training import train_pair

        train_pair(arguments.out, arguments.work, arguments.seed)
    elif arguments.command == "scenes":
        from bundled_pair.scene_files import write_scene_files

        options = {"held_out": arguments.held_out, "workers": arguments.workers}
        print(write_scene_files(arguments.out, max(1, arguments.count), arguments.seed, **options))
    elif arguments.command == "adapters":
        from bundled_pair.adapters import BUNDLED, evaluate_adapters, make_adapters

        make = evaluate_adapters if arguments.evaluate_only else make_adapters
        for path in make(arguments.out, arguments.work, arguments.seed, kinds=arguments.kinds or BUNDLED):
            print(path)
    else:
        from bundled_pair.evaluation import evaluate_pair

        return evaluate_pair(arguments.models, arguments.scenes, arguments.seed, as_json=arguments.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
