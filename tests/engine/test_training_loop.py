"""The training loop on a trainee of one number: the best state is kept, and nothing else decides."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from engines.training.example import Example
from engines.training.loop import Curves, Training, TrainingOptions, mean_figures, split_by_scene
from engines.training.trainee import Figures, Trainee
from evprof.core.errors import UserError


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
        return Figures(self._losses[place], self._matches[place], 0.5)

    def tensors(self) -> dict[str, torch.Tensor]:
        return {"number": self.number.detach()}

    def load(self, tensors: dict[str, torch.Tensor]) -> None:
        with torch.no_grad():
            self.number.copy_(tensors["number"])

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
    assert float(trainee.number.detach()) == trainee.states[2] != trainee.states[5]
    assert training.best is not None
    assert float(training.best["number"]) == trainee.states[2]


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
    found = mean_figures([(Figures(1.0, 0.5, 0.2), 30), (Figures(3.0, 1.0, 0.6), 10), (Figures(math.nan, math.nan), 1)])
    assert (found.loss, found.match, found.cosine) == (1.5, 0.625, pytest.approx(0.3))
    assert mean_figures([(Figures(1.0, 0.5, 0.2), 1), (Figures(1.0, 0.5), 1)]).cosine is None
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
