"""Training: the loop, the adapters of every kind, and what is refused."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from engines.adapters.folder import load_tensors
from engines.training.collect_plan import CollectPlan
from engines.training.collecting import Collecting, ExamplesHere
from engines.training.example import Example
from engines.training.loop import Curves, Figures, Trainee, Training, TrainingOptions, mean_figures, split_by_scene
from engines.training.making import TrainEnd, TrainPlan, train_adapter, write_evaluation
from evprof.core.errors import UserError
from evprof.core.sample import Sample
from evprof.core.vocabulary.drafters import TAUGHT_KINDS
from evprof.core.vocabulary.generation import GenerationSettings, ModelChoice
from evprof.loaders.adapters import read_adapter
from evprof.loaders.bundled import bundled_samples
from evprof.loaders.collection import read_collection, scene_of


def example(name: str = "scene", tokens: int = 4) -> Example:
    ids = torch.arange(tokens)
    return Example(name, "?", ids, ids, torch.zeros(2, 3), torch.zeros(tokens + 1, 3), (0, 1))


class OneNumber(Trainee):
    """Its parameter moves towards 1; what is said of it on held-back examples is scripted."""

    def __init__(self, matches: Sequence[float], losses: Sequence[float] | None = None) -> None:
        self.number = nn.Parameter(torch.zeros(()))
        self.states: list[float] = []
        self.batches: list[list[str]] = []
        self.fitted = 0
        self._matches, self._losses = list(matches), list(losses or [1.0] * len(matches))

    def parameters(self) -> list[nn.Parameter]:
        return [self.number]

    def loss(self, examples: Sequence[Example]) -> torch.Tensor:
        self.batches.append([example.name for example in examples])
        return (self.number - 1) ** 2

    def fit(self, examples: Sequence[Example]) -> None:
        self.fitted = len(examples)

    def figures(self, examples: Sequence[Example]) -> Figures:
        place = len(self.states)
        self.states.append(float(self.number.detach()))
        return Figures(self._losses[place], self._matches[place])

    def tensors(self) -> dict[str, torch.Tensor]:
        return {"number": self.number.detach()}

    def config(self) -> dict[str, Any]:
        return {}


class Silent:
    def __init__(self) -> None:
        self.steps: list[tuple[int, int, float]] = []
        self.best: list[bool] = []

    def step(self, step: int, steps: int, loss: float) -> None:
        self.steps.append((step, steps, loss))

    def judged(self, curves: Curves, *, is_best: bool) -> None:
        self.best.append(is_best)


def trained(trainee: Any, options: TrainingOptions, stop: Any = None) -> tuple[Training, Silent, bool]:
    watcher = Silent()
    training = Training(trainee, [example(f"{index}") for index in range(10)], [example()], options)
    return training, watcher, training.run(watcher, stop or threading.Event())


def test_early_stopping_keeps_the_best_state() -> None:
    trainee = OneNumber([0.1, 0.3, 0.6, 0.5, 0.4, 0.6, 0.9])
    training, watcher, is_stopped = trained(trainee, TrainingOptions(steps=60, every=10, patience=3, batch=2))
    assert not is_stopped
    assert watcher.best == [True, True, True, False, False, False]  # an equal match at an equal loss is none better
    curves = training.curves
    assert (curves.best_step, curves.stopped_early) == (20, True)
    assert curves.validation_steps == [0, 10, 20, 30, 40, 50]
    assert curves.validation_match == [0.1, 0.3, 0.6, 0.5, 0.4, 0.6]
    assert float(training.best["number"]) == trainee.states[2] != trainee.states[5]


def test_steps_go_over_all_examples_before_any_comes_again_and_are_seeded() -> None:
    options = TrainingOptions(steps=10, batch=2, seed=3, every=10)
    runs = []
    for _ in range(2):
        trainee = OneNumber([0.0, 0.0])
        trained(trainee, options)
        runs.append(trainee.batches)
    assert runs[0] == runs[1]
    assert sorted(name for batch in runs[0][:5] for name in batch) == [f"{index}" for index in range(10)]
    assert runs[0][:5] != runs[0][5:]


def test_a_loss_that_is_no_number_ends_it_in_a_sentence() -> None:
    trainee = OneNumber([0.1] * 3)
    trainee.loss = lambda examples: trainee.number * math.nan  # type: ignore[method-assign]  # a training gone wrong
    with pytest.raises(UserError, match="lower --learning-rate"):
        trained(trainee, TrainingOptions(steps=3))


@given(st.lists(st.sampled_from("abcdefgh"), min_size=2, max_size=40), st.floats(0.01, 0.5), st.integers(0, 5))
def test_a_scene_is_never_on_both_sides(scenes: list[str], share: float, seed: int) -> None:
    if len(set(scenes)) < 2:
        with pytest.raises(UserError, match="of one scene"):
            split_by_scene(scenes, share, seed)
        return
    chosen, back = split_by_scene(scenes, share, seed)
    assert sorted(chosen + back) == list(range(len(scenes)))
    assert chosen
    assert back
    assert {scenes[index] for index in chosen}.isdisjoint(scenes[index] for index in back)
    assert len({scenes[index] for index in back}) == max(1, round(share * len(set(scenes))))
    assert (chosen, back) == split_by_scene(scenes, share, seed)


def test_figures_are_weighed_by_tokens() -> None:
    found = mean_figures([(Figures(1.0, 0.5), 30), (Figures(3.0, 1.0), 10), (Figures(math.nan, math.nan), 1)])
    assert (found.loss, found.match) == (1.5, 0.625)
    with pytest.raises(UserError, match="nothing to draft"):
        mean_figures([(Figures(math.nan, math.nan), 1)])


@pytest.mark.parametrize(
    "values",
    [
        {"steps": 0},
        {"batch": 0},
        {"patience": 0},
        {"every": -1},
        {"learning_rate": 0.0},
        {"learning_rate": math.nan},
        {"validation": 0.0},
        {"validation": 0.9},
    ],
)
def test_options_that_mean_nothing(values: dict[str, Any]) -> None:
    with pytest.raises(UserError) as caught:
        TrainingOptions(**values).validate()
    assert caught.value.exit_code == 2
    with pytest.raises(UserError, match="at least two scenes"):
        Training(OneNumber([]), [], [example()], TrainingOptions())


SETTINGS = GenerationSettings(max_new_tokens=5, frames=2, event_frames=2)
TARGET, DRAFT = ModelChoice("target", "cpu", "float32"), ModelChoice("draft", "cpu", "float32")
FEW = TrainingOptions(steps=2, batch=2, every=1, validation=0.34)


def name_of(choice: ModelChoice) -> str:
    return f"the {choice.name}"


class Nobody:
    """A watcher of collecting and of training; `then` hears of every judgement."""

    def __init__(self, then: Callable[[int], None] = lambda _: None) -> None:
        self.then = then

    def begin(self, *_: Any) -> None: ...

    def end(self, *_: Any) -> None: ...

    def say(self, sentence: str) -> None: ...

    def step(self, step: int, steps: int, loss: float) -> None: ...

    def judged(self, curves: Curves, *, is_best: bool) -> None:
        self.then(len(curves.validation_steps))


_KEPT: dict[str, Path] = {}


@pytest.fixture
def data(tmp_path_factory: Any, tiny_models: Any) -> Path:
    """Examples of three scenes, of a pair with random weights; collected once."""
    if "data" not in _KEPT:
        _KEPT["data"] = collected(tmp_path_factory.mktemp("data") / "examples", tiny_models)
    return _KEPT["data"]


def collected(
    folder: Path, loader: Any, samples: list[Sample] | None = None, draft: ModelChoice | None = DRAFT
) -> Path:
    plan = CollectPlan(samples or bundled_samples(), TARGET, draft, SETTINGS, folder)
    source = ExamplesHere(plan, loader=loader, identity=name_of, needs_room=False)
    Collecting(plan, source).run(Nobody(), threading.Event())
    return folder


@pytest.fixture
def train(tiny_models: Any) -> Callable[..., TrainEnd]:
    def run(
        data: Path,
        kind: str,
        folder: Path,
        watcher: Any = None,
        stop: Any = None,
        *,
        identity: Any = name_of,
        **more: Any,
    ) -> TrainEnd:
        plan = TrainPlan(data, kind, folder, **({"options": FEW} | more))
        return train_adapter(
            plan,
            watcher or Nobody(),
            stop or threading.Event(),
            loader=tiny_models,
            identity=identity,
        )

    return run


@pytest.mark.parametrize("kind", TAUGHT_KINDS)
def test_every_kind_becomes_an_adapter_that_is_read_back(train, data, tiny_models, tmp_path, kind) -> None:
    end = train(data, kind, tmp_path / "made")
    adapter = read_adapter(str(tmp_path / "made"))
    assert (adapter.kind, adapter.name, adapter.target) == (kind, "made", "tiny-target")
    assert (adapter.hidden_size, adapter.vocabulary) == (32, 32_003)
    assert adapter.draft == ("tiny-draft" if kind in ("hidden", "lora", "kv") else None)
    training = adapter.training
    assert (training["examples"], training["validation_examples"], training["scenes"]) == (2, 1, 2)
    assert training["data"] == read_collection(data).digest()
    assert set(training["seen"]) == {scene_of(sample) for sample in bundled_samples()}
    assert training["validation_match"] == end.curves.validation_match
    assert len(training["validation_steps"]) == (1 if kind == "ngram" else 3)
    card = (tmp_path / "made" / "MODEL_CARD.md").read_text()
    assert f"`{kind}`" in card
    assert "Not evaluated yet" in card


def test_a_stop_keeps_the_best_state_and_before_the_first_step_nothing(train, data, tmp_path, stop_after) -> None:
    stop = threading.Event()
    end = train(
        data,
        "hidden",
        tmp_path / "made",
        Nobody(lambda judged: stop.set() if judged == 2 else None),
        stop,
        options=replace(FEW, steps=100),
    )
    assert (end.is_stopped, end.curves.validation_steps) == (True, [0, 1])
    assert (tmp_path / "made" / "adapter.safetensors").is_file() == (end.curves.best_step == 1)
    stop.set()
    end = train(data, "hidden", tmp_path / "none", stop=stop)
    assert (end.adapter, end.is_stopped, (tmp_path / "none").exists()) == (None, True, False)


def test_a_training_that_breaks_off_leaves_nothing_half(train, data, tmp_path) -> None:
    def break_off(judged: int) -> None:
        if judged == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(data, "eagle", tmp_path / "made", Nobody(break_off))
    assert list(tmp_path.iterdir()) == []
    train(data, "ngram", tmp_path / "made")
    good = {path.name: path.read_bytes() for path in (tmp_path / "made").iterdir()}
    with pytest.raises(KeyboardInterrupt):
        train(data, "eagle", tmp_path / "made", Nobody(break_off), overwrite=True)
    assert {path.name: path.read_bytes() for path in (tmp_path / "made").iterdir()} == good


def test_refusals(train, data, tiny_models, tmp_path) -> None:
    with pytest.raises(UserError, match="collected with another target"):
        train(data, "eagle", tmp_path / "made", identity=lambda choice: "another")
    alone = collected(tmp_path / "alone", tiny_models, bundled_samples()[:1], draft=None)
    with pytest.raises(UserError, match="collected without a draft"):
        train(alone, "hidden", tmp_path / "made")
    with pytest.raises(UserError, match="of one scene"):
        train(alone, "ngram", tmp_path / "made")
    with pytest.raises(UserError, match="no collected examples"):
        train(tmp_path, "ngram", tmp_path / "made")
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.txt").write_text("years of work")
    with pytest.raises(UserError, match="is no adapter"):
        train(data, "ngram", tmp_path / "thesis", overwrite=True)
    train(data, "ngram", tmp_path / "made")
    with pytest.raises(UserError, match="--overwrite"):
        train(data, "ngram", tmp_path / "made")
    assert not (tmp_path / "made.part").exists()


def test_an_evaluation_is_written_into_description_and_card(train, data, tmp_path) -> None:
    adapter = train(data, "ngram", tmp_path / "made").adapter
    found = {
        "samples": 3,
        "repeat": 2,
        "device": "cpu",
        "dtype": "float32",
        "token_match": 0.5,
        "decode_speedup": 1.25,
        "decode_ci95": [1.1, 1.4],
        "acceptance_per_position": [0.5, 0.25],
        "answers": 6,
        "same_answers": 6,
    }
    write_evaluation(adapter, found)
    again = read_adapter(str(tmp_path / "made"))
    assert (again.evaluation, again.training) == (found, json.loads(json.dumps(adapter.training)))
    card = (tmp_path / "made" / "MODEL_CARD.md").read_text()
    for words in ("1.25× (95 %: 1.10 to 1.40)", "50.0 % / 25.0 %", "6 of 6", "3 held-out samples"):
        assert words in card
    assert load_tensors(again)
