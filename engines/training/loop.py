"""The training loop of every kind of adapter: steps, a schedule, validation, early stopping, and the best state kept.

It knows trainees by their protocol alone, which is here, too, and no files.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import nn

from engines.stages.model import VisionLanguageModel
from engines.training.example import Example
from evprof.core.errors import USAGE, UserError
from evprof.core.plain import Plain
from evprof.core.protocols import StopFlag


@dataclass(frozen=True)
class Figures:
    """On held-out examples: mean `loss` per token, and `match`, the teacher-forced share of right tokens."""

    loss: float
    match: float


class Trainee(ABC):
    """An adapter being trained. Models it hangs on are frozen and shared."""

    @abstractmethod
    def parameters(self) -> list[nn.Parameter]:
        """What is trained; empty for what is counted rather than trained (then `fit` does everything)."""

    @abstractmethod
    def loss(self, examples: Sequence[Example]) -> torch.Tensor:
        """Mean loss of a batch, with gradients."""

    @abstractmethod
    def figures(self, examples: Sequence[Example]) -> Figures:
        """On held-out examples, without gradients."""

    @abstractmethod
    def tensors(self) -> dict[str, torch.Tensor]:
        """What is stored in adapter.safetensors."""

    @abstractmethod
    def config(self) -> dict[str, Any]:
        """Sizes, for adapter.json."""

    def fit(self, examples: Sequence[Example]) -> None:
        return

    def release(self) -> None:
        return


class ModuleTrainee(Trainee):
    def __init__(self, module: nn.Module) -> None:
        self._module = module

    def parameters(self) -> list[nn.Parameter]:
        return list(self._module.parameters())

    def tensors(self) -> dict[str, torch.Tensor]:
        return {name: tensor.detach().clone() for name, tensor in self._module.state_dict().items()}


@dataclass(frozen=True)
class Forced:
    """Teacher-forced `logits` [N, V] and `answers` [N]. `known` [N] is False for tokens that count as missed and have
    no loss."""

    logits: torch.Tensor
    answers: torch.Tensor
    known: torch.Tensor | None = None

    def loss(self) -> torch.Tensor:
        chosen = slice(None) if self.known is None else self.known
        return F.cross_entropy(self.logits[chosen], self.answers[chosen])


class ForcedTrainee(Trainee):
    """A trainee whose loss and figures come from one teacher-forced pass."""

    @abstractmethod
    def predict(self, examples: Sequence[Example], *, is_training: bool) -> Forced:
        """All answer tokens of all examples."""

    def loss(self, examples: Sequence[Example]) -> torch.Tensor:
        return self.predict(examples, is_training=True).loss()

    @torch.no_grad()
    def figures(self, examples: Sequence[Example]) -> Figures:
        forced = self.predict(examples, is_training=False)
        right = forced.logits.argmax(dim=-1) == forced.answers
        if forced.known is not None:
            right &= forced.known
        return Figures(float(forced.loss()), float(right.float().mean()))


@dataclass(frozen=True)
class TraineeSide:
    """`sizes` are requested by name; the kind has defaults. Examples keep the inputs of the target's `layers`."""

    target: VisionLanguageModel
    draft: VisionLanguageModel | None = None
    sizes: Mapping[str, int] = field(default_factory=dict)
    seed: int = 0
    layers: tuple[int, ...] = ()

    @property
    def paired(self) -> VisionLanguageModel:
        """The draft. Raises UserError where none took part."""
        if self.draft is None:
            raise UserError(
                "This kind is taught from the draft's hidden states, and the examples were collected without a draft; "
                "collect them with one."
            )
        return self.draft

    def size(self, name: str, default: int) -> int:
        return self.sizes.get(name, default)


_WARM_SHARE, _LAST_SHARE = 0.05, 0.02
"""Of all steps the rate rises; of the highest rate what is left at the end."""

_CLIP_NORM = 1.0
_WEIGHT_DECAY = 0.01
_LOSS_POINTS = 200


@dataclass(frozen=True)
class TrainingOptions(Plain):
    """`validation` is the share of scenes held back, judged `every` so many steps (0: twenty times); training ends
    after `patience` judgements without improvement."""

    steps: int = 2000
    batch: int = 8
    learning_rate: float = 1e-3
    validation: float = 0.1
    patience: int = 5
    every: int = 0
    seed: int = 0

    def validate(self) -> None:
        """Raises UserError (exit code 2) for values that mean nothing."""
        for option, value, least in (
            ("--steps", self.steps, 1),
            ("--batch", self.batch, 1),
            ("--patience", self.patience, 1),
            ("--validate-every", self.every, 0),
        ):
            if value < least:
                raise UserError(f"{option} must be at least {least}, not {value}.", exit_code=USAGE)
        if not 0 < self.learning_rate < 10:
            raise UserError(
                f"--learning-rate must lie above 0 and below 10, not {self.learning_rate}.", exit_code=USAGE
            )
        if not 0 < self.validation <= 0.5:
            raise UserError(f"--validation must lie above 0 and up to 0.5, not {self.validation}.", exit_code=USAGE)

    @property
    def interval(self) -> int:
        return self.every or max(1, self.steps // 20)

    def rate(self, step: int) -> float:
        """The learning rate of a step, from 0: up in a line, then down along a cosine."""
        warm = max(1, round(_WARM_SHARE * self.steps))
        if step < warm:
            return self.learning_rate * (step + 1) / warm
        done = (step - warm) / max(1, self.steps - warm)
        share = _LAST_SHARE + (1 - _LAST_SHARE) * 0.5 * (1 + math.cos(math.pi * done))
        return self.learning_rate * share


@dataclass
class Curves(Plain):
    """The course of a training; `best_step` is kept, `loss` is the mean since the last point."""

    steps: list[int] = field(default_factory=list)
    loss: list[float] = field(default_factory=list)
    validation_steps: list[int] = field(default_factory=list)
    validation_loss: list[float] = field(default_factory=list)
    validation_match: list[float] = field(default_factory=list)
    best_step: int = 0
    stopped_early: bool = False
    examples: int = 0
    validation_examples: int = 0


class TrainingWatcher(Protocol):
    def step(self, step: int, steps: int, loss: float) -> None:
        """One step is done; the latest mean loss."""

    def judged(self, curves: Curves, *, is_best: bool) -> None:
        """The held-back examples were looked at."""


class Training:
    def __init__(
        self, trainee: Trainee, examples: Sequence[Example], held_back: Sequence[Example], options: TrainingOptions
    ) -> None:
        """Raises UserError without examples on either side."""
        if not len(examples) or not len(held_back):
            raise UserError("Training needs examples of at least two scenes, one of them held back; collect more.")
        self._trainee = trainee
        self._examples, self._held_back = examples, held_back
        self._options = options
        self.curves = Curves(examples=len(examples), validation_examples=len(held_back))
        self.best: dict[str, torch.Tensor] | None = None
        self._best_match, self._best_loss = -1.0, math.inf
        self._in_vain = 0

    def run(self, watcher: TrainingWatcher, stop: StopFlag) -> bool:
        """Trains until the steps are done, nothing improves, or `stop`; returns whether it was stopped. `best` is None
        before the first judgement. Raises UserError for a loss that is no number."""
        parameters = self._trainee.parameters()
        self._trainee.fit(self._examples)
        self._judge(0, watcher)
        if not parameters:
            return stop.is_set()
        optimizer = torch.optim.AdamW(parameters, lr=self._options.learning_rate, weight_decay=_WEIGHT_DECAY)
        return self._steps(optimizer, parameters, watcher, stop)

    def _steps(
        self,
        optimizer: torch.optim.Optimizer,
        parameters: list[torch.nn.Parameter],
        watcher: TrainingWatcher,
        stop: StopFlag,
    ) -> bool:
        options = self._options
        losses: list[torch.Tensor] = []
        every = max(1, options.steps // _LOSS_POINTS)
        batches = _batches(len(self._examples), options)
        for step in range(options.steps):
            if stop.is_set():
                if self.curves.validation_steps[-1] < step:
                    self._judge(step, watcher)
                return True
            for group in optimizer.param_groups:
                group["lr"] = options.rate(step)
            optimizer.zero_grad(set_to_none=True)
            loss = self._trainee.loss([self._examples[index] for index in next(batches)])
            loss.backward()
            torch.nn.utils.clip_grad_norm_(parameters, _CLIP_NORM)
            optimizer.step()
            losses.append(loss.detach())
            done = step + 1
            if done % every == 0 or done == options.steps:
                self._note(done, float(torch.stack(losses).mean()), watcher)
                losses.clear()
            if done % options.interval == 0 or done == options.steps:
                self._judge(done, watcher)
                if self._in_vain >= options.patience and done < options.steps:
                    self.curves.stopped_early = True
                    return False
        return False

    def _note(self, step: int, loss: float, watcher: TrainingWatcher) -> None:
        if not math.isfinite(loss):
            raise UserError(
                f"The loss was no number any more after {step} steps; train with a lower --learning-rate than "
                f"{self._options.learning_rate:g}."
            )
        self.curves.steps.append(step)
        self.curves.loss.append(loss)
        watcher.step(step, self._options.steps, loss)

    def _judge(self, step: int, watcher: TrainingWatcher) -> None:
        """Looks at the held-back examples; a better match is better, at the same match a lower loss."""
        found = judged(self._trainee, self._held_back, self._options.batch)
        curves = self.curves
        curves.validation_steps.append(step)
        curves.validation_loss.append(found.loss)
        curves.validation_match.append(found.match)
        is_best = (found.match, -found.loss) > (self._best_match, -self._best_loss) or self.best is None
        # A loss that still falls promises something even while the match stands still.
        is_lower = found.loss < min(curves.validation_loss[:-1], default=math.inf)
        self._in_vain = 0 if is_best or is_lower else self._in_vain + 1
        if is_best:
            self._best_match, self._best_loss = found.match, found.loss
            curves.best_step = step
            tensors = self._trainee.tensors()
            self.best = {name: tensor.detach().to("cpu", copy=True) for name, tensor in tensors.items()}
        watcher.judged(curves, is_best=is_best)


def judged(trainee: Trainee, examples: Sequence[Example], batch: int) -> Figures:
    parts = (
        [examples[index] for index in range(start, min(start + batch, len(examples)))]
        for start in range(0, len(examples), batch)
    )
    return mean_figures(
        (trainee.figures(part), sum(int(example.answer_ids.shape[0]) for example in part)) for part in parts
    )


def mean_figures(found: Iterable[tuple[Figures, int]]) -> Figures:
    """Figures of several batches with their answer tokens -> the mean over tokens. Raises UserError if nothing can be
    drafted."""
    loss = match = 0.0
    weight = 0
    for each, tokens in found:
        if not math.isfinite(each.match):
            continue  # answers of a single token have nothing to draft
        loss, match, weight = loss + tokens * each.loss, match + tokens * each.match, weight + tokens
    if not weight:
        raise UserError(
            "None of the held-out answers has a second token, so there is nothing to draft; ask for longer ones."
        )
    return Figures(loss / weight, match / weight)


def split_by_scene(scenes: Sequence[str], share: float, seed: int) -> tuple[list[int], list[int]]:
    """Indices of training and held-back examples, split by scene, at least one held back. Raises UserError below two
    scenes."""
    known = list(dict.fromkeys(scenes))
    if len(known) < 2:
        raise UserError(
            f"All {len(scenes):,} examples are of one scene, so none can be held back to judge the others; collect "
            "from more samples."
        )
    order = torch.randperm(len(known), generator=torch.Generator().manual_seed(seed)).tolist()
    count = min(max(1, round(share * len(known))), len(known) - 1)
    back = {known[index] for index in order[:count]}
    return (
        [index for index, scene in enumerate(scenes) if scene not in back],
        [index for index, scene in enumerate(scenes) if scene in back],
    )


def _batches(count: int, options: TrainingOptions) -> Iterator[list[int]]:
    generator = torch.Generator().manual_seed(options.seed)
    size = min(options.batch, count)
    while True:
        order: list[int] = torch.randperm(count, generator=generator).tolist()
        yield from (order[start : start + size] for start in range(0, count - size + 1, size))


def facts_of(curves: Curves, *, adapter: str, kind: str, started_at: str) -> dict[str, Any]:
    return {"adapter": adapter, "kind": kind, "started_at": started_at, **curves.to_json()}
