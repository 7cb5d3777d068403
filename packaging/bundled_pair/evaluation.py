"""What the bundled pair can and cannot see, and how often the target takes the draft's word, on held-out scenes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event

import numpy as np
import torch

from bundled_pair.attributes import EVENT_VISIBLE, VALUES, VIDEO_VISIBLE, chance
from bundled_pair.captions import SPECIFIC_PROMPTS, concise, detailed, parse
from bundled_pair.dataset import held_out_scenes
from bundled_pair.export import EVENTGPT_NAME, VIDEO_LLAVA_NAME
from bundled_pair.held_out import Witness, load, write_scenes
from bundled_pair.openness import GENERAL_QUESTION, Openness, openness_of
from bundled_pair.scenes import Scene
from engines.decoder.decoding import CachedModel, Limits
from engines.drafters.model_drafter import ModelDrafter
from engines.measuring.timing import NullClock
from engines.speculation.draft_length import Fixed
from engines.speculation.rounds import Rounds
from engines.speculation.verification import Verifier
from engines.tokens.answer import Round, SilentAnswer
from engines.tokens.vocabulary_alignment import align
from evprof.core.records import DRAFT, TARGET
from evprof.loaders.bundled_evaluation import EVALUATION

GAMMA = 5
REQUIRED_ACCURACY = 0.90
CHANCE_TOLERANCE = 0.05
KEPT = ("scenes", "seed", "accuracy", "openness", "acceptance", "command")
_DERANGEMENTS = 20
_RESAMPLED = 2000


@dataclass(frozen=True)
class Scores:
    """Shares of right answers by attribute: said unasked in the caption, and answered to a direct question.

    Captions are judged on what the model can see, questions are asked about everything.

    The shuffled ones are scored against the scene whose input another scene's input was given for.
    """

    caption: dict[str, float]
    asked: dict[str, float]
    shuffled_caption: dict[str, float]
    shuffled_asked: dict[str, float]


@dataclass(frozen=True)
class Acceptance:
    """Greedy speculative decoding of the general question: draft EventGPT, target Video-LLaVA."""

    gamma: int
    rounds: int
    drafted: int
    accepted: int
    draft_acceptance_rate: float
    ci95: tuple[float, float]
    mean_acceptance_length: float
    unique_tokens: int


@dataclass(frozen=True)
class Evaluation:
    """Everything measured; ``shortfalls`` are the bars missed, one sentence each."""

    scenes: int
    seed: int
    models: dict[str, Scores]
    openness: dict[str, Openness]
    acceptance: Acceptance

    def shortfalls(self) -> list[str]:
        missed: list[str] = []
        for name, visible in ((EVENTGPT_NAME, EVENT_VISIBLE), (VIDEO_LLAVA_NAME, VIDEO_VISIBLE)):
            scores = self.models[name]
            for attribute in visible:
                for kind, right in (("caption", scores.caption[attribute]), ("answer", scores.asked[attribute])):
                    if right < REQUIRED_ACCURACY:
                        missed.append(f"{name} names {attribute} right in {right:.1%} of its {kind}s.")
            blind = {attribute: scores.asked[attribute] for attribute in VALUES if attribute not in visible}
            for what, shares in (
                ("unseen", blind),
                ("shuffled", scores.shuffled_caption),
                ("shuffled, asked", scores.shuffled_asked),
            ):
                for attribute, right in shares.items():
                    if abs(right - chance(attribute)) > CHANCE_TOLERANCE:
                        missed.append(f"{name} names {attribute} ({what}) right in {right:.1%}, which is not chance.")
        return missed


def evaluate(models: Path, scenes: Sequence[Scene], seed: int, workers: int = 2) -> Evaluation:
    """Write ``scenes`` as files, have both models below ``models`` look at them, and question them."""
    with TemporaryDirectory(prefix="evprof-tiny-") as folder:
        samples = write_scenes(Path(folder), scenes, workers)
        draft = Witness(load(models / EVENTGPT_NAME, DRAFT), DRAFT, samples)
        target = Witness(load(models / VIDEO_LLAVA_NAME, TARGET), TARGET, samples)
    scores = {
        EVENTGPT_NAME: score(draft, scenes, EVENT_VISIBLE, seed),
        VIDEO_LLAVA_NAME: score(target, scenes, VIDEO_VISIBLE, seed),
    }
    openness = {
        EVENTGPT_NAME: openness_of(draft, concise, seed),
        VIDEO_LLAVA_NAME: openness_of(target, detailed, seed),
    }
    return Evaluation(len(scenes), seed, scores, openness, acceptance(draft, target, seed))


def score(witness: Witness, scenes: Sequence[Scene], visible: Sequence[str], seed: int) -> Scores:
    """Question ``witness`` on every scene, once in general and once on each attribute."""
    captions = [parse(said.text) for said in witness.answers(GENERAL_QUESTION)]
    asked = {name: [parse(said.text) for said in witness.answers(SPECIFIC_PROMPTS[name][0])] for name in VALUES}
    truth = {name: [getattr(scene.attributes, name) for scene in scenes] for name in VALUES}
    said = {name: [caption.get(name) for caption in captions] for name in visible}
    told = {name: [reply.get(name) for reply in asked[name]] for name in VALUES}
    return Scores(
        {name: _agreement(said[name], truth[name]) for name in visible},
        {name: _agreement(told[name], truth[name]) for name in VALUES},
        {name: _shuffled_agreement(said[name], truth[name], seed) for name in visible},
        {name: _shuffled_agreement(told[name], truth[name], seed) for name in VALUES},
    )


def _agreement(answers: Sequence[str | None], truth: Sequence[str]) -> float:
    return float(np.mean([answer == value for answer, value in zip(answers, truth, strict=True)]))


def _shuffled_agreement(answers: Sequence[str | None], truth: Sequence[str], seed: int) -> float:
    """Mean agreement over derangements of the inputs.

    The question is the same for all scenes, so an answer depends on the input alone: to give scene i the input of
    scene j is to take the answer of scene j. One random cycle through all scenes, walked by 1, 2, … steps, never
    leaves a scene its own input.
    """
    cycle = np.random.default_rng((seed, 4)).permutation(len(truth))
    shares = []
    for steps in range(1, min(_DERANGEMENTS, len(truth) - 1) + 1):
        given = np.empty(len(truth), dtype=np.int64)
        given[cycle] = np.roll(cycle, -steps)
        shares.append(_agreement([answers[index] for index in given.tolist()], truth))
    return float(np.mean(shares))


class _Tally(SilentAnswer):
    """Counts rounds; keeps nothing else."""

    def __init__(self) -> None:
        super().__init__()
        self.rounds = self.drafted = self.accepted = 0

    def note_round(self, turn: Round) -> None:
        self.rounds += 1
        self.drafted += len(turn.drafted_ids)
        self.accepted += turn.accepted


@torch.no_grad()
def acceptance(draft: Witness, target: Witness, seed: int) -> Acceptance:
    """Speculative decoding of the general question on every scene both have seen; the interval draws whole scenes."""
    tallies: list[_Tally] = []
    alignment = align(draft.model.vocabulary, target.model.vocabulary)
    for scene in range(len(target.visual)):
        tally = _Tally()
        fresh = {role: CachedModel.over(witness.language, role) for role, witness in ((DRAFT, draft), (TARGET, target))}
        fresh[DRAFT].prefill(draft.prompt(GENERAL_QUESTION, scene), Event())
        logits = fresh[TARGET].prefill(target.prompt(GENERAL_QUESTION, scene), Event())
        tally.add(int(logits.argmax()))
        limits = Limits(128, target.model.vocabulary.eos_ids)
        Rounds(
            fresh[TARGET],
            ModelDrafter(EVENTGPT_NAME, fresh[DRAFT], alignment, limits.eos_ids),
            tally,
            limits,
            length=Fixed(GAMMA),
            verifier=Verifier(),
            clock=NullClock(),
            stop=Event(),
        ).run()
        tallies.append(tally)
    counts = np.array([(tally.accepted, tally.drafted, tally.rounds) for tally in tallies])
    chosen = np.random.default_rng((seed, 5)).integers(len(counts), size=(_RESAMPLED, len(counts)))
    again = counts[chosen].sum(axis=1)
    low, high = np.quantile(again[:, 0] / again[:, 1], (0.025, 0.975))
    accepted, drafted, rounds = (int(total) for total in counts.sum(axis=0))
    unique = sum(len(tally.ids) for tally in tallies)
    interval = (float(low), float(high))
    return Acceptance(GAMMA, rounds, drafted, accepted, accepted / drafted, interval, 1 + accepted / rounds, unique)


def evaluate_pair(models: Path, count: int, seed: int, *, as_json: bool) -> int:
    """Print the evaluation on ``count`` held-out scenes; the exit code says whether every bar is met."""
    result = evaluate(models, held_out_scenes(count, seed), seed)
    shortfalls = result.shortfalls()
    document = {**asdict(result), "accuracy": by_kind(result), "shortfalls": shortfalls}
    document["command"] = f"python packaging/make_pair.py --seed {seed} evaluate --scenes {count}"
    kept = models / VIDEO_LLAVA_NAME / EVALUATION
    kept.write_text(json.dumps({name: document[name] for name in KEPT}, indent=1) + "\n", encoding="utf-8")
    if as_json:
        print(json.dumps(document, indent=2))
    else:
        print(table(result))
        print("\n".join(shortfalls) or "Every bar is met.")
    return 1 if shortfalls else 0


def by_kind(result: Evaluation) -> dict[str, dict[str, dict[str, float]]]:
    """Accuracy by model and kind of question: what captions say of what can be seen, and each attribute asked for."""
    return {
        name: {
            "captions": {
                "right": float(np.mean(list(scores.caption.values()))),
                "other_input": float(np.mean(list(scores.shuffled_caption.values()))),
                "chance": float(np.mean([chance(attribute) for attribute in scores.caption])),
            },
            **{
                attribute: {
                    "right": scores.asked[attribute],
                    "other_input": scores.shuffled_asked[attribute],
                    "chance": chance(attribute),
                }
                for attribute in VALUES
            },
        }
        for name, scores in result.models.items()
    }


def table(result: Evaluation) -> str:
    """The evaluation as Markdown, as the model cards carry it."""
    lines = [f"{result.scenes} held-out scenes, seed {result.seed}, float32, CPU, greedy."]
    for name, scores in result.models.items():
        lines += ["", f"`{name}`", "", "| attribute | in the caption | when asked | caption, another scene's input | "]
        lines[-1] += "asked, another scene's input | chance |"
        lines.append("|---|---|---|---|---|---|")
        for attribute in VALUES:
            said = [
                f"{column[attribute]:.1%}" if attribute in column else "not said"
                for column in (scores.caption, scores.shuffled_caption)
            ]
            told = [f"{column[attribute]:.1%}" for column in (scores.asked, scores.shuffled_asked)]
            lines.append(f"| {attribute} | {said[0]} | {told[0]} | {said[1]} | {told[1]} | {chance(attribute):.1%} |")
    speed = result.acceptance
    lines += [
        "",
        f"Speculative decoding, γ = {speed.gamma}: {speed.accepted} of {speed.drafted} drafted tokens accepted "
        f"({speed.draft_acceptance_rate:.1%}, 95 %: {speed.ci95[0]:.1%} to {speed.ci95[1]:.1%}, drawn by scene) in "
        f"{speed.rounds} rounds, {speed.mean_acceptance_length:.2f} tokens a round.",
    ]
    return "\n".join(lines)
